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

  /** Of one limit or of all; `count` bins up to the last second that all is told of. */
  bins(limit: string | undefined, nowMs: number, spanS: number, count: number): Bins {
    const step = Math.max(1, Math.round(spanS / count))
    const end = Math.floor((nowMs - LATE_MS) / 1000 / step) * step
    const bins = Array.from({ length: Math.floor(spanS / step) }, (_, i, start = end - spanS + i * step): Bin => {
      const known = Array.from({ length: step }, (_, j) => this.#tallyAt(start + j, limit)).filter(
        (bin) => bin !== null,
      )
      return known.length === 0 ? null : scaled(sum(known), 1 / known.length)
    })
    return { fromMs: (end - spanS) * 1000, stepMs: step * 1000, bins }
  }

  /** Per second, over the last `seconds`. */
  rate(limit: string | undefined, nowMs: number, seconds = 10): Tally {
    const { bins } = this.bins(limit, nowMs, seconds, seconds)
    return scaled(sum(bins.filter((bin) => bin !== null)), 1 / Math.max(1, bins.filter((bin) => bin !== null).length))
  }
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
