import type { Mark, Policy, View } from './algorithm.ts'
import { EXTRA, entryAt, find, push, removeAt, roomForOne, SIZE } from './entries.ts'
import { MOST_COUNTED, part } from './whole.ts'

const WIDTH = 2 // [when, sum of all units up to and with this entry]

/**
 * Remembers when each admitted unit was taken: exact, never more than the limit in any window and never less than could be.
 * Only what was admitted is kept, and requests of the same microsecond share an entry: at most `limit` entries a key.
 *
 * State: the list of entries, with the sum of those dropped before them in EXTRA. Sums make any stretch of the log one
 * subtraction and any wait one search, so a decision costs the same with ten entries as with a million. Entries that left the
 * window are dropped when the next one is booked.
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
    if (state === undefined) return roomForOne(state, WIDTH)
    for (let gone = this.#firstLive(state, nowUs); gone > 0; gone--) {
      state[EXTRA] = sumAt(state, 0)
      removeAt(state, WIDTH, 0)
    }
    // Sums start over from what is still counted.
    const before = state[EXTRA] as number
    if (before > MOST_COUNTED || state[SIZE] === 0) {
      for (let i = 0; i < (state[SIZE] as number); i++) addTo(state, i, -before)
      state[EXTRA] = 0
    }
    return roomForOne(state, WIDTH)
  }

  /** Index of the oldest entry that counts. A clock that stepped back stays at the newest. */
  #firstLive(state: Float64Array, nowUs: number): number {
    const size = state[SIZE] as number
    if (size === 0) return 0
    const sinceUs = Math.max(nowUs, timeAt(state, size - 1)) - this.#windowUs
    if (timeAt(state, 0) > sinceUs) return 0
    return search(size, (i) => timeAt(state, i) > sinceUs)
  }

  waitUs(state: Float64Array, at: number, nowUs: number, cost: number): number {
    if (cost > this.limit) return Infinity
    if (cost === 0 || this.used(state, at, nowUs) + cost <= this.limit) return 0
    const size = state[SIZE] as number
    // The sum that must have left for the rest, with this cost, to fit.
    const leaving = sumAt(state, size - 1) + cost - this.limit
    return (
      timeAt(
        state,
        search(size, (i) => sumAt(state, i) >= leaving),
      ) +
      this.#windowUs -
      nowUs
    )
  }

  book(state: Float64Array, at: number, nowUs: number, cost: number, mark: Mark): void {
    const size = state[SIZE] as number
    const units = Math.min(cost, MOST_COUNTED - this.used(state, at, nowUs))
    const lastUs = size > 0 ? timeAt(state, size - 1) : -1
    mark.ref = Math.max(nowUs, lastUs)
    if (mark.ref === lastUs) {
      addTo(state, size - 1, units)
      return
    }
    const sum = sumAt(state, size - 1)
    const entry = push(state, WIDTH)
    state[entry] = nowUs
    state[entry + 1] = sum + units
  }

  giveBack(state: Float64Array, _at: number, nowUs: number, cost: number, { ref }: Readonly<Mark>): undefined {
    const index = find(state, WIDTH, ref)
    if (index < this.#firstLive(state, nowUs)) return
    const booked = sumAt(state, index) - sumAt(state, index - 1)
    const units = Math.min(cost, booked)
    for (let i = index; i < (state[SIZE] as number); i++) addTo(state, i, -units)
    if (units === booked) removeAt(state, WIDTH, index)
  }

  share(nodes: number, nth?: number): Policy {
    return new SlidingLog(part(this.limit, nodes, nth), this.#windowUs)
  }

  twin(): readonly (string | number)[] {
    return ['sliding-log', this.#windowUs, this.limit]
  }

  windowUs(): number {
    return this.#windowUs
  }

  look(state: Float64Array, at: number, nowUs: number, view: View): void {
    const remaining = Math.max(0, this.limit - this.used(state, at, nowUs))
    view.remaining = remaining
    view.resetUs = Math.max(0, this.idleAtUs(state) - nowUs)
    view.growUs =
      remaining < this.limit ? this.waitUs(state, at, nowUs, remaining + 1) : this.limit === 0 ? Infinity : 0
  }

  used(state: Float64Array, _at: number, nowUs: number): number {
    const size = state[SIZE] as number
    return size === 0 ? 0 : sumAt(state, size - 1) - sumAt(state, this.#firstLive(state, nowUs) - 1)
  }

  idleAtUs(state: Float64Array): number {
    const size = state[SIZE] as number
    return size === 0 ? 0 : timeAt(state, size - 1) + this.#windowUs
  }
}

function timeAt(state: Float64Array, index: number): number {
  return state[entryAt(state, WIDTH, index)] as number
}

function sumAt(state: Float64Array, index: number): number {
  return index < 0 ? (state[EXTRA] as number) : (state[entryAt(state, WIDTH, index) + 1] as number)
}

function addTo(state: Float64Array, index: number, units: number): void {
  const at = entryAt(state, WIDTH, index) + 1
  state[at] = (state[at] as number) + units
}

/** The first index from 0 to `size` for which `is` holds, which it does for all after it. */
function search(size: number, is: (index: number) => boolean): number {
  let [low, high] = [0, size]
  while (low < high) {
    const middle = (low + high) >> 1
    if (is(middle)) high = middle
    else low = middle + 1
  }
  return low
}
