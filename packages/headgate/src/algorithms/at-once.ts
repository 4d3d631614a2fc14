import type { Mark, Policy, View } from './algorithm.ts'
import { EXTRA, entryAt, insertAt, LATEST, removeAt, roomForOne, SIZE, TOTAL } from './entries.ts'
import { part } from './whole.ts'

const WIDTH = 3 // [when it comes back by itself, slot, units]

/** Slots are numbered across all keys, so that a slot of a key that was reset never frees another one's. */
let lastSlot = 0

/**
 * How many may be in flight. A slot comes back when it is released, or by itself after the hold time, so that a holder that
 * crashed does not keep it. Nobody knows when a slot will be free: the wait is an estimate from how long slots were held.
 *
 * State: the list of slots, with their units in TOTAL and the mean time they were held in EXTRA, which is worth something until
 * LATEST, when the last slot that was ever taken would have come back by itself. Which slot comes back first stands
 * first: that need not be the one taken first, as gates on one store may hold the same slots for different times.
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
      const first = entryAt(state, WIDTH, 0)
      if ((state[first] as number) > nowUs) break
      state[TOTAL] = (state[TOTAL] as number) - (state[first + 2] as number)
      removeAt(state, WIDTH, 0)
    }
    if ((state[LATEST] as number) <= nowUs) state[EXTRA] = 0
  }

  waitUs(state: Float64Array, _at: number, nowUs: number, cost: number): number {
    if (cost > this.limit) return Infinity
    this.#expire(state, nowUs)
    const used = state[TOTAL] as number
    const excess = used + cost - this.limit
    if (excess <= 0 || cost === 0) return 0
    const firstBackUs = (state[entryAt(state, WIDTH, 0)] as number) - nowUs
    const meanUs = state[EXTRA] as number
    return Math.max(1, Math.min(firstBackUs, meanUs > 0 ? Math.ceil((meanUs * excess) / used) : firstBackUs))
  }

  book(state: Float64Array, _at: number, nowUs: number, cost: number, mark: Mark): void {
    const slot = ++lastSlot
    const untilUs = nowUs + this.#holdUs
    const entry = insertAt(state, WIDTH, indexOf(state, untilUs, slot))
    state[entry] = untilUs
    state[entry + 1] = slot
    state[entry + 2] = cost
    state[TOTAL] = (state[TOTAL] as number) + cost
    state[LATEST] = Math.max(state[LATEST] as number, untilUs)
    mark.ref = slot
    mark.refPart = untilUs
  }

  giveBack(state: Float64Array, _at: number, nowUs: number, _cost: number, mark: Readonly<Mark>): undefined {
    const index = findSlot(state, mark)
    if (index < 0) return
    const entry = entryAt(state, WIDTH, index)
    const untilUs = mark.refPart // as it was when the slot was taken
    const heldUs = Math.max(1, nowUs - (untilUs - this.#holdUs))
    const meanUs = state[EXTRA] as number
    state[EXTRA] = meanUs === 0 ? heldUs : meanUs + (heldUs - meanUs) / 8
    state[TOTAL] = (state[TOTAL] as number) - (state[entry + 2] as number)
    removeAt(state, WIDTH, index)
  }

  renew(state: Float64Array, _at: number, nowUs: number, mark: Readonly<Mark>): void {
    this.#expire(state, nowUs)
    const index = findSlot(state, mark)
    if (index < 0) return
    const [entry, size] = [entryAt(state, WIDTH, index), state[SIZE] as number]
    const [slot, units] = [state[entry + 1] as number, state[entry + 2] as number]
    // Those behind it move up, so that there is room for it wherever it then stands.
    state.copyWithin(entry, entry + WIDTH, entryAt(state, WIDTH, size))
    state[SIZE] = size - 1
    const untilUs = nowUs + this.#holdUs
    const next = insertAt(state, WIDTH, indexOf(state, untilUs, slot))
    state[next] = untilUs
    state[next + 1] = slot
    state[next + 2] = units
    state[LATEST] = Math.max(state[LATEST] as number, untilUs)
  }

  share(nodes: number, nth?: number): Policy {
    return new AtOnce(part(this.limit, nodes, nth), this.#holdUs)
  }

  twin(): readonly (string | number)[] {
    return ['at-once', this.limit, this.#holdUs]
  }

  windowUs(): number {
    return this.#holdUs
  }

  look(state: Float64Array, at: number, nowUs: number, view: View): void {
    const used = this.used(state, at, nowUs)
    const remaining = Math.max(0, this.limit - used)
    view.remaining = remaining
    const last = entryAt(state, WIDTH, (state[SIZE] as number) - 1)
    view.resetUs = used > 0 ? (state[last] as number) - nowUs : 0
    view.growUs =
      remaining < this.limit ? this.waitUs(state, at, nowUs, remaining + 1) : this.limit === 0 ? Infinity : 0
  }

  used(state: Float64Array, _at: number, nowUs: number): number {
    this.#expire(state, nowUs)
    return state[TOTAL] as number
  }

  idleAtUs(state: Float64Array): number {
    return state[LATEST] as number
  }
}

/** The index of a slot, or -1. One that was renewed is not where its mark says, and is looked for. */
function findSlot(state: Float64Array, { ref: slot, refPart: untilUs }: Readonly<Mark>): number {
  const size = state[SIZE] as number
  const index = indexOf(state, untilUs, slot)
  if (index < size && state[entryAt(state, WIDTH, index) + 1] === slot) return index
  for (let i = 0; i < size; i++) if (state[entryAt(state, WIDTH, i) + 1] === slot) return i
  return -1
}

/** Where a slot stands in the list, or would stand. Slots that come back together stand by their numbers. */
function indexOf(state: Float64Array, untilUs: number, slot: number): number {
  const isBefore = (index: number) => {
    const entry = entryAt(state, WIDTH, index)
    const us = state[entry] as number
    return us < untilUs || (us === untilUs && (state[entry + 1] as number) < slot)
  }
  let [low, high] = [0, state[SIZE] as number]
  // A new slot nearly always goes to the end.
  if (high > 0 && isBefore(high - 1)) return high
  while (low < high) {
    const middle = (low + high) >> 1
    if (isBefore(middle)) low = middle + 1
    else high = middle
  }
  return low
}
