import type { CountWhen } from '../charge.ts'
import type { Decision } from '../decision.ts'
import type { Signal } from '../overload/types.ts'

/** What tells that a caller has gone: a response or a connection of Node, or a Request and its signal. */
export type Presence = { readonly signal: AbortSignal } | Closing

interface Closing {
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

/** Tells one listener that the caller goes. Costs nothing until there is one: few of those who are refused have to queue before. */
export function signalOf(presence: Presence): Signal {
  return 'signal' in presence ? presence.signal : new ClosingSignal(presence)
}

class ClosingSignal implements Signal {
  aborted = false
  readonly #presence: Closing
  #left = () => {}

  constructor(presence: Closing) {
    this.#presence = presence
  }

  addEventListener(_type: 'abort', call: () => void): void {
    this.#left = () => {
      this.aborted = true
      call()
    }
    this.#presence.once('close', this.#left)
  }

  removeEventListener(): void {
    this.#presence.off('close', this.#left)
  }
}

/** Whether a response of Node is over, or its caller has gone: nobody hears of that again. On HTTP/2 its stream knows. */
export function isOver(res: {
  readonly destroyed?: boolean
  readonly stream?: { readonly destroyed: boolean }
}): boolean {
  return res.destroyed ?? res.stream?.destroyed ?? false
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
