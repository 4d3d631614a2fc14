import type { Mark, Policy, View } from './algorithm.ts'
import { EXTRA, entryAt, find, push, removeAt, roomForOne, SIZE, TOTAL } from './entries.ts'

const WIDTH = 3 // [slot, when it comes back by itself, units]

/** Slots are numbered across all keys, so that a slot of a key that was reset never frees another one's. */
let lastSlot = 0

/**
 * How many may be in flight. A slot comes back when it is released, or by itself after the hold time, so that a holder that
 * crashed does not keep it. Nobody knows when a slot will be free: the wait is an estimate from how long slots were held.
 *
 * State: the list of slots, with their units in TOTAL and the mean time they were held in EXTRA.
 */
export class AtOnce implements Policy {
  readonly algorithm = 'at-once'
  readonly words = 0
  readonly shape = 'at-once'
  readonly limit: number
  readonly #holdUs: number

  constructor(limit: number, holdUs: number) {
    this.limit = limit
    this.#holdUs = holdUs
  }

  fit(state: Float64Array | undefined, nowUs: number): Float64Array {
    if (state !== undefined) this.#expire(state, nowUs)
    return roomForOne(state, WIDTH)
  }

  #expire(state: Float64Array, nowUs: number): void {
    while ((state[SIZE] as number) > 0) {
      const oldest = entryAt(state, WIDTH, 0)
      if ((state[oldest + 1] as number) > nowUs) return
      state[TOTAL] = (state[TOTAL] as number) - (state[oldest + 2] as number)
      removeAt(state, WIDTH, 0)
    }
  }

  waitUs(state: Float64Array, _at: number, nowUs: number, cost: number): number {
    if (cost > this.limit) return Infinity
    this.#expire(state, nowUs)
    const used = state[TOTAL] as number
    const excess = used + cost - this.limit
    if (excess <= 0 || cost === 0) return 0
    const firstBackUs = (state[entryAt(state, WIDTH, 0) + 1] as number) - nowUs
    const meanUs = state[EXTRA] as number
    return Math.max(1, Math.min(firstBackUs, meanUs > 0 ? Math.ceil((meanUs * excess) / used) : firstBackUs))
  }

  book(state: Float64Array, _at: number, nowUs: number, cost: number, mark: Mark): void {
    const slot = ++lastSlot
    const entry = push(state, WIDTH)
    state[entry] = slot
    state[entry + 1] = nowUs + this.#holdUs
    state[entry + 2] = cost
    state[TOTAL] = (state[TOTAL] as number) + cost
    mark.ref = slot
  }

  giveBack(state: Float64Array, _at: number, nowUs: number, _cost: number, { ref }: Readonly<Mark>): undefined {
    const index = find(state, WIDTH, ref)
    if (index < 0) return
    const entry = entryAt(state, WIDTH, index)
    const heldUs = Math.max(1, nowUs - ((state[entry + 1] as number) - this.#holdUs))
    const meanUs = state[EXTRA] as number
    state[EXTRA] = meanUs === 0 ? heldUs : meanUs + (heldUs - meanUs) / 8
    state[TOTAL] = (state[TOTAL] as number) - (state[entry + 2] as number)
    removeAt(state, WIDTH, index)
  }

  windowUs(): number {
    return this.#holdUs
  }

  look(state: Float64Array, at: number, nowUs: number, view: View): void {
    const used = this.used(state, at, nowUs)
    const remaining = Math.max(0, this.limit - used)
    view.remaining = remaining
    view.resetUs = used > 0 ? this.idleAtUs(state) - nowUs : 0
    view.growUs =
      remaining < this.limit ? this.waitUs(state, at, nowUs, remaining + 1) : this.limit === 0 ? Infinity : 0
  }

  used(state: Float64Array, _at: number, nowUs: number): number {
    this.#expire(state, nowUs)
    return state[TOTAL] as number
  }

  idleAtUs(state: Float64Array): number {
    const size = state[SIZE] as number
    return size === 0 ? 0 : (state[entryAt(state, WIDTH, size - 1) + 1] as number)
  }
}
