import type { Policy } from '../headers/parse.ts'
import type { Weight } from './options.ts'

/** Faster than evenly by this, so that nothing of a window is left when it ends a little early. */
const HASTE = 1.1
/** What is left and enough for all who wait goes out at this distance, or evenly if that is closer. */
const SMOOTH_MS = 20
/** Timers fire late, and are caught up with by as much. */
const LATE_MS = 50
/** Timers may also fire a millisecond early, and clocks of a kind differ. */
const GUARD_MS = 2
/** Fields in whole seconds may move a reset by as much without meaning another one. */
const NOISE_MS = 2_000
/** How long a limit without any word about time is believed. */
const UNKNOWN_RESET_MS = 1_000
/** So often must more be left than there should be before a limit is taken for one that fills up all the time. */
const CERTAIN = 2
const DOUBTFUL = -20
/** Who has used less than one in so many of a limit that is used up shares it with many. */
const CROWD = 20
/** Windows are round numbers. */
const roundMs = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400].map(
  (seconds) => seconds * 1000,
)

export interface Lesson {
  readonly policy: Policy
  /** Which of the calls under this budget was answered; 0: one from before it was known. */
  readonly index: number
  readonly sentMs: number
  readonly nowMs: number
  readonly refused: boolean
  /** The reset was worked out from an instant in whole seconds. */
  readonly isFromInstant: boolean
}

export interface Situation {
  readonly nowMs: number
  /** How much those who wait would use. */
  readonly demand: number
  /** How many share this budget, ourselves included. */
  readonly peers: number
  /** How long a call may be kept waiting. */
  readonly patienceMs: number
}

/** One limit as its server tells it: what is left, until when, and so when the next call may go. */
export class Budget {
  readonly id: string
  readonly unit: string
  limit: number | undefined
  windowMs: number | undefined
  pausedUntilMs = -Infinity
  /** What is left, without what is under way; undefined until a server has said so. */
  #left: number | undefined
  #toldMs = -Infinity
  #resetAtMs = -Infinity
  /** When the last window that we know of ended. */
  #endedMs = -Infinity
  #underWay = 0
  #sent = 0
  /** When the next call would go if all went evenly. */
  #dueMs = -Infinity
  #lastIndex = -1
  #lastRemaining = Infinity
  /** What a call uses where nobody says: the mean of what calls have used. */
  #usual = 1
  /** Whether it fills up all the time, as a bucket does, or at once at its reset. */
  #growth = 0
  /** A guess at the window was wrong: from then on the longest told is waited for. */
  #trustsGuess = true
  #isGuessed = false
  /** It said that nothing was left, and that was not so. */
  #isFalse = false
  /** How many of ours were let through since the last reset. */
  #own = 0
  #probe: number | undefined

  constructor(id: string, unit = 'requests') {
    this.id = id
    this.unit = unit
  }

  /** Of the last call, for what is heard of calls that others sent. */
  get lastIndex(): number {
    return this.#sent
  }

  /** Over how long those should come back who were refused together: we have used next to nothing of it, so many others use it too. */
  get crowdMs(): number {
    const { limit = 0, windowMs = 0 } = this
    return this.#own < limit / CROWD ? windowMs * CROWD : 0
  }

