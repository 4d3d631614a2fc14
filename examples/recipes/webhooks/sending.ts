// Sending webhooks: each receiver gets them evenly spaced, in order, and again if it could not take them.
import { createGate, type GateOptions } from 'headgate'
import { politeFetch } from 'headgate/client'

interface Hook {
  /** Of the event: a receiver that gets it twice acts once. */
  readonly id: string
  readonly url: string
  readonly body: object
}

export function sender(counting: GateOptions = {}) {
  const gate = createGate({ limit: '10/s burst 1', algorithm: 'leaky-bucket', ...counting }) // for each receiver
  const polite = politeFetch({ concurrency: 4, retries: 5, clock: counting.clock }) // waits as receivers say, repeats what they could not take

  /** False: put it back into your queue, for a minute or more. */
  return async function send({ id, url, body }: Hook, onTurn = () => {}): Promise<boolean> {
    const turn = await gate.wait(new URL(url).host, { maxMs: 30_000 })
    if (!turn.ok) return false
    onTurn()
    const headers = { 'content-type': 'application/json' }
    const call = { method: 'POST', headers, body: JSON.stringify(body), idempotencyKey: id }
    return polite(url, call).then(
      ({ ok }) => ok,
      () => false, // it was given up, or there is nobody
    )
  }
}
