/** Has something to write. */
interface Sender {
  flush(): void
}

let senders: Sender[] = []

/**
 * Lets it write at the end of this turn. What came in one turn so leaves together, and finds the servers awake: to wake one of the same
 * machine for each request took a seventh of all that the gateway did.
 */
export function flushSoon(sender: Sender): void {
  if (senders.length === 0) setImmediate(flushAll)
  senders.push(sender)
}

function flushAll(): void {
  const due = senders
  senders = []
  for (const sender of due) sender.flush()
}
