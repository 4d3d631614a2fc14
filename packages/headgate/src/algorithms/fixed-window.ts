import type { Mark, Policy, View } from './algorithm.ts'
import type { Calendar } from './calendar.ts'
import { MOST_COUNTED, part } from './whole.ts'

/**
 * Counts per window. At most the limit in each window, so up to twice the limit around a boundary.
 *
 * Where windows start is the one thing that differs: at multiples of the window since the epoch (`staggered` is that too, with
 * the time of each key shifted by its own offset), at the first hit, or by a calendar.
 *
 * State: [start of the window, count].
 */
export class FixedWindow implements Policy {
  readonly algorithm = 'fixed-window'
  readonly words = 2
  readonly limit: number
  readonly shape: string
  readonly staggerUs: number
  readonly #windowUs: number
  readonly #starts: 'epoch' | 'first-hit' | Calendar
  #startUs = 0
  #endUs = 0
  #count = 0

  constructor(limit: number, windowUs: number, starts: 'epoch' | 'staggered' | 'first-hit' | Calendar) {
    this.limit = limit
    this.staggerUs = starts === 'staggered' ? windowUs : 0
    this.#windowUs = windowUs
    this.#starts = starts === 'staggered' ? 'epoch' : starts
    const kind = typeof starts === 'string' ? `${starts} ${windowUs}` : `${starts.unit} ${starts.zone}`
    this.shape = `fixed-window ${kind}`
  }

  /** Finds the window in force and what was counted in it. A clock that stepped back stays in the window it had reached. */
  #locate(state: Float64Array, at: number, nowUs: number): void {
    const lastUs = state[at] as number
    const count = state[at + 1] as number
    if (this.#starts === 'first-hit') {
      const open = count > 0 && nowUs < lastUs + this.#windowUs
      this.#startUs = open ? lastUs : nowUs
      this.#endUs = this.#startUs + this.#windowUs
      this.#count = open ? count : 0
      return
    }
    if (this.#starts === 'epoch') {
      const startUs = Math.floor(nowUs / this.#windowUs) * this.#windowUs
      this.#startUs = startUs > lastUs ? startUs : lastUs
      this.#endUs = this.#startUs + this.#windowUs
    } else {
      this.#starts.locate(nowUs > lastUs ? nowUs : lastUs)
      this.#startUs = this.#starts.startUs
      this.#endUs = this.#starts.endUs
    }
    this.#count = this.#startUs === lastUs ? count : 0
  }

  /** Within one window. One that begins with its first hit has to have begun. */
  sameAt(state: Float64Array, at: number, nowUs: number, thenUs: number): boolean {
    this.#locate(state, at, nowUs)
    return thenUs < this.#endUs && (this.#starts !== 'first-hit' || this.#count > 0)
  }

  waitUs(state: Float64Array, at: number, nowUs: number, cost: number): number {
    if (cost > this.limit) return Infinity
    this.#locate(state, at, nowUs)
    return cost === 0 || this.#count + cost <= this.limit ? 0 : this.#endUs - nowUs
  }

  book(state: Float64Array, at: number, nowUs: number, cost: number, mark: Mark): void {
    this.#locate(state, at, nowUs)
    state[at] = this.#startUs
    state[at + 1] = Math.min(this.#count + cost, MOST_COUNTED)
    mark.ref = this.#startUs
  }

  giveBack(state: Float64Array, at: number, _nowUs: number, cost: number, { ref }: Readonly<Mark>): undefined {
    if (state[at] === ref) state[at + 1] = Math.max(0, (state[at + 1] as number) - cost)
  }

  lentUntilUs(state: Float64Array, at: number, nowUs: number): number {
    this.#locate(state, at, nowUs)
    return this.#endUs
  }

  takeBack(state: Float64Array, at: number, _nowUs: number, units: number): undefined {
    state[at + 1] = Math.max(0, (state[at + 1] as number) - units)
  }

  share(nodes: number, nth?: number): Policy {
    return new FixedWindow(
      part(this.limit, nodes, nth),
      this.#windowUs,
      this.staggerUs > 0 ? 'staggered' : this.#starts,
    )
  }

  twin(nowUs: number): readonly (string | number)[] {
    if (typeof this.#starts === 'string') {
      const starts = this.staggerUs > 0 ? 'staggered' : this.#starts
      return ['fixed-window', starts, this.#windowUs, this.limit]
    }
    return ['calendar', this.limit, ...this.#starts.around(nowUs)]
  }

  windowUs(nowUs: number): number {
    if (typeof this.#starts === 'string') return this.#windowUs
    this.#starts.locate(nowUs)
    return this.#starts.endUs - this.#starts.startUs
  }

  look(state: Float64Array, at: number, nowUs: number, view: View): void {
    this.#locate(state, at, nowUs)
    view.remaining = Math.max(0, this.limit - this.#count)
    view.resetUs = this.#count > 0 ? this.#endUs - nowUs : 0
    view.growUs = this.limit === 0 ? Infinity : view.resetUs
  }

  used(state: Float64Array, at: number, nowUs: number): number {
    this.#locate(state, at, nowUs)
    return this.#count
  }

  idleAtUs(state: Float64Array, at: number): number {
    if ((state[at + 1] as number) === 0) return 0
    this.#locate(state, at, state[at] as number)
    return this.#endUs
  }
}
