import { type Bounds, checkKeys, Level, numberWithin } from './bounds.ts'
import { Cuts } from './cuts.ts'
import { Rtt } from './rtt.ts'
import type { ConcurrencyLimit, Sample } from './types.ts'

/** What takes so long, and so many times as long as the rest, waits for something else than the rest does. */
const HELD_AFTER_US = 1_000_000
const HELD_AFTER_RTTS = 20

/** Of estimates that go by how long work takes. */
export interface MeasuredOptions extends Bounds {
  /** The limit moves once in so long, sooner when there is much work. Default: 1000. */
  readonly windowMs?: number
}

/** How a limit follows from what work takes. */
export interface Step {
  /** The next limit, from the one that was used up in the last window. `isBusy`: it is this process that has no time left. */
  next(limit: number, rtt: Rtt, isBusy: boolean): number
  /** After a drop. */
  cut(limit: number): number
}

export function measured(
  options: MeasuredOptions,
  own: readonly string[],
  where: string,
  step: Step,
): ConcurrencyLimit {
  checkKeys(options, ['windowMs', ...own], where)
  const windowMs = numberWithin(1, 60_000, options.windowMs ?? 1000, `"windowMs" of ${where}`)
  return new Measured(new Level(options, where), windowMs * 1000, step)
}

class Measured implements ConcurrencyLimit {
  value: number
  readonly #level: Level
  readonly #step: Step
  readonly #rtt: Rtt
  readonly #cuts = new Cuts()
  #new = true

  constructor(level: Level, windowUs: number, step: Step) {
    this.#level = level
    this.#step = step
    this.#rtt = new Rtt(windowUs)
    this.value = level.whole
  }

  get full(): number {
    return this.#level.whole
  }

  get fullFromUs(): number {
    return this.#rtt.probeEndsUs
  }

  get heldAfterUs(): number {
    return this.#rtt.meanUs === 0 ? Infinity : Math.max(HELD_AFTER_US, HELD_AFTER_RTTS * this.#rtt.meanUs)
  }

  get rttMinUs(): number {
    return this.#rtt.baseUs
  }

  get rttUs(): number {
    return this.#rtt.meanUs
  }

  learn(sample: Sample): void {
    if (sample.outcome === 'ignore') return
    const level = this.#level
    const rtt = this.#rtt
    if (sample.outcome === 'drop') {
      // How long it took says nothing: some fail at once.
      this.#new = false
      if (this.#cuts.isNew(sample)) level.set(this.#step.cut(level.exact))
    } else if (rtt.add(sample, level.exact, level.min) && rtt.inFlight * 2 >= level.exact) {
      // Who leaves half of it unused would not notice a larger one, and it would be there when a flood comes.
      level.set(this.#isNew() ? level.exact * 1.5 : this.#step.next(level.exact, rtt, sample.isBusy === true))
    }
    this.value = rtt.probe > 0 ? Math.min(rtt.probe, this.full) : this.full
  }

  /** Where to start is a guess: until work first takes longer for there being much of it, the way up is short. */
  #isNew(): boolean {
    if (this.#rtt.meanUs > 1.5 * this.#rtt.baseUs) this.#new = false
    return this.#new && this.#rtt.inFlight * 4 >= this.#level.exact * 3
  }

  bound(bounds: Pick<Bounds, 'min' | 'max'>): void {
    this.#level.bound(bounds)
    this.value = this.full
  }
}
