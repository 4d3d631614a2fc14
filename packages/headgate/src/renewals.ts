import type { Charge } from './charge.ts'
import { LONGEST_TIMER_MS } from './clock.ts'
import type { Decision } from './decision.ts'
import type { Op } from './stores/store.ts'

const MOST_AT_ONCE = 100

/**
 * Keeps the slots of running requests while their holder lives: each is renewed three times per hold time, until it is released
 * or the decision that holds it is gone. So a slot whose holder crashed, or forgot it, comes back after the hold time, and that
 * of a long request does not.
 */
export class Renewals {
  readonly #held = new Map<Charge, WeakRef<Decision<unknown>>>()
  readonly #renew: (ops: readonly Op[]) => void
  #timer: { unref?(): unknown } | undefined
  #everyMs = Infinity

  constructor(renew: (ops: readonly Op[]) => void) {
    this.#renew = renew
  }

  hold(decision: Decision<unknown>, slots: readonly Charge[]): void {
    for (const charge of slots) {
      this.#held.set(charge, new WeakRef(decision))
      const everyMs = charge.counter.policy.windowUs(0) / 3000
      if (everyMs >= this.#everyMs) continue
      this.#everyMs = everyMs
      this.#cancel()
    }
    this.#arm()
  }

  release(ops: readonly Op[]): void {
    for (const { verb, mark } of ops) if (verb === 'release') this.#held.delete(mark as Charge)
  }

  #arm(): void {
    if (this.#timer !== undefined || this.#held.size === 0) return
    this.#timer = setTimeout(() => this.#fire(), Math.min(this.#everyMs, LONGEST_TIMER_MS))
    this.#timer.unref?.()
  }

  #cancel(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #fire(): void {
    this.#cancel()
    const ops: Op[] = []
    for (const [charge, decision] of this.#held) {
      if (decision.deref() === undefined) this.#held.delete(charge)
      else ops.push({ verb: 'renew', counter: charge.counter, key: charge.key, cost: charge.cost, mark: charge })
    }
    for (let from = 0; from < ops.length; from += MOST_AT_ONCE) this.#renew(ops.slice(from, from + MOST_AT_ONCE))
    this.#arm()
  }
}
