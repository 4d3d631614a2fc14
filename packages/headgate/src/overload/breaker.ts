import { type Clock, type Ticks, ticksOf } from '../clock.ts'
import { HeadgateError, rejectUnknown } from '../errors.ts'
import { checkType } from '../named-limit.ts'
import { numberWithin } from './bounds.ts'
import { Rolling } from './rolling.ts'

/** `closed`: calls pass. `open`: none does. `half-open`: one is under way to see how things are. */
export type BreakerState = 'closed' | 'open' | 'half-open'

/**
 * How a call ended. `ignore`: it was sent, and how that went is not known (a caller who left). `unsent`: it was refused elsewhere before
 * it got anywhere.
 */
export type CallOutcome = 'success' | 'failure' | 'ignore' | 'unsent'

export interface BreakerChange {
  readonly from: BreakerState
  readonly to: BreakerState
  /** Of the calls it was decided by. */
  readonly errorRatio: number
  readonly slowRatio: number
}

export interface BreakerOptions {
  /** Opens when such a share of calls has failed. Default: 0.5. */
  readonly errorRatio?: number
  /** A call that takes longer is slow. Default: none is. */
  readonly slowMs?: number
  /** Opens when such a share of calls was slow. Default: 0.8. */
  readonly slowRatio?: number
  /** Calls of the time just past count. Default: 10,000. */
  readonly windowMs?: number
  /** Fewer say nothing. Default: 20. */
  readonly minRequests?: number
  /** How long nothing passes before one call is tried; twice as long each time that fails. Default: 1,000. */
  readonly openMs?: number
  /** At most so long. Default: 30,000. */
  readonly maxOpenMs?: number
  /** Once per change. */
  readonly onChange?: (change: BreakerChange) => void
  readonly clock?: Clock
}

/** One call that was let through. */
export interface Passage {
  /** Says how it ended; only the first time counts. Default: success. */
  done(outcome?: CallOutcome): void
}

export interface Breaker {
  state(): BreakerState
  /** Whether `enter` would refuse. Changes nothing. */
  isShut(): boolean
  /** Undefined: do not call. */
  enter(): Passage | undefined
  /** How long until a call may be tried, at least; 0 while calls pass. */
  retryAfterMs(): number
}

const known = [
  ...['errorRatio', 'slowMs', 'slowRatio', 'windowMs', 'minRequests', 'openMs', 'maxOpenMs'],
  ...['onChange', 'clock'],
]

/** Stops calls to what fails most of them, and finds out by one call at a time when that is over. */
export function createBreaker(options: BreakerOptions = {}): Breaker {
  rejectUnknown(options, known, 'createBreaker()')
  checkType(options.onChange, 'function', '"onChange" of createBreaker()')
  const number = (name: keyof BreakerOptions, fallback: number, least: number, most = Infinity) =>
    numberWithin(least, most, options[name] === undefined ? fallback : options[name], `"${name}" of createBreaker()`)
  const openMs = number('openMs', 1_000, 1)
  const maxOpenMs = number('maxOpenMs', Math.max(30_000, openMs), 1)
  if (maxOpenMs < openMs)
    throw new HeadgateError(
      'HG_OPTION_INVALID',
      `"maxOpenMs" of createBreaker() is ${maxOpenMs}: give at least openMs, ${openMs}`,
      maxOpenMs,
    )
  return new RollingBreaker(
    {
      errorRatio: number('errorRatio', 0.5, 0.01, 1),
      slowUs: options.slowMs === undefined ? Infinity : number('slowMs', 0, 0) * 1000,
      slowRatio: number('slowRatio', 0.8, 0.01, 1),
      windowMs: number('windowMs', 10_000, 1),
      minRequests: number('minRequests', 20, 1),
      openUs: openMs * 1000,
      maxOpenUs: maxOpenMs * 1000,
    },
    options.onChange,
    ticksOf(options.clock),
  )
}

interface Settings {
  readonly errorRatio: number
  readonly slowUs: number
  readonly slowRatio: number
  readonly windowMs: number
  readonly minRequests: number
  readonly openUs: number
  readonly maxOpenUs: number
}

const [CALLS, FAILED, SLOW] = [0, 1, 2]

class RollingBreaker implements Breaker {
  readonly #settings: Settings
  readonly #onChange: BreakerOptions['onChange']
  readonly #ticks: Ticks
  readonly #calls: Rolling
  #state: BreakerState = 'closed'
  /** Calls of an earlier state say nothing about this one. */
  #era = 0
  #pauseUs: number
  /** While open: when one may be tried. Half-open: when the one under way is given up for lost. */
  #untilUs = 0

