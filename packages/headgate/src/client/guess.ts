/** Windows are round numbers, mostly. */
export const roundMs = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400].map(
  (seconds) => seconds * 1000,
)

/** Faster than evenly by this, so that nothing of a window is left when it ends a little early. */
export const HASTE = 1.1
/** What is left and enough for all who wait goes out at this distance, or evenly if that is closer. */
export const SMOOTH_MS = 20
/** Timers fire late, and are caught up with by as much. */
export const LATE_MS = 50
/** Timers may also fire a millisecond early, and clocks of a kind differ. */
export const GUARD_MS = 2

/** A pause in whole seconds may be too long by this. */
const ROUNDED_MS = 1_000
/** A server that took fewer before it refused may take them at a much shorter distance. */
const FEW = 5
/** What a server is known to take is not exceeded for this long. */
const [SOON_MS, HOLD_MS] = [1_000, 10_000]
/** By so much it is then exceeded. */
const GROWTH = 0.1
/** Of a pause that is longer nothing follows: a limit of hours may have been used up before we came. Then it is by the second, and not by too few. */
const [LONG_MS, SECOND_MS, NOT_FEW] = [10_000, 1_000, 10]
const LONGEST_MS = 86_400_000
/** A limit that nothing was heard of for so long, and for so many of its windows, is forgotten. */
const [FORGET_MS, FORGET_WINDOWS] = [120_000, 10]

export interface Refusal {
  readonly sentMs: number
  readonly nowMs: number
  /** What was asked for. */
  readonly toldMs: number | undefined
  /** When calls were sent that were accepted, the oldest first. */
  readonly acceptedMs: readonly number[]
  /** How many were accepted within the last second; of very many it is not known when each was sent. */
  readonly lastSecond: number
}

interface Rate {
  readonly limit: number
  readonly windowMs: number
}

/**
 * The limit of a server that does not tell it, as its refusals show it. What it took before the first one, and when it takes more again, give a
 * limit and a window; what it takes between two refusals corrects them. From then on no more is sent than that, until it has held for a while:
 * then a little more is tried.
 */
export class Guess {
  #rate: Rate | undefined
  /** What held before more was tried, and what held before that; since when, and after how many calls. */
  #proven: readonly Rate[] = []
  #raisedMs = -Infinity
  #raisedAt = 0
  /** Our window: from its first call on. */
  #startMs = -Infinity
  #used = 0
  #dueMs = -Infinity
  /** Nothing is sent before. */
  #nextMs = -Infinity
  /** The last refusal, and the first of those without anything accepted in between. */
  #refusedMs = -Infinity
  #firstRefusedMs = -Infinity
  #sentSince = 0
  #acceptedSince = 0
  /** All of it may go at once: that much was taken at once. */
  #isBurst = false
  /** Nothing is known but that less is too much. */
  #isStarting = false
  #heldSinceMs = -Infinity
  #holdMs = HOLD_MS

  /** Calls a second; Infinity while there is no reason to hold back. */
  perSecond(nowMs: number): number {
    const rate = this.#at(nowMs)
    return rate === undefined ? Infinity : (rate.limit / rate.windowMs) * 1000
  }

  #at(nowMs: number): Rate | undefined {
    const { windowMs = 0 } = this.#rate ?? {}
    const sinceMs = nowMs - Math.max(this.#refusedMs, this.#nextMs)
    if (sinceMs > Math.max(FORGET_MS, FORGET_WINDOWS * windowMs)) this.#rate = undefined
    return this.#rate
  }

  readyAtMs(nowMs: number, demand: number, peers: number): number {
    const rate = this.#at(nowMs)
    if (rate === undefined || nowMs < this.#nextMs) return this.#nextMs
    const endMs = this.#startMs + rate.windowMs + GUARD_MS
    if (nowMs >= endMs) return nowMs
    return this.#used + 1 > rate.limit ? endMs : this.#dueMs + this.#distanceMs(rate, demand) * peers
  }

  #distanceMs({ limit, windowMs }: Rate, demand: number): number {
    const evenMs = windowMs / limit / HASTE
    return this.#isBurst && demand <= limit - this.#used ? Math.min(evenMs, SMOOTH_MS) : evenMs
  }

