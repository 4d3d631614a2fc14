import type { Policy, View } from './algorithm.ts'
import { entryAt, find, push, removeAt, roomForOne, SIZE, TOTAL } from './entries.ts'
import { MOST_COUNTED } from './whole.ts'

const WIDTH = 2 // [when, units]

/**
 * Remembers when each admitted unit was taken: exact, never more than the limit in any window and never less than could be.
 * Only what was admitted is kept, and requests of the same microsecond share an entry: at most `limit` entries a key.
 *
 * State: the list of entries, with their units in TOTAL. Entries that left the window are dropped as they are met.
 */
export class SlidingLog implements Policy {
  readonly algorithm = 'sliding-log'
  readonly words = 0
  readonly limit: number
  readonly shape: string
  readonly #windowUs: number

  constructor(limit: number, windowUs: number) {
    this.limit = limit
    this.#windowUs = windowUs
    this.shape = `sliding-log ${windowUs}`
  }

  fit(state: Float64Array | undefined, nowUs: number): Float64Array {
    if (state !== undefined) this.#expire(state, nowUs)
    return roomForOne(state, WIDTH)
  }

  #expire(state: Float64Array, nowUs: number): void {
    while ((state[SIZE] as number) > 0) {
      const oldest = entryAt(state, WIDTH, 0)
      if ((state[oldest] as number) + this.#windowUs > nowUs) return
      state[TOTAL] = (state[TOTAL] as number) - (state[oldest + 1] as number)
      removeAt(state, WIDTH, 0)
    }
  }

  waitUs(state: Float64Array, _at: number, nowUs: number, cost: number): number {
    if (cost > this.limit) return Infinity
    this.#expire(state, nowUs)
    let excess = (state[TOTAL] as number) + cost - this.limit
    if (excess <= 0 || cost === 0) return 0
    let leavesUs = nowUs
    for (let entry = entryAt(state, WIDTH, 0); excess > 0; entry += WIDTH) {
      leavesUs = (state[entry] as number) + this.#windowUs
      excess -= state[entry + 1] as number
    }
    return leavesUs - nowUs
  }

  book(state: Float64Array, _at: number, nowUs: number, cost: number): number {
    const size = state[SIZE] as number
    const total = state[TOTAL] as number
    const units = Math.min(cost, MOST_COUNTED - total)
    const last = entryAt(state, WIDTH, size - 1)
    const lastUs = size > 0 ? (state[last] as number) : 0
    state[TOTAL] = total + units
    if (size > 0 && lastUs >= nowUs) {
      state[last + 1] = (state[last + 1] as number) + units
      return lastUs
    }
    const entry = push(state, WIDTH)
    state[entry] = nowUs
    state[entry + 1] = units
    return nowUs
  }

  giveBack(state: Float64Array, _at: number, nowUs: number, cost: number, ref: number): void {
    this.#expire(state, nowUs)
    const index = find(state, WIDTH, ref)
    if (index < 0) return
    const entry = entryAt(state, WIDTH, index)
    const units = Math.min(cost, state[entry + 1] as number)
    state[entry + 1] = (state[entry + 1] as number) - units
    state[TOTAL] = (state[TOTAL] as number) - units
    if (state[entry + 1] === 0) removeAt(state, WIDTH, index)
  }

  windowUs(): number {
    return this.#windowUs
  }

  look(state: Float64Array, at: number, nowUs: number, view: View): void {
    const remaining = Math.max(0, this.limit - this.used(state, at, nowUs))
    view.remaining = remaining
    view.resetUs = Math.max(0, this.idleAtUs(state) - nowUs)
    view.growUs = remaining < this.limit ? this.waitUs(state, at, nowUs, remaining + 1) : this.limit === 0 ? Infinity : 0
  }

  used(state: Float64Array, _at: number, nowUs: number): number {
    this.#expire(state, nowUs)
    return state[TOTAL] as number
  }

  idleAtUs(state: Float64Array): number {
    const size = state[SIZE] as number
    return size === 0 ? 0 : (state[entryAt(state, WIDTH, size - 1)] as number) + this.#windowUs
  }
}
