import type { AlgorithmName, Policy, View } from './algorithm.ts'
import { gcd, LONGEST_US, mulDiv, rest } from './whole.ts'

/**
 * Remembers one instant per key: when the key will be idle again. A request moves it by its cost, if it stays within `burst`
 * of now. Also serves `token-bucket` and `leaky-bucket`: tokens left are the burst less the debt, the level of the bucket is
 * the debt, and in exact arithmetic all three decide alike.
 *
 * A unit takes window / count us to come back, kept as the fraction `up / down` in lowest terms. The instant is whole us and,
 * where `down` is not 1, `down`-ths of one: 70,000/s is 100/7 us a unit and never drifts.
 *
 * State: [idle at, whole us] and, if down > 1, [the rest of it, in 1/down us].
 */
export class Gcra implements Policy {
  readonly algorithm: AlgorithmName
  readonly limit: number
  readonly words: number
  readonly shape: string
  readonly #up: number
  readonly #down: number
  readonly #unitUs: number
  readonly #unitRest: number
  readonly #toleranceUs: number
  readonly #toleranceRest: number
  readonly #windowUs: number

  constructor(algorithm: AlgorithmName, count: number, windowUs: number, burst: number) {
    const common = gcd(windowUs, count)
    this.#up = windowUs / common
    this.#down = count === 0 ? 1 : count / common
    this.algorithm = algorithm
    this.limit = burst
    this.words = this.#down === 1 ? 1 : 2
    this.shape = `gcra ${this.#up}/${this.#down}`
    this.#unitUs = Math.floor(this.#up / this.#down)
    this.#unitRest = this.#up - this.#unitUs * this.#down
    this.#toleranceUs = burst * this.#unitUs + mulDiv(this.#unitRest, burst, this.#down)
    this.#toleranceRest = rest
    this.#windowUs = count === 0 ? windowUs : this.#toleranceUs + (rest > 0 ? 1 : 0)
  }


  waitUs(state: Float64Array, at: number, nowUs: number, cost: number): number {
    if (cost > this.limit) return Infinity
    const idleUs = state[at] as number
    let us = idleUs > nowUs ? idleUs : nowUs
    if (this.#down === 1) {
      us += cost * this.#up - this.#toleranceUs - nowUs
      return us > 0 ? us : 0
    }
    let part = idleUs < nowUs ? 0 : (state[at + 1] as number)
    if (cost === 1) {
      us += this.#unitUs
      part += this.#unitRest
    } else {
      us += cost * this.#unitUs + mulDiv(this.#unitRest, cost, this.#down)
      part += rest
    }
    if (part >= this.#down) {
      part -= this.#down
      us++
    }
    us -= this.#toleranceUs + nowUs
    if (part > this.#toleranceRest) us++
    return us > 0 ? us : 0
  }

  book(state: Float64Array, at: number, nowUs: number, cost: number): number {
    const idleUs = state[at] as number
    const fromUs = idleUs > nowUs ? idleUs : nowUs
    if (this.#down === 1) {
      const us = Math.min(fromUs + cost * this.#up, nowUs + LONGEST_US)
      state[at] = us
      return us
    }
    let us = fromUs + cost * this.#unitUs + mulDiv(this.#unitRest, cost, this.#down)
    let part = rest + (idleUs < nowUs ? 0 : (state[at + 1] as number))
    if (part >= this.#down) {
      part -= this.#down
      us++
    }
    if (us > nowUs + LONGEST_US) us = nowUs + LONGEST_US
    state[at] = us
    state[at + 1] = part
    return part > 0 ? us + 1 : us
  }

  /** Debts are worked off in the order they were made. Of these units only the time from now to `ref`, when the last of them is
   *  worked off, is still owed; more than that given back would be spent twice. */
  giveBack(state: Float64Array, at: number, nowUs: number, cost: number, ref: number): void {
    const owedUs = ref - nowUs
    if (owedUs <= 0) return
    let us = cost * this.#unitUs + mulDiv(this.#unitRest, cost, this.#down)
    let part = rest
    if (us >= owedUs) {
      us = owedUs
      part = 0
    }
    us = (state[at] as number) - us
    if (this.#down > 1) {
      part = (state[at + 1] as number) - part
      if (part < 0) {
        part += this.#down
        us--
      }
      state[at + 1] = part
    }
    state[at] = us
    if (us < nowUs) this.#clear(state, at)
  }

  #clear(state: Float64Array, at: number): void {
    state[at] = 0
    if (this.#down > 1) state[at + 1] = 0
  }

  look(state: Float64Array, at: number, nowUs: number, view: View): void {
    const idleUs = state[at] as number
    view.windowUs = this.#windowUs
    if (idleUs < nowUs) {
      view.remaining = this.limit
      view.resetUs = 0
      view.growUs = 0
      return
    }
    // Time left of the tolerance, in whole us and 1/down us; units of it are worth up/down us each.
    let leftUs = this.#toleranceUs + nowUs - idleUs
    let part = 0
    if (this.#down === 1) view.resetUs = idleUs - nowUs
    else {
      const debtPart = state[at + 1] as number
      view.resetUs = debtPart > 0 ? idleUs - nowUs + 1 : idleUs - nowUs
      part = this.#toleranceRest - debtPart
      if (part < 0) {
        part += this.#down
        leftUs--
      }
    }
    if (leftUs < 0) {
      view.remaining = 0
      view.growUs = this.limit === 0 ? Infinity : this.waitUs(state, at, nowUs, 1)
      return
    }
    // floor((leftUs * down + part) / up): the product may be wide, so whole multiples of `up` in `down` are split off first.
    const whole = Math.floor(this.#down / this.#up)
    let units = leftUs * whole + mulDiv(this.#down - whole * this.#up, leftUs, this.#up)
    let over = rest + part
    if (over >= this.#up) {
      const more = Math.floor(over / this.#up)
      units += more
      over -= more * this.#up
    }
    view.remaining = units
    view.growUs = view.resetUs === 0 ? 0 : Math.ceil((this.#up - over) / this.#down)
  }

  used(state: Float64Array, at: number, nowUs: number): number {
    const debtUs = (state[at] as number) - nowUs
    if (debtUs < 0) return 0
    const part = this.#down === 1 ? 0 : (state[at + 1] as number)
    if (debtUs === 0 && part === 0) return 0
    const whole = Math.floor(this.#down / this.#up)
    const units = debtUs * whole + mulDiv(this.#down - whole * this.#up, debtUs, this.#up)
    return units + Math.ceil((rest + part) / this.#up)
  }

  idleAtUs(state: Float64Array, at: number): number {
    return (state[at] as number) + this.words - 1
  }
}