  sent(nowMs: number, demand: number, peers: number): void {
    const rate = this.#at(nowMs)
    if (rate === undefined) return
    if (nowMs >= this.#startMs + rate.windowMs + GUARD_MS) this.#begin(rate, nowMs)
    const distanceMs = this.#distanceMs(rate, demand) * peers
    const earliestMs = this.#dueMs === -Infinity ? nowMs : nowMs - Math.min(LATE_MS, distanceMs)
    this.#dueMs = Math.max(earliestMs, this.#dueMs + distanceMs)
    this.#used++
    this.#sentSince++
  }

  /** A window of which all was used without a refusal says that there may be more. */
  #begin(rate: Rate, nowMs: number): void {
    const isFull = this.#used + 1 > rate.limit && this.#acceptedSince >= this.#raisedAt + rate.limit
    if (isFull && this.#startMs > this.#refusedMs) this.#raise(rate, nowMs)
    ;[this.#startMs, this.#used, this.#dueMs] = [nowMs, 0, -Infinity]
  }

  #raise(rate: Rate, nowMs: number): void {
    const { limit, windowMs } = rate
    if (!this.#isStarting && nowMs < this.#heldSinceMs + this.#holdMs) return
    this.#proven = [rate, ...this.#proven.slice(0, 1)]
    ;[this.#raisedMs, this.#raisedAt] = [nowMs, this.#sentSince]
    if (this.#isStarting) this.#rate = { limit, windowMs: windowMs / 2 }
    // Of few, one more would be much more.
    else if (limit < 1 / GROWTH) this.#rate = { limit, windowMs: windowMs / (1 + GROWTH) }
    else this.#rate = { limit: Math.floor(limit * (1 + GROWTH)), windowMs }
    ;[this.#heldSinceMs, this.#holdMs, this.#isBurst] = [nowMs, SOON_MS, false]
  }

  /** When it was sent, and when the server is thought to have seen it, less the shortest way there. */
  accepted(sentMs: number, seenMs: number): void {
    // Its window begins with that, and so does ours.
    if (sentMs === this.#startMs) this.#startMs = seenMs
    // Too few to tell a limit from an outage that is over.
    if (this.#isStarting && this.#acceptedSince === 0 && this.#rate !== undefined)
      this.#rate = { ...this.#rate, windowMs: Math.min(this.#rate.windowMs, SECOND_MS) }
    this.#acceptedSince++
  }

  /** Returns for how long nothing should be sent; 0: nothing was ever accepted that would tell. */
  refused(refusal: Refusal): number {
    const { sentMs, nowMs, toldMs = 0 } = refusal
    // Of calls that left before the last refusal it says nothing new.
    if (sentMs > this.#refusedMs) {
      if (this.#at(nowMs) === undefined) this.#first(refusal)
      else if (this.#acceptedSince === 0) this.#widen(this.#rate as Rate, refusal)
      else this.#narrow(this.#rate as Rate, refusal)
      ;[this.#refusedMs, this.#startMs] = [nowMs, -Infinity]
      ;[this.#sentSince, this.#acceptedSince, this.#raisedAt] = [0, 0, 0]
      this.#nextMs = Math.max(this.#nextMs, nowMs + toldMs)
    }
    return Math.max(0, this.#nextMs - nowMs)
  }

  /** What was taken within a window before the refusal is what it takes, and the window begins with the first of that. */
  #first(refusal: Refusal): void {
    const { nowMs, toldMs = 0, acceptedMs } = refusal
    const startOf = (windowMs: number) => acceptedMs.find((ms) => ms > nowMs - windowMs) ?? nowMs
    const isLongEnough = (windowMs: number) => startOf(windowMs) + windowMs >= nowMs + toldMs - ROUNDED_MS
    const isLong = toldMs > LONG_MS
    const windowMs = isLong ? SECOND_MS : (roundMs.find(isLongEnough) ?? toldMs)
    const limit = Math.max(isLong ? NOT_FEW : 1, takenWithin(windowMs, refusal))
    this.#rate = { limit, windowMs }
    this.#proven = []
    this.#isStarting = limit < FEW
    this.#isBurst = !this.#isStarting && !isLong
    ;[this.#heldSinceMs, this.#holdMs] = [nowMs, HOLD_MS]
    this.#firstRefusedMs = nowMs
    // Nothing is known of a server that has never taken anything.
    this.#nextMs = acceptedMs.length === 0 ? nowMs : startOf(windowMs) + windowMs + GUARD_MS
  }

  /** Still nothing: at first the window may only have begun later, or end a little later. Then it is a longer one. */
  #widen(rate: Rate, { nowMs, toldMs = 0, acceptedMs }: Refusal): void {
    if (acceptedMs.length === 0 || toldMs > LONG_MS) return
    const endMs = Math.max(nowMs, nowMs + toldMs - ROUNDED_MS)
    const isLonger = endMs >= this.#firstRefusedMs + rate.windowMs * (1 + GROWTH)
    if (isLonger) this.#rate = this.#within(acceptedMs, Math.max(endMs - this.#firstRefusedMs, rate.windowMs) * 1.5)
    const { windowMs } = this.#rate as Rate
    const nextMs = this.#firstRefusedMs + windowMs * (isLonger ? 1 : 1 + GROWTH) + GUARD_MS
    this.#nextMs = isLonger ? Math.max(nextMs, nowMs + windowMs * GROWTH) : nextMs
  }

  /** What was taken within a round window of about this length, before anything was refused. */
  #within(acceptedMs: readonly number[], leastMs: number): Rate {
    const windowMs = roundMs.find((ms) => ms >= leastMs) ?? LONGEST_MS
    const fromMs = this.#firstRefusedMs - windowMs
    return { limit: Math.max(1, acceptedMs.filter((ms) => ms > fromMs).length), windowMs }
  }

  /** What it has taken within the window before is what it takes; if that is no less than was thought, the window is longer. */
  #narrow(rate: Rate, refusal: Refusal): void {
    const { nowMs, sentMs, acceptedMs } = refusal
    const recent = takenWithin(rate.windowMs, refusal)
    // The first call since it was raised still had the distance of before.
    const proven = this.#proven[sentMs <= this.#raisedMs ? 1 : 0] ?? this.#proven[0]
    if (proven !== undefined) this.#rate = proven
    else if (recent < rate.limit) this.#rate = { ...rate, limit: Math.max(1, recent) }
    else if (!this.#isBurst) this.#rate = { ...rate, windowMs: rate.windowMs * (1 + GROWTH) }
    this.#holdMs = this.#isStarting ? SOON_MS : HOLD_MS
    ;[this.#isStarting, this.#isBurst, this.#proven] = [false, false, []]
    ;[this.#heldSinceMs, this.#firstRefusedMs] = [nowMs, nowMs]
    const { limit, windowMs } = this.#rate as Rate
    this.#nextMs = Math.max(nowMs + windowMs / limit, (acceptedMs.at(-limit) ?? nowMs - windowMs) + windowMs)
  }
}

function takenWithin(windowMs: number, { nowMs, acceptedMs, lastSecond }: Refusal): number {
  const known = acceptedMs.filter((ms) => ms > nowMs - windowMs).length
  return windowMs < SECOND_MS ? known : Math.max(known, lastSecond)
}
