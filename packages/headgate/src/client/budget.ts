import type { Policy } from '../headers/parse.ts'
import { GUARD_MS, Guess, HASTE, LATE_MS, type Refusal, roundMs, SMOOTH_MS } from './guess.ts'
import type { Weight } from './options.ts'
import { MOST_OWN, OwnUse } from './own-use.ts'

/** Fields in whole seconds may move a reset by as much without meaning another one. */
const NOISE_MS = 2_000
/** How long a limit without any word about time is believed. */
const UNKNOWN_RESET_MS = 1_000
/** So often must more be left than there should be before a limit is taken for one that fills up all the time. */
const CERTAIN = 2
const DOUBTFUL = -20
/** Who says that nothing is left when there is gets calls at this distance, or at that of its limit if that is shorter. */
const DISBELIEF_MS = 100
/** Who has used less than one in so many of a limit that is used up shares it with many. */
export const CROWD = 20
/** Some count what was used for longer than they say, so as never to let too much through: by as much, then by as much again. */
const [LONGER, LONGEST] = [1.1, 1.5]
export interface Lesson {
  readonly policy: Policy
  /** Which of the calls under this budget was answered; 0: one from before it was known. */
  readonly index: number
  readonly sentMs: number
  readonly nowMs: number
  readonly refused: boolean
  /** It was sent under this budget, and so is counted already. */
  readonly isCounted: boolean
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
  /** Of what it refuses without saying how much it takes. */
  guess: Guess | undefined
  /** What is left, without what is under way; undefined until a server has said so. */
  #left: number | undefined
  #toldMs = -Infinity
  #resetAtMs = -Infinity
  /** The longest time until a reset that was told: no window that is not known is shorter. */
  #longestMs = 0
  /** When the last window that we know of ended. */
  #endedMs = -Infinity
  #underWay = 0
  #sent = 0
  #lastSentMs = -Infinity
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
  /** How many of ours were let through since the last reset, and in the window before. */
  #own = 0
  #ownBefore = 0
  #probe: number | undefined
  readonly #use = new OwnUse()
  /** As far as is known, nobody else uses it. */
  #isOurs = false
  /** How much longer than its window it counts what was used. */
  #longer = 1

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
    return this.#own + this.#ownBefore < limit / CROWD ? windowMs * CROWD : 0
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

