import type { Charge, Decision } from './decision.ts'
import type { Store } from './stores/store.ts'

type AnyDecision = Decision<unknown>

/** Somebody who waits for a turn. */
export interface Waiter {
  readonly charges: readonly Charge[]
  /** Arrivals are numbered, so that changing lines loses nobody's place. */
  readonly order: number
  readonly deadlineMs: number
  nowMs(): number
  after(ms: number, call: () => void): () => void
  /** Takes now, past the line. */
  take(): AnyDecision | Promise<AnyDecision>
  /** The decision of one who may not take. */
  refuse(): AnyDecision | Promise<AnyDecision>
  resolve(decision: AnyDecision | Promise<AnyDecision>): void
}

interface Line {
  readonly id: string
  readonly waiters: Waiter[]
  cancelTimer: () => void
  /** Somebody's take is under way. */
  busy: boolean
}

/**
 * Those who wait, in lines: one for each key of a limit that somebody waits for. A waiter stands in the line of the limit that
 * refused it, in order of arrival, and charges nothing until its turn: then it takes all its limits at once. So who gives up
 * leaves no trace, a take of the same key cannot overtake, a large cost is not starved by small ones, and a limit that does
 * not refuse is not held up by those who wait for another.
 */
export class Lines {
  static readonly #ofStore = new WeakMap<Store, Lines>()
  readonly #lines = new Map<string, Line>()
  readonly #lineOf = new Map<Waiter, Line>()
  #arrivals = 0

  /** Gates on one store share its lines as they share its counts. */
  static of(store: Store): Lines {
    let lines = Lines.#ofStore.get(store)
    if (lines === undefined) Lines.#ofStore.set(store, (lines = new Lines()))
    return lines
  }

  get empty(): boolean {
    return this.#lines.size === 0
  }

  nextOrder(): number {
    return ++this.#arrivals
  }

  /** Who stands before a request with these charges, in the first line that it would have to join. */
  ahead(charges: readonly Charge[]): { readonly charge: Charge; readonly waiters: readonly Waiter[] } | undefined {
    for (const charge of charges) {
      const line = charge.observe ? undefined : this.#lines.get(idOf(charge))
      if (line !== undefined) return { charge, waiters: line.waiters }
    }
    return undefined
  }

  /** Joins the line of a limit; whoever is first in it tries again in `ms`. */
  join(waiter: Waiter, charge: Charge, ms: number): void {
    const id = idOf(charge)
    let line = this.#lines.get(id)
    if (line === undefined) this.#lines.set(id, (line = { id, waiters: [], cancelTimer: () => {}, busy: false }))
    const later = line.waiters.findIndex((other) => other.order > waiter.order)
    line.waiters.splice(later < 0 ? line.waiters.length : later, 0, waiter)
    this.#lineOf.set(waiter, line)
    if (line.waiters[0] === waiter && !line.busy) this.#arm(line, ms)
  }

  leave(waiter: Waiter): void {
    const line = this.#lineOf.get(waiter)
    if (line === undefined) return
    const wasFirst = line.waiters[0] === waiter
    this.#drop(line, waiter)
    // Whoever is first now may have less to wait for.
    if (wasFirst && !line.busy) void this.#advance(line)
  }

  #drop(line: Line, waiter: Waiter): void {
    line.waiters.splice(line.waiters.indexOf(waiter), 1)
    this.#lineOf.delete(waiter)
  }

  #arm(line: Line, ms: number): void {
    const first = line.waiters[0] as Waiter
    const deadlineMs = line.waiters.reduce((soonest, waiter) => Math.min(soonest, waiter.deadlineMs), Infinity)
    line.cancelTimer()
    line.cancelTimer = first.after(Math.max(0, Math.min(ms, deadlineMs - first.nowMs())), () => void this.#advance(line))
  }

  /** Lets go all whose turn it is, first come first served, and all who have waited long enough. */
  async #advance(line: Line): Promise<void> {
    line.cancelTimer()
    line.busy = true
    while (line.waiters.length > 0) {
      const first = line.waiters[0] as Waiter
      let decision: AnyDecision
      try {
        const answer = first.take()
        decision = answer instanceof Promise ? await answer : answer
      } catch (reason) {
        this.#drop(line, first)
        first.resolve(Promise.reject(reason))
        continue
      }
      if (line.waiters[0] !== first) {
        // It gave up while the store was asked: what it got goes back.
        if (decision.ok) await Promise.all([decision.refund(), decision.release()])
        continue
      }
      if (decision.ok || decision.retryAfterMs === Infinity || first.nowMs() >= first.deadlineMs) {
        this.#drop(line, first)
        first.resolve(decision)
        continue
      }
      const refusing = first.charges.find(({ rule }) => rule.name === decision.limit)
      if (refusing !== undefined && idOf(refusing) !== line.id) {
        this.#drop(line, first)
        this.join(first, refusing, decision.retryAfterMs)
        continue
      }
      this.#dismissLate(line)
      this.#arm(line, decision.retryAfterMs)
      break
    }
    line.busy = false
    if (line.waiters.length === 0) this.#lines.delete(line.id)
  }

  /** Nobody further back goes before the first; who has waited long enough there is refused. */
  #dismissLate(line: Line): void {
    for (const waiter of line.waiters.slice(1)) {
      if (waiter.nowMs() < waiter.deadlineMs) continue
      this.#drop(line, waiter)
      waiter.resolve(waiter.refuse())
    }
  }
}

export function idOf({ counter, key }: Charge): string {
  return `${counter.space} ${key}`
}
