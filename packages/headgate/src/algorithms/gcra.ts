import type { AlgorithmName, Policy, View } from './algorithm.ts'
import { gcd, LONGEST_US, mulDiv, rest } from './whole.ts'

/**
 * Remembers one instant per key: when the key will be idle again. A request moves it by its cost, if it stays within `burst`
 * of now. Also serves `token-bucket` and `leaky-bucket`: tokens left are the burst less the debt, the level of the bucket is
 * the debt, and in exact arithmetic all three decide alike.
 *
 * A unit takes window / count us to come back, kept as the fraction `up / down` in lowest terms. Mostly that is whole and the
 * instant is one number. Where it is not, `down`-ths of a us are kept beside it: 70,000/s is 100/7 us a unit and never drifts.
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
  readonly #unitPart: number
  readonly #toleranceUs: number
  readonly #tolerancePart: number

  constructor(algorithm: AlgorithmName, count: number, windowUs: number, burst: number) {
    const common = gcd(windowUs, count)
    this.#up = windowUs / common
    this.#down = count === 0 ? 1 : count / common
    this.algorithm = algorithm
    this.limit = burst
    this.words = this.#down === 1 ? 1 : 2
    this.shape = `gcra ${this.#up}/${this.#down}`
    this.#unitUs = Math.floor(this.#up / this.#down)
    this.#unitPart = this.#up - this.#unitUs * this.#down
    this.#toleranceUs = this.#spanUs(burst)
    this.#tolerancePart = rest
  }

  /** What so many units are worth: whole us, and 1/down us in `rest`. */
  #spanUs(units: number): number {
    return units * this.#unitUs + mulDiv(this.#unitPart, units, this.#down)
  }

  waitUs(state: Float64Array, at: number, nowUs: number, cost: number): number {
    if (cost > this.limit) return Infinity
    if (this.#down > 1) return this.#partsWaitUs(state, at, nowUs, cost)
    const idleUs = state[at] as number
    const waitUs = (idleUs > nowUs ? idleUs - nowUs : 0) + cost * this.#up - this.#toleranceUs
    return waitUs > 0 ? waitUs : 0
  }

  #partsWaitUs(state: Float64Array, at: number, nowUs: number, cost: number): number {
    const debtUs = (state[at] as number) - nowUs
    let us = (debtUs > 0 ? debtUs : 0) + this.#spanUs(cost) - this.#toleranceUs
    const part = rest + (debtUs < 0 ? 0 : (state[at + 1] as number)) - this.#tolerancePart
    us += Math.ceil(part / this.#down)
    return us > 0 ? us : 0
  }

  book(state: Float64Array, at: number, nowUs: number, cost: number): number {
    if (this.#down > 1) return this.#partsBook(state, at, nowUs, cost)
    const idleUs = state[at] as number
    const us = (idleUs > nowUs ? idleUs : nowUs) + cost * this.#up
    state[at] = us < nowUs + LONGEST_US ? us : nowUs + LONGEST_US
    return us
  }

  #partsBook(state: Float64Array, at: number, nowUs: number, cost: number): number {
    const idleUs = state[at] as number
    let us = (idleUs > nowUs ? idleUs : nowUs) + this.#spanUs(cost)
    let part = rest + (idleUs < nowUs ? 0 : (state[at + 1] as number))
    if (part >= this.#down) {
      part -= this.#down
      us++
    }
    state[at] = us < nowUs + LONGEST_US ? us : nowUs + LONGEST_US
    state[at + 1] = part
    return part > 0 ? us + 1 : us
  }

  /** Debts are worked off in the order they were made. Of these units only the time from now to `ref`, when the last of them is
   *  worked off, is still owed; more than that given back would be spent twice. */
  giveBack(state: Float64Array, at: number, nowUs: number, cost: number, ref: number): void {
    const owedUs = ref - nowUs
    if (owedUs <= 0) return
    let us = this.#spanUs(cost)
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
      state[at + 1] = us < nowUs ? 0 : part
    }
    state[at] = us < nowUs ? 0 : us
  }

  windowUs(): number {
    return this.#toleranceUs + (this.#tolerancePart > 0 ? 1 : 0)
  }

  look(state: Float64Array, at: number, nowUs: number, view: View): void {
    const idleUs = state[at] as number
    if (this.#down > 1 || this.limit === 0 || idleUs < nowUs) return this.#partsLook(state, at, nowUs, view)
    const leftUs = this.#toleranceUs + nowUs - idleUs
    const units = leftUs > 0 ? Math.floor(leftUs / this.#up) : 0
    view.remaining = units
    view.resetUs = idleUs - nowUs
    view.growUs = units < this.limit ? (units + 1) * this.#up - leftUs : 0
  }

  #partsLook(state: Float64Array, at: number, nowUs: number, view: View): void {
    const debtUs = (state[at] as number) - nowUs
    if (debtUs < 0 || this.limit === 0) {
      view.remaining = this.limit
      view.resetUs = 0
      view.growUs = this.limit === 0 ? Infinity : 0
      return
    }
    const part = state[at + 1] as number
    const spare = this.#tolerancePart - part
    const leftUs = this.#toleranceUs - debtUs - (spare < 0 ? 1 : 0)
    view.remaining = leftUs < 0 ? 0 : Math.floor(this.#units(leftUs, spare < 0 ? spare + this.#down : spare))
    view.resetUs = debtUs + (part > 0 ? 1 : 0)
    view.growUs = view.remaining < this.limit ? this.waitUs(state, at, nowUs, view.remaining + 1) : 0
  }

  /** (us * down + part) / up, whole where it is whole. The product may be wide, so the whole multiples of `up` in `down` are
   *  split off first. */
  #units(us: number, part: number): number {
    const whole = Math.floor(this.#down / this.#up)
    const units = us * whole + mulDiv(this.#down - whole * this.#up, us, this.#up)
    const over = Math.floor((rest + part) / this.#up)
    return units + over + (rest + part > over * this.#up ? 0.5 : 0)
  }

  used(state: Float64Array, at: number, nowUs: number): number {
    const debtUs = (state[at] as number) - nowUs
    return debtUs < 0 ? 0 : Math.ceil(this.#units(debtUs, this.#down === 1 ? 0 : (state[at + 1] as number)))
  }

  idleAtUs(state: Float64Array, at: number): number {
    return (state[at] as number) + this.words - 1
  }
}