  /** After which all that was used at one time is back. */
  get #backMs(): number {
    return (this.windowMs ?? 0) * this.#longer
  }

  #leftAt(nowMs: number): number | undefined {
    if (this.#left === undefined || !this.#isGradual) return this.#left
    const fromMs = this.#toldMs - this.#backMs
    if (this.#isOurs) return this.#left + this.#use.between(fromMs, nowMs - this.#backMs)
    return Math.min(this.limit ?? Infinity, this.#left + (nowMs - this.#toldMs) / this.#unitMs)
  }

  /** When a call of this weight may go: now or earlier, an instant, or Infinity: when an answer comes. */
  readyAtMs(weight: number, { nowMs, demand, peers, patienceMs }: Situation): number {
    if (this.pausedUntilMs > nowMs) return this.pausedUntilMs
    const guessedMs = this.guess?.readyAtMs(nowMs, demand, peers) ?? nowMs
    if (guessedMs > nowMs) return guessedMs
    this.#roll(nowMs)
    const left = this.#leftAt(nowMs)
    if (left === undefined) return nowMs
    if (this.#isFalse) return this.#lastSentMs + Math.min(this.#unitMs, DISBELIEF_MS) * peers
    // A call that is larger than the limit goes when all of it is there.
    const needed = Math.min(weight, this.limit ?? weight)
    if (left < needed) return this.#refilledAtMs(needed - left, nowMs, patienceMs)
    return this.#dueMs + this.#distanceMs(left, nowMs, demand) * needed * peers
  }

  /** One call at a time tries before the reset, if that is so far off that calls would be lost to a mistake. */
  #refilledAtMs(missing: number, nowMs: number, patienceMs: number): number {
    const atMs = this.#backAtMs(missing, nowMs)
    if (atMs <= nowMs) return this.#underWay > 0 ? Infinity : nowMs
    if (atMs - nowMs <= patienceMs) return atMs
    return this.#underWay > 0 ? Infinity : this.#probe === undefined ? nowMs : atMs
  }

  #backAtMs(missing: number, nowMs: number): number {
    const most = (this.limit ?? 0) - missing - (this.#leftAt(nowMs) ?? 0)
    const ownMs = this.#isOurs ? this.#use.downToAtMs(most, this.#backMs) + GUARD_MS : Infinity
    if (!this.#isGradual) return Math.min(this.#resetAtMs, Math.max(nowMs, ownMs))
    return ownMs < Infinity ? ownMs : nowMs + missing * this.#unitMs + GUARD_MS
  }

  #distanceMs(left: number, nowMs: number, demand: number): number {
    if (demand <= left / 10) return 0
    const leftMs = this.#resetAtMs > nowMs ? this.#resetAtMs - nowMs : (this.windowMs ?? this.#longestMs)
    const perUnitMs = this.#unitMs || Infinity
    const evenMs = this.#isGradual ? perUnitMs : Math.min(leftMs / Math.max(1, left), perUnitMs) / HASTE
    return demand <= left ? Math.min(evenMs, SMOOTH_MS) : evenMs
  }

  /** What was used up comes back. */
  #roll(nowMs: number): void {
    if (nowMs < this.#resetAtMs || this.#resetAtMs === -Infinity) return
    this.#endedMs = this.#resetAtMs
    this.#resetAtMs = -Infinity
    ;[this.#ownBefore, this.#own] = [this.#own, 0]
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
    this.#lastSentMs = nowMs
    if ((this.limit ?? 0) <= MOST_OWN) this.#use.add(this.#sent, nowMs, weight)
    this.guess?.sent(nowMs, demand, peers)
    const left = this.#leftAt(nowMs)
    if (left !== undefined) {
      const needed = Math.min(weight, this.limit ?? weight)
      if (left < needed && !this.#isOurs) this.#probe = this.#sent
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

  /** Something was refused, and not for what is known of it. Returns for how long nothing should be sent, or 0. */
  refused(refusal: Refusal): number {
    this.guess ??= new Guess()
    return this.guess.refused(refusal)
  }

  learn(lesson: Lesson): void {
    const { policy, index, nowMs, sentMs, refused } = lesson
    const { remaining, source } = policy
    this.limit = policy.limit ?? this.limit
    if (policy.windowMs !== undefined) [this.windowMs, this.#isGuessed] = [policy.windowMs, false]
    if (!lesson.isCounted) this.#use.add(0, sentMs, 1)
    this.#use.answered(lesson.isCounted ? index : 0, sentMs, nowMs)
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
    this.#attribute(lesson)
    if (isLatest && !refused) this.#compare(index, remaining)
    ;[this.#left, this.#toldMs] = [left, nowMs]
    this.#learnReset(lesson, isNewWindow)
    if (isLatest) [this.#lastIndex, this.#lastRemaining] = [index, remaining]
  }

  /** Whether we have used all that is gone, and since when: what was used before its reset does not come back at once then. */
  #attribute({ policy, sentMs, refused }: Lesson): void {
    const { remaining = 0, resetAfterMs = 0, windowMs } = policy
    if (windowMs !== undefined && resetAfterMs > windowMs && this.#longer === 1) this.#longer = LONGER
    const used = (this.limit ?? Infinity) - remaining
    this.#isOurs = this.unit === 'requests' && this.#backMs > 0 && used <= this.#use.between(sentMs - this.#backMs)
    const isNew = this.#lastRemaining === Infinity && sentMs >= this.#endedMs && !refused
    if (this.#isOurs && isNew && used > this.#use.between(this.#endedMs - LATE_MS) + 1) this.#growth = CERTAIN
  }

  /** The call that was answered is the first of its window. */
  #isFirst(remaining: number): boolean {
    return this.limit !== undefined && remaining >= this.limit - 1
  }

  #learnReset({ policy, nowMs, isFromInstant }: Lesson, isNewWindow: boolean): void {
    const { remaining = 0, resetAfterMs = this.windowMs ?? UNKNOWN_RESET_MS } = policy
    const isFirst = this.#isFirst(remaining)
    this.#longestMs = Math.max(this.#longestMs, resetAfterMs)
    if (policy.windowMs === undefined) {
      if (isFirst) this.#guessWindow(resetAfterMs, isFromInstant)
      // No window is shorter than what is left of it.
      else if (resetAfterMs - (isFromInstant ? NOISE_MS : 0) > (this.windowMs ?? 0)) this.windowMs = resetAfterMs
    }
    let atMs = nowMs + resetAfterMs + GUARD_MS
    if (isFirst && this.windowMs !== undefined) atMs = Math.min(atMs, nowMs + this.#backMs + GUARD_MS)
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
      if (this.#isGradual && this.#isOurs) this.#longer = Math.min(this.#longer * LONGER, LONGEST)
      else this.#growth = this.#isGradual ? DOUBTFUL : Math.min(0, this.#growth)
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
