import { type Bounds, checkKeys, Level, numberWithin } from './bounds.ts'
import { Cuts } from './cuts.ts'
import type { ConcurrencyLimit, Sample } from './types.ts'

export interface AimdOptions extends Bounds {
  /** What takes longer counts as dropped. Default: 5000. Near what callers wait for, or it says nothing in time. */
  readonly timeoutMs?: number
  /** What is left of the limit after a drop. Default: 0.9. */
  readonly backoff?: number
}

/** Grows until work is dropped or takes too long, then falls by a tenth: for services that say when they have too much. */
export function aimd(options: AimdOptions = {}): ConcurrencyLimit {
  const where = 'aimd()'
  checkKeys(options, ['timeoutMs', 'backoff'], where)
  const { timeoutMs = 5000, backoff = 0.9 } = options
  const timeoutUs = 1000 * numberWithin(0.001, 3_600_000, timeoutMs, `"timeoutMs" of ${where}`)
  return new Aimd(new Level(options, where), timeoutUs, numberWithin(0.1, 0.99, backoff, `"backoff" of ${where}`))
}

class Aimd implements ConcurrencyLimit {
  value: number
  readonly #level: Level
  readonly #timeoutUs: number
  readonly #backoff: number
  readonly #cuts = new Cuts()
  /** Until something is dropped, it doubles in the time that work takes; then it is near, and adds one in that time. */
  #near = false

  constructor(level: Level, timeoutUs: number, backoff: number) {
    this.#level = level
    this.#timeoutUs = timeoutUs
    this.#backoff = backoff
    this.value = level.whole
  }

  learn(sample: Sample): void {
    if (sample.outcome === 'ignore') return
    const level = this.#level
    if (sample.outcome === 'drop' || sample.rttUs > this.#timeoutUs) {
      if (!this.#cuts.isNew(sample)) return
      this.#near = true
      level.set(level.exact * this.#backoff)
    } else if (sample.inFlight * 2 >= level.exact) level.set(level.exact + (this.#near ? 1 / level.exact : 1))
    this.value = level.whole
  }

  bound(bounds: Pick<Bounds, 'min' | 'max'>): void {
    this.#level.bound(bounds)
    this.value = this.#level.whole
  }
}
