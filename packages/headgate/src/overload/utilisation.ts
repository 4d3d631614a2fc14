import { afterIdly, type Clock } from '../clock.ts'
import { checkChoice, HeadgateError, rejectUnknown } from '../errors.ts'
import { checkType } from '../named-limit.ts'
import { numberWithin } from './bounds.ts'
import { Evenly } from './evenly.ts'
import { ProcessLoad } from './process-load.ts'
import { Shedder, type ShedderSettings } from './shedder.ts'
import {
  type OverloadMode,
  type Priority,
  priorities,
  type SlotsTaken,
  type Utilisation,
  type UtilisationOptions,
} from './types.ts'

const SAMPLE_MS = 100
/** What is measured swings; two thirds of a change are believed after this time. */
const SMOOTH_MS = 300
/** A process that was suspended has not been busy all the while. */
const LONGEST_STEP_MS = 500
/** Callers change lanes so often. */
const ROTATE_MS = 10_000

const noSlots: SlotsTaken = { share: 0, suffice: false }

const modes: readonly OverloadMode[] = ['enforce', 'observe', 'off']

/** Sheds work when this process has too much to do: slowly, the least important first, and slowly back. */
export function createUtilisation(options: UtilisationOptions, clock: Clock | undefined): Utilisation {
  rejectUnknown(options, ['mode', 'good', 'bad', 'afterMs', 'rampMs', 'measure'], '"utilisation"')
  checkType(options.measure, 'function', '"measure" of "utilisation"')
  const { afterMs = 1_000, rampMs = 10_000 } = options
  const settings = {
    ...bounds(options, { good: 0.9, bad: 0.98 }),
    afterMs: numberWithin(0, Infinity, afterMs, '"afterMs" of "utilisation"'),
    rampMs: numberWithin(1, Infinity, rampMs, '"rampMs" of "utilisation"'),
  }
  checkChoice(options.mode, modes, '"mode" of "utilisation"')
  return new SampledUtilisation(settings, options.mode ?? 'enforce', options.measure, clock)
}

/** How busy the process is by itself, and with its slots; whether these suffice. */
interface Look {
  readonly own: number
  readonly all: number
  readonly suffice: boolean
}

interface Bounds {
  readonly good: number
  readonly bad: number
}

function bounds(given: { readonly good?: number; readonly bad?: number }, now: Bounds): Bounds {
  const { good = now.good, bad = now.bad } = given
  numberWithin(0.01, 1, good, '"good" of "utilisation"')
  numberWithin(0.01, 1, bad, '"bad" of "utilisation"')
  if (good < bad) return { good, bad }
  throw new HeadgateError(
    'HG_OPTION_INVALID',
    `"good" of "utilisation" is ${good} and "bad" is ${bad}: give a "good" below it, or shedding would swing`,
    good,
  )
}

class SampledUtilisation implements Utilisation {
  slots: (() => SlotsTaken) | undefined
  readonly #settings: ShedderSettings
  readonly #shedder: Shedder
  readonly #evenly: ReadonlyMap<Priority, Evenly>
  readonly #measure: UtilisationOptions['measure']
  readonly #load = new ProcessLoad()
  readonly #nowMs: () => number
  readonly #clock: Clock | undefined
  #mode: OverloadMode
  #value = 0
  /** Without the slots. */
  #own = 0
  #lastMs: number
  #sinceRotatedMs = 0
  #cancel: () => void = () => {}
  #armed = false
  #closed = false

  constructor(settings: ShedderSettings, mode: OverloadMode, measure: (() => number) | undefined, clock?: Clock) {
    this.#settings = settings
    this.#shedder = new Shedder(settings)
    this.#evenly = new Map(priorities.map((priority) => [priority, new Evenly()]))
    this.#mode = mode
    this.#measure = measure
    this.#clock = clock
    this.#nowMs = clock === undefined ? () => performance.now() : () => clock.now()
    this.#lastMs = this.#nowMs()
    this.#start()
  }

  get value(): number {
    return this.#value
  }

  get isBusy(): boolean {
    return this.#own > this.#settings.bad
  }

  get mode(): OverloadMode {
    return this.#mode
  }

  set mode(mode: OverloadMode) {
    if (mode !== this.#mode) this.#shedder.reset()
    this.#mode = mode
  }

  shedding(priority: Priority): number {
    return this.#shedder.shareOf(priority)
  }

  sheds(priority: Priority, caller: string | undefined): boolean {
    if (!this.#armed) this.#start()
    this.#shedder.came(priority)
    return (this.#evenly.get(priority) as Evenly).picks(this.#shedder.shareOf(priority), caller)
  }

  tune(tuning: { good?: number; bad?: number }): void {
    Object.assign(this.#settings, bounds(tuning, this.#settings))
  }

  close(): void {
    this.#closed = true
    this.#cancel()
    this.mode = 'off'
  }

  /** Some edge runtimes let nobody have a timer before the first request: then that one starts it. */
  #start(): void {
    if (this.#closed) return
    try {
      this.#arm()
      this.#armed = true
    } catch {
      this.#armed = false
    }
  }

  #arm(): void {
    this.#cancel = afterIdly(this.#clock, SAMPLE_MS, this.#sample)
  }

  readonly #sample = (): void => {
    const nowMs = this.#nowMs()
    const elapsedMs = Math.max(0, nowMs - this.#lastMs)
    this.#lastMs = nowMs
    const ms = Math.min(elapsedMs, LONGEST_STEP_MS)
    const { own, all, suffice } = this.#look(elapsedMs)
    const part = 1 - Math.exp(-ms / SMOOTH_MS)
    this.#own += (own - this.#own) * part
    this.#value += (all - this.#value) * part
    // Two who both keep a process from being busy take turns in letting it idle.
    if (this.#mode !== 'off') this.#shedder.step(suffice ? 0 : this.#value, ms)
    this.#rotate(ms)
    this.#start()
  }

  /** A measure that throws, or tells no number, sheds nothing. */
  #look(elapsedMs: number): Look {
    try {
      const { share, suffice } = this.slots?.() ?? noSlots
      const own = within(this.#measure?.() ?? this.#load.look(elapsedMs, elapsedMs - SAMPLE_MS))
      return { own, all: this.#measure === undefined ? Math.max(own, within(share)) : own, suffice }
    } catch {
      return { own: 0, all: 0, suffice: false }
    }
  }

  #rotate(ms: number): void {
    this.#sinceRotatedMs += ms
    if (this.#sinceRotatedMs < ROTATE_MS) return
    this.#sinceRotatedMs = 0
    for (const evenly of this.#evenly.values()) evenly.rotate()
  }
}

function within(measured: number): number {
  return Number.isNaN(measured) ? 0 : Math.min(1, Math.max(0, measured))
}
