import type { Charge, Decision } from './decision.ts'
import type { Op } from './stores/store.ts'

/**
 * Keeps the slots of running requests while their holder lives: each is renewed three times per hold time, until it is released
 * or the decision that holds it is gone. So a slot whose holder crashed, or forgot it, comes back after the hold time, and that
 * of a long request does not.
 */
export class Renewals {
  readonly #held = new Map<Op['mark'], WeakRef<Decision<unknown>>>()
  readonly #renew: (ops: readonly Op[]) => void
  #timer: { unref?(): unknown } | undefined
  #everyMs = Infinity

  constructor(renew: (ops: readonly Op[]) => void) {
    this.#renew = renew
  }

  hold(decision: Decision<unknown>, slots: readonly Charge[]): void {
    for (const charge of slots) {
      this.#held.set(charge, new WeakRef(decision))
      this.#everyMs = Math.min(this.#everyMs, charge.counter.policy.windowUs(0) / 3000)
    }
    this.#arm()
  }

  release(ops: readonly Op[]): void {
    for (const { verb, mark } of ops) if (verb === 'release') this.#held.delete(mark)
  }

  #arm(): void {
    if (this.#timer !== undefined || this.#held.size === 0) return
    this.#timer = setTimeout(() => this.#fire(), this.#everyMs)
    this.#timer.unref?.()
  }

  #fire(): void {
    this.#timer = undefined
    const ops: Op[] = []
    for (const [held, decision] of this.#held) {
      const charge = held as Charge
      if (decision.deref() === undefined) this.#held.delete(held)
      else ops.push({ verb: 'renew', counter: charge.counter, key: charge.key, cost: charge.cost, mark: charge })
    }
    if (ops.length > 0) this.#renew(ops)
    this.#arm()
  }
}
