import { type Priority, priorities } from './types.ts'

export interface ShedderSettings {
  good: number
  bad: number
  readonly afterMs: number
  readonly rampMs: number
}

/** At least this share of all work, and of critical work, is always let in: how else would anybody notice that it is over? */
const LEAST = 0.01
const LEAST_CRITICAL = 0.1
/** Half of what was counted is forgotten in this time. */
const HALF_LIFE_MS = 2_000

/**
 * Which share of each priority to shed. What it turns is the share of all work that is let in; who goes first follows from how much there is
 * of each priority: all of `low` before any of `normal`, and so on.
 *
 * That share falls along a straight line, slower the closer utilisation is to `bad`, rests between `bad` and `good`, and grows by a part of
 * itself: at ten times too much work a step of a hundredth is a tenth of what is let in. What is measured lags behind by half a second,
 * and both are slow enough near the band not to cross it in that time.
 */
export class Shedder {
  readonly #settings: ShedderSettings
  /** How much came of each, most important first, as of late. */
  readonly #came = new Float64Array(priorities.length)
  readonly #shares = new Float64Array(priorities.length)
  #letIn = 1
  #badForMs = 0

  constructor(settings: ShedderSettings) {
    this.#settings = settings
  }

  shareOf(priority: Priority): number {
    return this.#shares[priorities.indexOf(priority)] as number
  }

  came(priority: Priority): void {
    const i = priorities.indexOf(priority)
    this.#came[i] = (this.#came[i] as number) + 1
  }

  /** Time went on, at this utilisation. */
  step(value: number, ms: number): void {
    this.#letIn = this.#next(value, ms)
    this.#spread()
    const kept = 0.5 ** (ms / HALF_LIFE_MS)
    for (let i = 0; i < this.#came.length; i++) this.#came[i] = (this.#came[i] as number) * kept
  }

  reset(): void {
    this.#letIn = 1
    this.#badForMs = 0
    this.#shares.fill(0)
  }

  #next(value: number, ms: number): number {
    const { good, bad, afterMs } = this.#settings
    this.#badForMs = value > bad ? this.#badForMs + ms : 0
    if (value > bad) return this.#letIn === 1 && this.#badForMs < afterMs ? 1 : this.#less(value, ms)
    return value < good ? this.#more(value, ms) : this.#letIn
  }

  #less(value: number, ms: number): number {
    const { bad, rampMs } = this.#settings
    const haste = clamp((value - bad) / Math.max(0.01, 1 - bad), 0.1, 1)
    return Math.max(this.#least(), this.#letIn - (haste * ms) / rampMs)
  }

  #more(value: number, ms: number): number {
    const { good, rampMs } = this.#settings
    const room = clamp(good / Math.max(value, 0.01) - 1, 0.1, 1)
    const letIn = this.#letIn * Math.exp((5 * room * ms) / rampMs)
    return letIn > 0.999 ? 1 : letIn
  }

  #least(): number {
    return Math.max(LEAST, LEAST_CRITICAL * this.#weightOf(0, this.#total()))
  }

  #total(): number {
    return this.#came.reduce((sum, each) => sum + each, 0)
  }

  /** Before anything came all are held to be alike. */
  #weightOf(i: number, total: number): number {
    return total > 0 ? (this.#came[i] as number) / total : 1 / priorities.length
  }

  /** Least important first, until enough is shed. */
  #spread(): void {
    const total = this.#total()
    let left = 1 - this.#letIn
    for (let i = priorities.length - 1; i >= 0; i--) {
      const weight = this.#weightOf(i, total)
      const share = left <= 0 ? 0 : left >= weight ? 1 : left / weight
      this.#shares[i] = i === 0 ? Math.min(share, 1 - LEAST_CRITICAL) : share
      left -= weight
    }
  }
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value))
}
