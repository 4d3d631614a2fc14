import { TopKeys } from '../telemetry/top-keys.ts'
import type { Fact } from './needs.ts'

const MOST_KEYS = 250_000
/** So many of those that are denied most are known without error if no more than twice as many are denied at all. */
const KEPT = 1000

export interface Minute {
  /** Its start, in milliseconds since the epoch. */
  readonly atMs: number
  readonly matched: number
  readonly denied: number
}

/** What one limit made of the requests of a log. */
export class Tally {
  matched = 0
  denied = 0
  /** Of the denied: those that it only watches, as its mode says. */
  observed = 0
  /** Of the denied: those that the gateway would have held back for a while instead. */
  heldBack = 0
  /** Of the denied: those that no wait would have helped. */
  never = 0
  longestWaitMs = 0
  /** Requests that do not say who sends them, and are refused with 400 for that. */
  nameless = 0
  /** Requests that it may concern, and that the log tells too little of. */
  notJudged = 0
  readonly lacking = new Set<Fact>()
  /** What requests are taken not to have, as the log does not tell. */
  readonly assumedAbsent = new Set<Fact>()
  readonly #keys = new Set<string>()
  readonly #top = new TopKeys(KEPT)
  readonly #minutes = new Minutes()

  /** Up to a bound. */
  get keys(): number {
    return this.#keys.size
  }

  get hasMoreKeys(): boolean {
    return this.#keys.size >= MOST_KEYS
  }

  get worstMinute(): Minute | undefined {
    return this.#minutes.worst
  }

  mostDenied(n: number): { readonly key: string; readonly denied: number }[] {
    return this.#top.top(n).map(({ key, count: denied }) => ({ key, denied }))
  }

  /** `key` is encoded; undefined where the limit is one counter for everybody. */
  add(atMs: number, key: string | undefined, ok: boolean, observed: boolean): void {
    this.matched++
    if (key !== undefined && this.#keys.size < MOST_KEYS) this.#keys.add(key)
    this.#minutes.add(atMs, ok)
    if (ok) return
    this.denied++
    if (observed) this.observed++
    if (key !== undefined) this.#top.add(key, 1, true)
  }

  addWait(waitMs: number, delayMs = 0): void {
    if (waitMs === Infinity) this.never++
    else this.longestWaitMs = Math.max(this.longestWaitMs, waitMs)
    if (waitMs <= delayMs) this.heldBack++
  }
}

const MINUTE_MS = 60_000

/** Which minute had the most denials. Time only goes on, so one minute is counted at a time. */
class Minutes {
  #worst: Minute | undefined
  #atMs = 0
  #matched = 0
  #denied = 0

  get worst(): Minute | undefined {
    if (this.#denied <= (this.#worst?.denied ?? 0)) return this.#worst
    return { atMs: this.#atMs, matched: this.#matched, denied: this.#denied }
  }

  add(atMs: number, ok: boolean): void {
    const start = atMs - (atMs % MINUTE_MS)
    if (start !== this.#atMs) {
      this.#worst = this.worst
      this.#atMs = start
      this.#matched = this.#denied = 0
    }
    this.#matched++
    if (!ok) this.#denied++
  }
}
