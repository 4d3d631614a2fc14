export const outcomes = ['allowed', 'degraded', 'observed', 'denied'] as const
export type Outcome = (typeof outcomes)[number]
export type Tally = Readonly<Record<Outcome, number>>

/** Per second; null: not known. */
export type Bin = Tally | null

export interface Bins {
  readonly fromMs: number
  readonly stepMs: number
  readonly bins: readonly Bin[]
}

const NONE: Tally = { allowed: 0, degraded: 0, observed: 0, denied: 0 }
const LONGEST_S = 1_000
const MOST_GAPS = 50
/** A second is told of when it is over, and on the way for a moment. */
const LATE_MS = 1_200

interface Gap {
  readonly fromMs: number
  toMs: number
}

/** What limits said in each second of late, and of which seconds that is not known. */
export class Series {
  readonly #seconds = new Map<number, Readonly<Record<string, Tally>>>()
  readonly #gaps: Gap[] = []
  #sinceMs = Number.POSITIVE_INFINITY

  /** What was counted in the second before, which is a part of two of ours. */
  add(atMs: number, limits: Readonly<Record<string, Tally>>): void {
    this.know(atMs - 1000)
    const second = Math.floor(atMs / 1000)
    const later = (atMs % 1000) / 1000
    this.#addTo(second - 1, limits, 1 - later)
    this.#addTo(second, limits, later)
    // In the order in which they came, which is that of time.
    for (const second of this.#seconds.keys()) {
      if (this.#seconds.size <= LONGEST_S) break
      this.#seconds.delete(second)
    }
  }

  #addTo(second: number, limits: Readonly<Record<string, Tally>>, share: number): void {
    const known = { ...this.#seconds.get(second) }
    for (const [name, tally] of Object.entries(limits)) known[name] = sum([known[name] ?? NONE, scaled(tally, share)])
    this.#seconds.set(second, known)
  }

  /** Seconds from here on in which nothing was counted were silent. */
  know(fromMs: number): void {
    this.#sinceMs = Math.min(this.#sinceMs, fromMs)
    const gap = this.#gaps.at(-1)
    if (gap !== undefined && fromMs >= gap.fromMs) gap.toMs = Math.min(gap.toMs, fromMs)
  }

  /** Nothing was heard since `fromMs`. */
  miss(fromMs: number, toMs: number): void {
    this.#gaps.push({ fromMs, toMs })
    if (this.#gaps.length > MOST_GAPS) this.#gaps.shift()
  }

  #tallyAt(second: number, limit: string | undefined): Bin {
    const ms = second * 1000
    if (ms + 1000 <= this.#sinceMs || this.#gaps.some(({ fromMs, toMs }) => ms >= fromMs && ms + 1000 <= toMs))
      return null
    const limits = this.#seconds.get(second)
    if (limits === undefined) return NONE
    return limit === undefined ? sum(Object.values(limits)) : (limits[limit] ?? NONE)
  }

  /** Of one limit or of all: `count` bins, of which the last grows until it is full. */
  bins(limit: string | undefined, nowMs: number, spanS: number, count: number): Bins {
    const step = Math.max(1, Math.round(spanS / count))
    const last = toldUntil(nowMs)
    const from = Math.ceil(last / step) * step - spanS
    const bins = Array.from({ length: Math.floor(spanS / step) }, (_, i): Bin => {
      const start = from + i * step
      const known = this.#known(limit, start, Math.min(last, start + step))
      return known.length === 0 ? null : scaled(sum(known), 1 / known.length)
    })
    return { fromMs: from * 1000, stepMs: step * 1000, bins }
  }

  /** All that is known of this time. */
  total(limit: string | undefined, nowMs: number, spanS: number): Tally {
    const last = toldUntil(nowMs)
    return sum(this.#known(limit, last - spanS, last))
  }

  /** Per second, over the last `seconds`. */
  rate(limit: string | undefined, nowMs: number, seconds = 10): Tally {
    const last = toldUntil(nowMs)
    const known = this.#known(limit, last - seconds, last)
    return scaled(sum(known), 1 / Math.max(1, known.length))
  }

  #known(limit: string | undefined, from: number, to: number): Tally[] {
    const seconds = Array.from({ length: Math.max(0, to - from) }, (_, i) => this.#tallyAt(from + i, limit))
    return seconds.filter((each) => each !== null)
  }
}

/** The first second that is not told of in full. */
function toldUntil(nowMs: number): number {
  return Math.floor((nowMs - LATE_MS) / 1000)
}

export function sum(tallies: readonly Tally[]): Tally {
  return tallies.reduce((all, each) => tallyOf((name) => (all[name] ?? 0) + (each[name] ?? 0)), NONE)
}

function scaled(tally: Tally, factor: number): Tally {
  return tallyOf((name) => tally[name] * factor)
}

function tallyOf(of: (name: Outcome) => number): Tally {
  return { allowed: of('allowed'), degraded: of('degraded'), observed: of('observed'), denied: of('denied') }
}