  get #isGradual(): boolean {
    return this.#growth >= CERTAIN && this.#unitMs > 0
  }

  /** In which a unit comes back. */
  get #unitMs(): number {
    return this.limit && this.windowMs ? this.windowMs / this.limit : 0
  }

  /** What a call uses of this, of the weights it was given. */
  weigh(weight: Weight | undefined): number {
    if (typeof weight === 'number' && !this.unit.endsWith('tokens')) return weight
    const own = typeof weight === 'object' ? weight[this.unit] : undefined
    return own ?? (this.unit === 'requests' ? 1 : this.#usual)
  }

  #leftAt(nowMs: number): number | undefined {
    if (this.#left === undefined || !this.#isGradual) return this.#left
    return Math.min(this.limit ?? Infinity, this.#left + (nowMs - this.#toldMs) / this.#unitMs)
  }

  /** When a call of this weight may go: now or earlier, an instant, or Infinity: when an answer comes. */
  readyAtMs(weight: number, { nowMs, demand, peers, patienceMs }: Situation): number {
    if (this.pausedUntilMs > nowMs) return this.pausedUntilMs
    this.#roll(nowMs)
    const left = this.#leftAt(nowMs)
    if (left === undefined || this.#isFalse) return nowMs
    // A call that is larger than the limit goes when all of it is there.
    const needed = Math.min(weight, this.limit ?? weight)
    if (left < needed) return this.#refilledAtMs(needed - left, nowMs, patienceMs)
    return this.#dueMs + this.#distanceMs(left, nowMs, demand) * needed * peers
  }

  /** One call at a time tries before the reset, if that is so far off that calls would be lost to a mistake. */
  #refilledAtMs(missing: number, nowMs: number, patienceMs: number): number {
    const atMs = this.#isGradual ? nowMs + missing * this.#unitMs + GUARD_MS : this.#resetAtMs
    if (atMs <= nowMs) return this.#underWay > 0 ? Infinity : nowMs
    if (atMs - nowMs <= patienceMs) return atMs
    return this.#underWay > 0 ? Infinity : this.#probe === undefined ? nowMs : atMs
  }

  #distanceMs(left: number, nowMs: number, demand: number): number {
    if (demand <= left / 10) return 0
    const leftMs = this.#resetAtMs > nowMs ? this.#resetAtMs - nowMs : (this.windowMs ?? 0)
    const perUnitMs = this.#unitMs || Infinity
    const evenMs = this.#isGradual ? perUnitMs : Math.min(leftMs / Math.max(1, left), perUnitMs) / HASTE
    return demand <= left ? Math.min(evenMs, SMOOTH_MS) : evenMs
  }

  /** What was used up comes back. */
  #roll(nowMs: number): void {
    if (nowMs < this.#resetAtMs || this.#resetAtMs === -Infinity) return
    this.#endedMs = this.#resetAtMs
    this.#resetAtMs = -Infinity
    this.#own = 0
    if (this.#isGradual) return
    this.#left = Math.max(0, (this.limit ?? 1) - this.#underWay)
    this.#lastRemaining = Infinity
    this.#probe = undefined
    // The pause before it is distance enough.
    this.#dueMs = -Infinity
  }

  /** Returns which of its calls this is. */
  send(weight: number, nowMs: number, { demand, peers }: Pick<Situation, 'demand' | 'peers'>): number {
    this.#sent++
    const left = this.#leftAt(nowMs)
    if (left !== undefined) {
      const needed = Math.min(weight, this.limit ?? weight)
      if (left < needed) this.#probe = this.#sent
      const distanceMs = this.#distanceMs(left, nowMs, demand) * needed * peers
      const earliestMs = this.#dueMs === -Infinity ? nowMs : nowMs - Math.min(LATE_MS, distanceMs)
      this.#dueMs = Math.max(earliestMs, this.#dueMs + distanceMs)
      this.#left = (this.#left ?? 0) - weight
    } else this.#dueMs = nowMs
    this.#underWay += weight
    return this.#sent
  }

  /** A call that was counted as under way is not any more. */
  answered(weight: number): void {
    this.#underWay = Math.max(0, this.#underWay - weight)
  }

  learn(lesson: Lesson): void {
    const { policy, index, nowMs, sentMs, refused } = lesson
    const { remaining, source } = policy
    this.limit = policy.limit ?? this.limit
    if (policy.windowMs !== undefined) [this.windowMs, this.#isGuessed] = [policy.windowMs, false]
    this.#judge(index, refused, nowMs)
    if (!refused) this.#own++
    if (source === 'vendor' && !refused) this.#growth = CERTAIN
    this.#roll(nowMs)
    if (remaining === undefined) return
    const isLatest = index > this.#lastIndex
    const left = remaining - this.#underWay
    // What was sent before a reset tells what was left of the window before.
    const isPast = sentMs < this.#endedMs && !refused && !this.#isFirst(remaining) && !this.#isGradual
    if (isPast || (!isLatest && left >= (this.#leftAt(nowMs) ?? Infinity))) return
    const isNewWindow = this.#resetAtMs === -Infinity || (isLatest && remaining > this.#lastRemaining)
    if (isLatest && !refused) this.#compare(index, remaining)
    ;[this.#left, this.#toldMs] = [left, nowMs]
    this.#learnReset(lesson, isNewWindow)
    if (isLatest) [this.#lastIndex, this.#lastRemaining] = [index, remaining]
  }

  /** The call that was answered is the first of its window. */
  #isFirst(remaining: number): boolean {
    return this.limit !== undefined && remaining >= this.limit - 1
  }

  #learnReset({ policy, nowMs, isFromInstant }: Lesson, isNewWindow: boolean): void {
    const { remaining = 0, resetAfterMs = this.windowMs ?? UNKNOWN_RESET_MS } = policy
    const isFirst = this.#isFirst(remaining)
    if (policy.windowMs === undefined) {
      if (isFirst) this.#guessWindow(resetAfterMs, isFromInstant)
      // No window is shorter than what is left of it.
      else if (resetAfterMs - (isFromInstant ? NOISE_MS : 0) > (this.windowMs ?? 0)) this.windowMs = resetAfterMs
    }
    let atMs = nowMs + resetAfterMs + GUARD_MS
    if (isFirst && this.windowMs !== undefined) atMs = Math.min(atMs, nowMs + this.windowMs + GUARD_MS)
    // Of several words about one window the earliest is right: what they are off by is rounding, upwards.
    const isSame = !isNewWindow && atMs > this.#resetAtMs && atMs < this.#resetAtMs + NOISE_MS
    if (!isSame) this.#resetAtMs = atMs
  }

  /** The first call of a window tells its length, less what was rounded up. */
  #guessWindow(toldMs: number, isFromInstant: boolean): void {
    const between = roundMs.find((ms) => ms > toldMs - NOISE_MS && ms < toldMs)
    const guessed = isFromInstant && this.#trustsGuess ? between : undefined
    if (toldMs > 0) [this.windowMs, this.#isGuessed] = [guessed ?? toldMs, guessed !== undefined]
  }

  /** Holds what was believed against what came. */
  #judge(index: number, refused: boolean, nowMs: number): void {
    if (refused) {
      this.#isFalse = false
      // One that does not fill up evenly after all is not soon taken for it again.
      this.#growth = this.#isGradual ? DOUBTFUL : Math.min(0, this.#growth)
      if (this.#isGuessed && (this.#left ?? 0) > 0) this.#trustsGuess = false
    } else if (this.#probe === index && nowMs < this.#resetAtMs) this.#isFalse = true
  }

  /** What the calls since the last word have used, and whether less is gone than that. */
  #compare(index: number, remaining: number): void {
    if (this.#lastIndex < 0 || this.#lastRemaining === Infinity) return
    const [calls, used] = [index - this.#lastIndex, this.#lastRemaining - remaining]
    if (used > 0) this.#usual += (used / calls - this.#usual) * 0.3
    const hasGrown = this.unit === 'requests' && used < calls && used >= 0
    if (hasGrown || used !== calls)
      this.#growth = Math.min(CERTAIN + 1, Math.max(Math.min(0, this.#growth), this.#growth + (hasGrown ? 1 : -1)))
  }

  state(nowMs: number): BudgetState {
    const { unit, limit, windowMs } = this
    const left = this.#leftAt(nowMs)
    return {
      name: String((JSON.parse(this.id) as unknown[])[1]),
      unit,
      ...(limit !== undefined && { limit }),
      ...(windowMs !== undefined && { windowMs }),
      ...(left !== undefined && { left: Math.max(0, Math.floor(left)) }),
      resetAfterMs: Math.max(0, this.#resetAtMs - nowMs),
      pausedForMs: Math.max(0, this.pausedUntilMs - nowMs),
    }
  }
}

/** What is known of one limit of a server. */
export interface BudgetState {
  readonly name: string
  readonly unit: string
  readonly limit?: number
  readonly windowMs?: number
  /** What may still be sent before the reset. */
  readonly left?: number
  readonly resetAfterMs: number
  readonly pausedForMs: number
}
