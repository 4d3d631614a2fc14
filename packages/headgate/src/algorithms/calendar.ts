import { HeadgateError } from '../errors.ts'

export const calendarUnits = ['day', 'week', 'month', 'year'] as const
export type CalendarUnit = (typeof calendarUnits)[number]

const DAY_MS = 86_400_000
/** No zone was ever further than this from UTC. */
const FAR_MS = 16 * 3_600_000
const SAMPLE_MS = 15 * 60_000

/**
 * Days, weeks from Monday, months and years as people in a zone live them: a day starts at the first instant of its date there,
 * be that 00:00 or, where a change of the clocks skips midnight, 01:00. Where clocks fall back across midnight the date comes
 * twice, so a period is found between two starts and never by the date of an instant.
 */
export class Calendar {
  readonly unit: CalendarUnit
  readonly zone: string
  readonly #format: Intl.DateTimeFormat | undefined
  /** The period found last: nearly every decision falls into it. */
  startUs = 0
  endUs = 0
  /** Some more, newest first: keys of yesterday and of today are met in turn. */
  readonly #known: { readonly startUs: number; readonly endUs: number }[] = []

  constructor(unit: CalendarUnit, zone: string) {
    this.unit = unit
    this.zone = zone
    try {
      // Field order is free here: the parts are read by name.
      if (zone !== 'UTC')
        this.#format = new Intl.DateTimeFormat('en-US', { timeZone: zone, hourCycle: 'h23', ...FIELDS })
    } catch {
      throw new HeadgateError(
        'HG_ZONE_UNKNOWN',
        `"${zone}" is no time zone: use an IANA name such as Europe/Berlin`,
        zone,
      )
    }
  }

  /** Sets `startUs` and `endUs` around an instant. */
  locate(us: number): void {
    if (us >= this.startUs && us < this.endUs) return
    let period = this.#known.find(({ startUs, endUs }) => us >= startUs && us < endUs)
    if (period === undefined) {
      period = this.#find(us)
      this.#known.unshift(period)
      this.#known.length = Math.min(this.#known.length, 8)
    }
    this.startUs = period.startUs
    this.endUs = period.endUs
  }

  /** The starts of the period before an instant's, of its own, and of the two after it. */
  around(us: number): number[] {
    this.locate(us)
    const [startUs, endUs] = [this.startUs, this.endUs]
    this.locate(startUs - 1)
    const beforeUs = this.startUs
    this.locate(endUs)
    const afterUs = this.endUs
    this.locate(us)
    return [beforeUs, startUs, endUs, afterUs]
  }

  #find(us: number): { startUs: number; endUs: number } {
    const ms = Math.floor(us / 1000)
    const date = new Date(this.#localMs(ms))
    let index = this.#indexOf(date)
    let start = this.#startMs(index)
    let end = this.#startMs(index + 1)
    while (ms >= end) [index, start, end] = [index + 1, end, this.#startMs(index + 2)]
    return { startUs: start * 1000, endUs: end * 1000 }
  }

  #indexOf(local: Date): number {
    const day = Math.floor(local.getTime() / DAY_MS)
    if (this.unit === 'day') return day
    if (this.unit === 'week') return Math.floor((day + 3) / 7) // 1 January 1970 was a Thursday
    if (this.unit === 'year') return local.getUTCFullYear()
    return local.getUTCFullYear() * 12 + local.getUTCMonth()
  }

  #firstDay(index: number): number {
    if (this.unit === 'day') return index
    if (this.unit === 'week') return index * 7 - 3
    if (this.unit === 'year') return Date.UTC(index, 0, 1) / DAY_MS
    return Date.UTC(Math.floor(index / 12), index % 12, 1) / DAY_MS
  }

  /** The first instant at which the local date is the period's first day, or later. */
  #startMs(index: number): number {
    const midnight = this.#firstDay(index) * DAY_MS
    if (this.#format === undefined) return midnight
    let before = midnight - FAR_MS
    const offset = this.#localMs(before) - before
    if (this.#localMs(midnight + FAR_MS) - (midnight + FAR_MS) === offset) return midnight - offset
    // The clocks change around this midnight. Steps are so small that the first crossing is not missed where there are two.
    let after = before + SAMPLE_MS
    while (this.#localMs(after) < midnight) [before, after] = [after, after + SAMPLE_MS]
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2)
      if (this.#localMs(middle) < midnight) before = middle
      else after = middle
    }
    return after
  }

  /** What a local clock shows, as if it were UTC. */
  #localMs(ms: number): number {
    if (this.#format === undefined) return ms
    const fields: Record<string, number> = {}
    for (const { type, value } of this.#format.formatToParts(ms)) fields[type] = Number(value)
    const { year = 0, month = 1, day, hour, minute, second } = fields
    return Date.UTC(year, month - 1, day, hour, minute, second) + (((ms % 1000) + 1000) % 1000)
  }
}

const FIELDS = {
  year: 'numeric',
  month: 'numeric',
  day: 'numeric',
  hour: 'numeric',
  minute: 'numeric',
  second: 'numeric',
} as const
