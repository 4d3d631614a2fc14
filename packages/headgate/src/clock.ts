import { HeadgateError, show } from './errors.ts'

/** Tells the time. Pass `fakeClock()` from `headgate/testing` to a gate and time stands still until a test moves it. */
export interface Clock {
  /** Milliseconds since the epoch; fractions count, down to a microsecond. */
  now(): number
  /** Calls back once, `ms` from now, and returns how to cancel that. Absent: real timers. */
  after?(ms: number, call: () => void): () => void
}

/** The time as the engine counts it: whole microseconds since the epoch. They stay below 2^53 until the year 2255. */
export interface Ticks {
  /** The current instant. Decisions that directly follow each other may share one. */
  nowUs(): number
  /** Whether the last `nowUs` was an earlier reading, so that `freshUs` could tell more. */
  readonly reused: boolean
  freshUs(): number
}

export function ticksOf(clock: Clock | undefined): Ticks {
  if (clock === undefined) return systemTicks
  const nowUs = () => usOf(clock)
  return { nowUs, freshUs: nowUs, reused: false }
}

export function usOf(clock: Clock): number {
  const us = Math.round(clock.now() * 1000)
  if (us >= 0 && us < 2 ** 53) return us
  throw new HeadgateError(
    'HG_OPTION_INVALID',
    `the clock says ${show(clock.now())}: give milliseconds since the epoch, up to 2255`,
  )
}

/** Real timers overflow to "at once" past 2^31 - 1 ms; the caller looks at the clock again when it wakes. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1

export function after(clock: Clock | undefined, ms: number, call: () => void): () => void {
  if (clock?.after) return clock.after(ms, call)
  const timer = timerOf(ms, call)
  return () => clearTimeout(timer)
}

/** As `after`, but the timer keeps no process alive that has nothing else to do. */
export function afterIdly(clock: Clock | undefined, ms: number, call: () => void): () => void {
  if (clock?.after) return clock.after(ms, call)
  const timer = timerOf(ms, call)
  timer.unref?.()
  return () => clearTimeout(timer)
}

function timerOf(ms: number, call: () => void): ReturnType<typeof setTimeout> {
  return setTimeout(call, Math.min(Math.ceil(ms), LONGEST_TIMER_MS))
}

/** Once what has come in meanwhile was read. */
export const endOfTurn: (call: () => void) => unknown =
  typeof setImmediate === 'function' ? setImmediate : (call) => setTimeout(call, 0)

/** As `endOfTurn`, by a clock that has turns of its own. */
export function atEndOfTurn(clock: Clock | undefined, call: () => void): void {
  if (clock?.after) clock.after(0, call)
  else endOfTurn(call)
}

/** The global is a getter on some runtimes. */
const monotonic = performance

const REUSES = 15
const CLOSE_US = 2

/**
 * Monotonic time on the wall clock's scale. It never steps back; it steps forward when the wall clock is more than a second
 * ahead, as after a suspend.
 *
 * Reading a clock costs more than the rest of a decision, so a synchronous run of decisions (each within microseconds of the
 * one before) reads it for one in sixteen. A microtask ends the run, so no reading outlives it, and a store that would refuse on
 * a reused reading asks again: a wait is always counted from a fresh one.
 */
class SystemTicks implements Ticks {
  reused = false
  #offsetMs = monotonic.timeOrigin
  #us = 0
  #left = 0
  #running = false
  #runLength = 0
  #closeReadings = 0
  #closeReadingsToRun = 1
  #nextSyncUs = 0
  readonly #endRun = () => {
    this.#running = false
    this.#left = 0
    // A run that saved nothing costs a microtask: code that awaits between decisions has to look hotter to start one.
    this.#closeReadingsToRun = this.#runLength < 4 ? 64 : 1
    this.#closeReadings = 0
  }

  nowUs(): number {
    if (this.#left > 0) {
      this.#left--
      this.reused = true
      return this.#us
    }
    return this.freshUs()
  }

  freshUs(): number {
    this.reused = false
    const us = Math.floor((monotonic.now() + this.#offsetMs) * 1000)
    if (us >= this.#nextSyncUs) return this.#sync(us)
    const gapUs = us - this.#us
    if (us > this.#us) this.#us = us
    if (this.#running) {
      this.#left = gapUs < CLOSE_US * (REUSES + 1) ? REUSES : 0
      this.#runLength++
    } else if (gapUs < CLOSE_US && ++this.#closeReadings >= this.#closeReadingsToRun) {
      this.#running = true
      this.#runLength = 0
      this.#left = REUSES
      queueMicrotask(this.#endRun)
    }
    return this.#us
  }

  #sync(us: number): number {
    const aheadMs = Date.now() - us / 1000
    if (aheadMs > 1000) this.#offsetMs += aheadMs
    const nowUs = Math.floor((monotonic.now() + this.#offsetMs) * 1000)
    this.#us = Math.max(this.#us, nowUs)
    this.#nextSyncUs = this.#us + 1_000_000
    return this.#us
  }
}

const systemTicks: Ticks = new SystemTicks()