  constructor(settings: Settings, onChange: BreakerOptions['onChange'], ticks: Ticks) {
    this.#settings = settings
    this.#onChange = onChange
    this.#ticks = ticks
    this.#calls = new Rolling(settings.windowMs, 3)
    this.#pauseUs = settings.openUs
  }

  state(): BreakerState {
    return this.#state
  }

  isShut(): boolean {
    return this.#state !== 'closed' && this.#leftUs(this.#ticks.freshUs()) > 0
  }

  retryAfterMs(): number {
    return this.#state === 'closed' ? 0 : this.#leftUs(this.#ticks.freshUs()) / 1000
  }

  /** It never lasts longer than the longest pause, so what is further away was said by a clock that has been set back since. */
  #leftUs(nowUs: number): number {
    const leftUs = this.#untilUs - nowUs
    return leftUs > 0 && leftUs <= this.#settings.maxOpenUs ? leftUs : 0
  }

  enter(): Passage | undefined {
    const nowUs = this.#state === 'closed' ? this.#ticks.nowUs() : this.#ticks.freshUs()
    if (this.#state !== 'closed') {
      if (this.#leftUs(nowUs) > 0) return undefined
      // One that never says how it ended must not keep everybody out for ever.
      this.#untilUs = nowUs + this.#settings.maxOpenUs
      this.#era++
      this.#turn('half-open', 0, 0)
    }
    return new Call(this, this.#era, nowUs)
  }

  ended(era: number, startUs: number, outcome: CallOutcome): void {
    if (era !== this.#era) return
    const nowUs = this.#ticks.freshUs()
    const slow = nowUs - startUs > this.#settings.slowUs
    if (this.#state === 'half-open') this.#probed(nowUs, outcome, slow)
    else if (outcome === 'success' || outcome === 'failure') this.#count(nowUs, outcome === 'failure', slow)
  }

  #count(nowUs: number, failed: boolean, slow: boolean): void {
    this.#calls.add(nowUs, CALLS)
    if (failed) this.#calls.add(nowUs, FAILED)
    if (slow) this.#calls.add(nowUs, SLOW)
    const { minRequests, errorRatio, slowRatio } = this.#settings
    const calls = this.#calls.sum(nowUs, CALLS)
    if (calls < minRequests || !(failed || slow)) return
    const failing = this.#calls.sum(nowUs, FAILED) / calls
    const slowing = this.#calls.sum(nowUs, SLOW) / calls
    if (failing >= errorRatio || slowing >= slowRatio) this.#open(nowUs, failing, slowing)
  }

  #probed(nowUs: number, outcome: CallOutcome, slow: boolean): void {
    const { openUs, maxOpenUs } = this.#settings
    if (outcome === 'success' && !slow) {
      this.#pauseUs = openUs
      this.#calls.clear()
      this.#era++
      this.#turn('closed', 0, 0)
      return
    }
    const failed = outcome === 'failure' || outcome === 'success'
    if (failed) this.#pauseUs = Math.min(2 * this.#pauseUs, maxOpenUs)
    this.#open(nowUs, outcome === 'failure' ? 1 : 0, slow ? 1 : 0)
    if (outcome === 'unsent') this.#untilUs = nowUs // nobody was troubled, so the next may try
  }

  #open(nowUs: number, errorRatio: number, slowRatio: number): void {
    this.#untilUs = nowUs + this.#pauseUs
    this.#era++
    this.#turn('open', errorRatio, slowRatio)
  }

  #turn(to: BreakerState, errorRatio: number, slowRatio: number): void {
    const from = this.#state
    if (from === to) return
    this.#state = to
    try {
      this.#onChange?.({ from, to, errorRatio, slowRatio })
    } catch {
      // A hook that throws must not decide about calls.
    }
  }
}

class Call implements Passage {
  #breaker: RollingBreaker | undefined
  readonly #era: number
  readonly #startUs: number

  constructor(breaker: RollingBreaker, era: number, startUs: number) {
    this.#breaker = breaker
    this.#era = era
    this.#startUs = startUs
  }

  done(outcome: CallOutcome = 'success'): void {
    const breaker = this.#breaker
    this.#breaker = undefined
    breaker?.ended(this.#era, this.#startUs, outcome)
  }
}
