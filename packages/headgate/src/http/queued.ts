/** A connection, as far as it is asked for. */
interface Connection {
  readonly destroyed: boolean
  once(event: 'close', call: () => void): unknown
}

/** A response of Node. It has no connection while it waits behind another one, and none any more when it is over. */
interface Queued {
  readonly socket: object | null
  destroyed: boolean
  /** It has told of its end. Not in Node's types, which have it to be read only. */
  _closed?: boolean
  once(event: 'close', call: () => void): unknown
  emit(event: 'close'): unknown
}

/** Responses that wait behind another one on their connection. */
const queues = new WeakMap<Connection, Set<Queued>>()

/**
 * Node tells nobody of a connection's end who is behind another response on it, as the requests of a client are that does not wait
 * for answers: such a response would never be over, and hold what it has for good. This tells it.
 */
export function endWithConnection(connection: Connection, res: Queued): void {
  if (res.socket !== null || res.destroyed) return
  if (connection.destroyed) {
    res.destroyed = true
    return
  }
  const queue = queues.get(connection) ?? queueOn(connection)
  queue.add(res)
  res.once('close', () => queue.delete(res))
}

function queueOn(connection: Connection): Set<Queued> {
  const queue = new Set<Queued>()
  queues.set(connection, queue)
  connection.once('close', () => {
    for (const res of queue) {
      if (res.socket !== null) continue
      res.destroyed = true
      res._closed = true // or Node 24, which tells of it as well, would do so once more
      res.emit('close')
    }
  })
  return queue
}
