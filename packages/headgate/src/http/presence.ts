import type { CountWhen } from '../charge.ts'
import type { Decision } from '../decision.ts'

/** What tells that a caller has gone: a response or a connection of Node, or a Request and its signal. */
export type Presence =
  | { readonly signal: AbortSignal }
  | {
      once(event: 'close', call: () => void): unknown
      off(event: 'close', call: () => void): unknown
    }

/** In place of a decision: whoever it was for has gone while it was held back or stood in a queue, and its turn is somebody else's. */
export class CallerLeft extends Error {
  constructor() {
    super('the caller has gone while it was held back')
  }
}

/** A signal that aborts when the caller goes, until `forget` is called. */
export function leaving(presence: Presence): { readonly signal: AbortSignal; forget(): void } {
  if ('signal' in presence) return { signal: presence.signal, forget: () => {} }
  const controller = new AbortController()
  const left = () => controller.abort()
  presence.once('close', left)
  return { signal: controller.signal, forget: () => void presence.off('close', left) }
}

type Decided = Decision<unknown>

/** What it needs of a gate beyond what users see. */
export interface Holding {
  waitOrNow(request: unknown, options: object, boundOf?: (limit: string) => number): Decided | Promise<Decided>
}

export interface HoldOptions {
  /** Longest that a request is held back. */
  readonly maxMs: number
  /** How long by each limit, where they differ: 0 refuses at once. */
  readonly boundOf?: (limit: string) => number
  readonly countWhen?: CountWhen
}

/** So many requests are held back at once by whoever counts them; further ones are better refused. */
export const MOST_HELD = 10_000

/** Takes, or holds the request back until it may go: at once where nobody has to wait. Rejects with `CallerLeft` if its caller goes
 *  before that. */
export function holdBack(
  gate: Holding,
  request: unknown,
  presence: Presence,
  { boundOf, ...options }: HoldOptions,
): Decided | Promise<Decided> {
  const { signal, forget } = leaving(presence)
  const explain = (error: unknown) => (signal.aborted ? new CallerLeft() : error)
  let decision: Decided | Promise<Decided> | undefined
  try {
    decision = gate.waitOrNow(request, { ...options, signal }, boundOf)
  } catch (error) {
    throw explain(error)
  } finally {
    if (!(decision instanceof Promise)) forget()
  }
  if (!(decision instanceof Promise)) return decision
  return decision
    .catch((error: unknown) => {
      throw explain(error)
    })
    .finally(forget)
}
