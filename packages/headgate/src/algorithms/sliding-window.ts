import type { Mark, Policy, View } from './algorithm.ts'
import { MOST_COUNTED, mulDiv, mulDivUp, part } from './whole.ts'

/**
 * Two counters: what was counted in the previous window fades out in a straight line while the current one runs. All sums are
 * whole numbers, rounded against the caller: previous x (window - elapsed) / window rounds up.
 *
 * Cheap and smooth, but a burst at the end of a window and the fading after it let up to 2 x limit - 1 into one window, and a
 * burst at the start of one is back in full only two windows later. `strict-window` or `sliding-log` hold the limit.
 *
 * State: [start of the current window, previous count, current count].
 */
export class SlidingWindow implements Policy {
  readonly algorithm = 'sliding-window'
  readonly words = 3
  readonly limit: number
  readonly shape: string
  readonly staggerUs: number
  readonly #windowUs: number
  #startUs = 0
  #elapsedUs = 0
  #previous = 0
  #current = 0

  constructor(limit: number, windowUs: number, align: 'epoch' | 'staggered') {
    this.limit = limit
    this.staggerUs = align === 'staggered' ? windowUs : 0
    this.#windowUs = windowUs
    this.shape = `sliding-window ${align} ${windowUs}`
  }

  #locate(state: Float64Array, at: number, nowUs: number): void {
    const lastUs = state[at] as number
    const windowUs = this.#windowUs
    const startUs = Math.floor(nowUs / windowUs) * windowUs
    if (startUs <= lastUs) {
      this.#startUs = lastUs
      this.#elapsedUs = startUs < lastUs ? 0 : nowUs - lastUs
      this.#previous = state[at + 1] as number
      this.#current = state[at + 2] as number
      return
    }
    this.#startUs = startUs
    this.#elapsedUs = nowUs - startUs
    this.#previous = startUs - lastUs === windowUs ? (state[at + 2] as number) : 0
    this.#current = 0
  }

  /** What the previous window still weighs. */
  #fading(): number {
    if (this.#previous === 0 || this.#elapsedUs === 0) return this.#previous
    return mulDivUp(this.#windowUs - this.#elapsedUs, this.#previous, this.#windowUs)
  }

  waitUs(state: Float64Array, at: number, nowUs: number, cost: number): number {
    if (cost > this.limit) return Infinity
    this.#locate(state, at, nowUs)
    return cost === 0 ? 0 : this.#wait(nowUs, cost)
  }

  #wait(nowUs: number, cost: number): number {
    const [windowUs, previous, current] = [this.#windowUs, this.#previous, this.#current]
    if (current + cost + this.#fading() <= this.limit) return 0
    const untilStartUs = this.#startUs - nowUs // below 0, unless the clock stepped back
    // In this window, once the previous one has faded to the room there is.
    if (current + cost <= this.limit)
      return untilStartUs + windowUs - mulDiv(this.limit - current - cost, windowUs, previous)
    // In the next one, when this window's count is what fades.
    return untilStartUs + 2 * windowUs - mulDiv(this.limit - cost, windowUs, current)
  }

  book(state: Float64Array, at: number, nowUs: number, cost: number, mark: Mark): void {
    this.#locate(state, at, nowUs)
    state[at] = this.#startUs
    state[at + 1] = this.#previous
    state[at + 2] = Math.min(this.#current + cost, MOST_COUNTED)
    mark.ref = this.#startUs
  }

  giveBack(state: Float64Array, at: number, nowUs: number, cost: number, { ref }: Readonly<Mark>): undefined {
    this.#locate(state, at, nowUs)
    if (ref === this.#startUs) this.#current = Math.max(0, this.#current - cost)
    else if (ref === this.#startUs - this.#windowUs) this.#previous = Math.max(0, this.#previous - cost)
    else return
    state[at] = this.#startUs
    state[at + 1] = this.#previous
    state[at + 2] = this.#current
  }

  lentUntilUs(state: Float64Array, at: number, nowUs: number): number {
    this.#locate(state, at, nowUs)
    return this.#startUs + this.#windowUs
  }

  takeBack(state: Float64Array, at: number, _nowUs: number, units: number): undefined {
    state[at + 2] = Math.max(0, (state[at + 2] as number) - units)
  }

  share(nodes: number, nth?: number): Policy {
    return new SlidingWindow(part(this.limit, nodes, nth), this.#windowUs, this.staggerUs > 0 ? 'staggered' : 'epoch')
  }

  twin(): readonly (string | number)[] {
    return ['sliding-window', this.staggerUs > 0 ? 'staggered' : 'epoch', this.#windowUs, this.limit]
  }

  windowUs(): number {
    return this.#windowUs
  }

  look(state: Float64Array, at: number, nowUs: number, view: View): void {
    this.#locate(state, at, nowUs)
    const remaining = Math.max(0, this.limit - this.#current - this.#fading())
    const windows = this.#current > 0 ? 2 : this.#previous > 0 ? 1 : 0
    view.remaining = remaining
    view.resetUs = windows === 0 ? 0 : this.#startUs - nowUs + windows * this.#windowUs
    view.growUs = remaining < this.limit ? this.#wait(nowUs, remaining + 1) : this.limit === 0 ? Infinity : 0
  }

  used(state: Float64Array, at: number, nowUs: number): number {
    this.#locate(state, at, nowUs)
    return this.#current + this.#fading()
  }

  idleAtUs(state: Float64Array, at: number): number {
    const windows = (state[at + 2] as number) > 0 ? 2 : (state[at + 1] as number) > 0 ? 1 : 0
    return windows === 0 ? 0 : (state[at] as number) + windows * this.#windowUs
  }
}
