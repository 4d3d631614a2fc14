import { show } from '../errors.ts'
import { RemoteFailed, refused } from './failures.ts'
import { type Message, type Reply, VERSION, type WireResult } from './protocol.ts'

/** A reply is believed but for its outline, which shows whether it is one. */
export function readReply(value: unknown, { groups }: Message): Reply {
  const reply = value as Partial<Reply> | null | undefined
  if (typeof reply === 'object' && reply !== null && typeof reply.v === 'number' && reply.v !== VERSION)
    throw refused(
      'version',
      `the other side speaks protocol version ${reply.v} and this library ${VERSION}: update the older`,
    )
  const { v, nowUs, results } = reply ?? {}
  const whole = v === VERSION && typeof nowUs === 'number' && Array.isArray(results)
  if (whole && results.length === groups.length && results.every((each, i) => isResult(each, groups[i]?.ops.length)))
    return reply as Reply
  throw new RemoteFailed('protocol', `the answer is ${show(value)} and no reply to ${groups.length} groups`)
}

function isResult(value: unknown, ops: number | undefined): value is WireResult {
  if (!Array.isArray(value)) return typeof (value as { error?: unknown } | null)?.error === 'string'
  const [ok, cost, outcomes, memo, waitUs] = value as unknown[]
  // A repeat tells the outcomes of the first.
  const complete = Array.isArray(outcomes) && (outcomes.length === ops || typeof memo === 'string')
  if (waitUs !== undefined && typeof waitUs !== 'number') return false
  return typeof ok === 'boolean' && typeof cost === 'number' && complete && outcomes.every(Array.isArray)
}
