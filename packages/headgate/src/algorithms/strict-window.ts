import type { Mark, Policy, View } from './algorithm.ts'
import { MOST_COUNTED, part } from './whole.ts'

/** Every window is a whole number of milliseconds, so this many slices divide it evenly. */
const SLICES = 10
const COUNTS = SLICES + 1

/**
 * Never more than the limit in any window of that length, in constant memory. The window is cut into slices; the current one
 * and the ten before it count in full, so a unit counts for at least the window and at most a tenth longer. The price: a caller
 * at full speed gets ten elevenths of the limit per window, where `sliding-log` gives all of it.
 *
 * State: [latest slice, one count per slice, slice n at n mod 11].
 */
export class StrictWindow implements Policy {
  readonly algorithm = 'strict-window'
  readonly words = COUNTS + 1
  readonly limit: number
  readonly shape: string
  readonly #windowUs: number
  readonly #sliceUs: number

  constructor(limit: number, windowUs: number) {
    this.limit = limit
    this.#windowUs = windowUs
    this.#sliceUs = windowUs / SLICES
    this.shape = `strict-window ${windowUs}`
  }

  /** The slice in force. A clock that stepped back stays in the slice it had reached. */
  #slice(state: Float64Array, at: number, nowUs: number): number {
    return Math.max(Math.floor(nowUs / this.#sliceUs), state[at] as number)
  }

  /** What slice `n` counted, for the eleven slices that end with the latest one booked. */
  #count(state: Float64Array, at: number, n: number): number {
    return n < 0 ? 0 : (state[at + 1 + ring(n)] as number)
  }

  /** All eleven counts, less those of slices that have left since the latest was booked. */
  #total(state: Float64Array, at: number, slice: number): number {
    const latest = state[at] as number
    if (slice - latest >= COUNTS) return 0
    let total = 0
    for (let i = at + 1; i <= at + COUNTS; i++) total += state[i] as number
    for (let n = latest - SLICES; n < slice - SLICES; n++) total -= this.#count(state, at, n)
    return total
  }

  waitUs(state: Float64Array, at: number, nowUs: number, cost: number): number {
    if (cost > this.limit) return Infinity
    const slice = this.#slice(state, at, nowUs)
    let excess = this.#total(state, at, slice) + cost - this.limit
    if (excess <= 0 || cost === 0) return 0
    let n = slice - SLICES
    while (excess > 0) excess -= this.#count(state, at, n++)
    return (n + SLICES) * this.#sliceUs - nowUs
  }

  book(state: Float64Array, at: number, nowUs: number, cost: number, mark: Mark): void {
    const slice = this.#slice(state, at, nowUs)
    const stale = Math.min(slice - (state[at] as number), COUNTS)
    for (let back = 0; back < stale; back++) state[at + 1 + ring(slice - back)] = 0
    const index = at + 1 + ring(slice)
    state[at] = slice
    state[index] = (state[index] as number) + Math.min(cost, MOST_COUNTED - this.#total(state, at, slice))
    mark.ref = slice
  }

  giveBack(state: Float64Array, at: number, _nowUs: number, cost: number, { ref }: Readonly<Mark>): undefined {
    if (ref <= (state[at] as number) - COUNTS) return
    const index = at + 1 + ring(ref)
    state[index] = Math.max(0, (state[index] as number) - cost)
  }

  lentUntilUs(state: Float64Array, at: number, nowUs: number): number {
    return (this.#slice(state, at, nowUs) + 1) * this.#sliceUs
  }

  takeBack(state: Float64Array, at: number, _nowUs: number, units: number): undefined {
    const index = at + 1 + ring(state[at] as number)
    state[index] = Math.max(0, (state[index] as number) - units)
  }

  share(nodes: number, nth?: number): Policy {
    return new StrictWindow(part(this.limit, nodes, nth), this.#windowUs)
  }

  twin(): readonly (string | number)[] {
    return ['strict-window', this.#windowUs, this.limit]
  }

  windowUs(): number {
    return this.#windowUs
  }

  look(state: Float64Array, at: number, nowUs: number, view: View): void {
    const slice = this.#slice(state, at, nowUs)
    const remaining = Math.max(0, this.limit - this.#total(state, at, slice))
    view.remaining = remaining
    view.resetUs = Math.max(0, this.idleAtUs(state, at) - nowUs)
    view.growUs =
      remaining < this.limit ? this.waitUs(state, at, nowUs, remaining + 1) : this.limit === 0 ? Infinity : 0
  }

  used(state: Float64Array, at: number, nowUs: number): number {
    return this.#total(state, at, this.#slice(state, at, nowUs))
  }

  idleAtUs(state: Float64Array, at: number): number {
    const latest = state[at] as number
    for (let n = latest; n > latest - COUNTS; n--) {
      if (this.#count(state, at, n) > 0) return (n + COUNTS) * this.#sliceUs
    }
    return 0
  }
}

/** `n` modulo the number of counts; `%` is slow on numbers this large. */
function ring(n: number): number {
  return n - Math.floor(n / COUNTS) * COUNTS
}
