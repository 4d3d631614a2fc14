import type { LoanAsk } from './lending.ts'
import type { Counter, Outcome } from './store.ts'

/** How leases are made. */
export interface LeaseTerms {
  /** How long units are lent for. */
  readonly lifeUs: number
  /** Which part of a limit may be out at once, from 0 to 1. */
  readonly share: number
}

/** Time on two clocks. A monotonic clock may stand still while the machine sleeps, a wall clock may be set back: a lease is over
 *  as soon as either says so. */
export interface LeaseClock {
  nowUs(): number
  wallMs(): number
}

/** Sends a message to whoever keeps the counts: soon, or when others go there too. The outcome is that of a `lease` op. */
export type SendLoan = (holder: Holder, ask: LoanAsk, soon: boolean) => Promise<Outcome>

/** A lease is made for this part of its life at the rate seen, and no longer: the rest is for when messages are slow. Where
 *  that is few units, it is made for a whole life, as they take a message like any other. */
const AHEAD = 0.25
const FEW = 256
/** Asked for again when this part of it is left, of units or of time. */
const LOW = 0.25
/** What nobody spends of for this part of a life goes back. */
const IDLE = 0.5
/** Fewer takes than this in a life do not pay: each message costs about two takes, and one that gives back makes the takes after it
 *  dearer for a while. To begin with it takes some more, so that a key whose rate is about that does not go to and fro. */
const LEAST_TAKES = 10
export const FIRST_TAKES = 16
/** Less than this is not worth lending: nor are limits that have no more to lend. */
export const LEAST_LENT = 10
/** When little was lent, or nobody answered, there is no use in asking again before this part of a life. */
const PAUSE = 0.05

/**
 * What one process may spend of one key without asking: so many units until a deadline. The deadline counts from before the
 * message was sent, so it is over here before whoever lent the units takes them for spent.
 *
 * It asks ahead of the end, for as much as is spent in a quarter of a lease's life: at most twice and at least half of what it
 * asked for last. Who spends little stops asking, and who is idle gives back.
 */
export class Holder {
  readonly counter: Counter
  readonly key: string
  tokens = 0
  /** Units spent by those who wait for another limit to agree. */
  #reserved = 0
  /** Which lease it is: what was reserved of an earlier one is no more. */
  #lease = 1
  /** What was asked for when this was another number is not wanted any more. */
  #wanted = 0
  /** A message is on its way: there is never more than one. */
  #busy: Promise<void> | undefined
  #seq = 0
  #size = 0
  #untilUs = 0
  #wallUntilMs = 0
  #lowAt = -1
  #renewUs = Infinity
  #pauseUs = 0
  /** What was asked for since the last message, or in the life that runs. */
  #sinceUs: number
  #takes = 0
  #units = 0
  /** Spent since the last message. */
  #unreported = 0
  #usedUs: number
  /** What was left beside the lease when it was made, and when the rest is back. */
  #left = 0
  #leftAtUs = 0
  #resetUs = 0
  #growUs = 0
  #ref = 0
  #refPart = 0
  #era = 0
  /** How far the clock of whoever lends is ahead of this one, at least. */
  #aheadUs = 0
  readonly #most: number
  readonly #id: number
  readonly #clock: LeaseClock
  readonly #lifeUs: number
  readonly #send: SendLoan

  /** @param takes How many were asked for until now, in the life that runs. */
  constructor(
    id: number,
    counter: Counter,
    key: string,
    terms: LeaseTerms,
    clock: LeaseClock,
    send: SendLoan,
    takes = 0,
  ) {
    this.#id = id
    this.counter = counter
    this.key = key
    this.#lifeUs = terms.lifeUs
    this.#most = mostLent(counter, terms)
    this.#clock = clock
    this.#send = send
    this.#sinceUs = this.#usedUs = clock.nowUs()
    this.#takes = this.#units = takes
  }

  /** Whether it has nothing, and nobody has asked for a while. */
  get isIdle(): boolean {
    return !this.isHolding && this.#clock.nowUs() - this.#usedUs > this.#lifeUs
  }

  /** Units that it has, and may spend at this moment. */
  get spendable(): number {
    return this.tokens > 0 && !this.#isOver(this.#clock.nowUs()) ? this.tokens : 0
  }

  get isHolding(): boolean {
    return this.tokens > 0 || this.#busy !== undefined
  }

  /** Spends units that it has; false if it has not so many. */
  take(cost: number, outcome: Outcome): boolean {
    return this.#take(cost, outcome, 0)
  }

  /** As `take`, but not for certain yet: the answer says which lease it was, for `keep` or `undo`. 0 if there are not so many. */
  reserve(cost: number, outcome: Outcome): number {
    return this.#take(cost, outcome, cost) ? this.#lease : 0
  }

  #take(cost: number, outcome: Outcome, reserved: number): boolean {
    if (cost > this.tokens) return false
    const nowUs = this.#clock.nowUs()
    if (this.#isOver(nowUs)) return false
    this.tokens -= cost
    this.#reserved += reserved
    this.#units += cost
    this.#unreported += cost
    this.#takes++
    this.#usedUs = nowUs
    this.#tell(outcome, cost, nowUs)
    if (this.tokens <= this.#lowAt || nowUs >= this.#renewUs) this.#refill(nowUs)
    return true
  }

  keep(cost: number, lease: number): void {
    if (lease === this.#lease) this.#reserved -= cost
  }

  undo(cost: number, lease: number): void {
    if (lease !== this.#lease) return
    this.#reserved -= cost
    this.tokens += cost
  }

  /** What a take would get. */
  peek(cost: number, outcome: Outcome): boolean {
    if (cost > this.tokens) return false
    const nowUs = this.#clock.nowUs()
    if (this.#isOver(nowUs)) return false
    this.#tell(outcome, 0, nowUs)
    return true
  }

  /** What others have is only known as of when the lease was made: that and what is here is what is told. */
  #tell(outcome: Outcome, cost: number, nowUs: number): void {
    const { tokens } = this
    const { policy } = this.counter
    const remaining = this.#left + tokens
    outcome.ok = true
    outcome.waitUs = 0
    outcome.remaining = remaining < policy.limit ? remaining : policy.limit
    outcome.resetUs = this.#resetUs > nowUs ? this.#resetUs - nowUs : 0
    outcome.growUs = this.#growUs > nowUs ? this.#growUs - nowUs : 0
    outcome.ref = this.#ref
    outcome.refPart = this.#refPart
    outcome.era = this.#era
    outcome.atUs = nowUs + this.#aheadUs
    policy.markLent?.(outcome, outcome.atUs, cost, tokens)
  }

  /** Whoever keeps the counts has told what is left there: that is news, and here is some more. */
  addTo(outcome: Outcome, limit: number): void {
    this.#learn(outcome)
    outcome.remaining = Math.min(limit, outcome.remaining + this.tokens)
  }

  /** Somebody is about to ask whoever keeps the counts for more than there is here: what there is may be what they lack. */
  makeWay(cost: number): void {
    if (this.tokens > 0 && cost > this.tokens) void this.giveBack()
  }

  /** Something is about to be given back there, of units that still count as held here. */
  report(): void {
    if (this.#unreported > 0 && this.#busy === undefined && !this.#isOver(this.#clock.nowUs()))
      void this.#message(0, 0, this.#clock.nowUs())
  }

  /** Somebody has asked whoever keeps the counts, as there was not enough here. */
  miss(cost: number): void {
    const nowUs = this.#clock.nowUs()
    if (this.#size === 0 && nowUs - this.#sinceUs > this.#lifeUs) this.#count(nowUs)
    this.#usedUs = nowUs
    this.#takes++
    this.#units += cost
    if (this.#size > 0 || this.#takes >= FIRST_TAKES) this.#refill(nowUs)
  }

  /** Gives back all that is not reserved, unless a message is on its way. */
  giveBack(): Promise<void> | undefined {
    if (this.#busy !== undefined || this.tokens === 0 || this.#isOver(this.#clock.nowUs())) return undefined
    return this.#message(this.tokens, 0, this.#clock.nowUs())
  }

  /** Drops what it has, and what is on its way to it. */
  drop(): void {
    void this.giveBack()
    this.#wanted++
    this.#end()
  }

  /** Gives back what it has, and what is on its way to it. */
  async close(): Promise<void> {
    while (this.isHolding) {
      await this.#busy
      await this.giveBack()
    }
  }

  /** Called more often than every quarter of a life, so that what is not spent goes back, or is renewed, and never lapses. */
  rest(): void {
    if (this.tokens === 0) return
    const nowUs = this.#clock.nowUs()
    const isIdle = nowUs - this.#usedUs > this.#lifeUs * IDLE
    if (!isIdle && nowUs < this.#untilUs - this.#lifeUs * LOW) return
    if (!isIdle && this.#size > 0) this.#refill(nowUs)
    if ((isIdle || this.#size === 0) && this.giveBack() !== undefined) this.#cool(nowUs)
  }

  #count(nowUs: number): void {
    this.#sinceUs = nowUs
    this.#takes = this.#units = 0
  }

  #isOver(nowUs: number): boolean {
    if (nowUs < this.#untilUs && this.#clock.wallMs() < this.#wallUntilMs) return false
    this.#end()
    return true
  }

  /** Nothing of this lease is spent from now on. */
  #end(): void {
    if (this.tokens > this.#size * LOW) this.#size = Math.ceil(this.#size / 2)
    this.tokens = this.#reserved = this.#untilUs = 0
    this.#lowAt = -1
    this.#renewUs = Infinity
    this.#lease++
  }

  #refill(nowUs: number): void {
    if (this.#busy !== undefined || nowUs < this.#pauseUs) return
    const pastUs = Math.max(1, nowUs - this.#sinceUs)
    const pays = this.#takes >= LEAST_TAKES || this.#takes * this.#lifeUs >= LEAST_TAKES * pastUs
    const units = (this.#units * this.#lifeUs) / pastUs
    if (pays) this.#borrow(Math.ceil(Math.max(units * AHEAD, Math.min(units, FEW))), nowUs)
    else this.#cool(nowUs)
  }

  /** Too little is spent: what is here may be spent yet, and then it is asked for one by one. */
  #cool(nowUs: number): void {
    this.#size = 0
    this.#lowAt = -1
    this.#renewUs = Infinity
    this.#count(nowUs)
  }

  #borrow(goal: number, nowUs: number): void {
    const size = this.#size || Math.max(LEAST_LENT, this.#units)
    this.#size = Math.min(this.#most, Math.max(Math.ceil(size / 2), Math.min(goal, 2 * size), LEAST_LENT))
    this.#count(nowUs)
    const want = Math.max(0, this.#size - this.tokens - this.#reserved)
    // Who has little for what is spent lately is through with it in no time.
    const soon = this.tokens === 0 || goal > 2 * size
    void this.#message(0, want, nowUs, { soon })
  }

  /** @param apart How many of those that are given were never among what it holds. */
  #message(give: number, want: number, sentUs: number, { apart = 0, soon = true } = {}): Promise<void> {
    const wallMs = this.#clock.wallMs()
    this.tokens -= give - apart
    this.#unreported = 0
    const held = this.tokens + this.#reserved
    const [lease, wanted] = [this.#lease, this.#wanted]
    const [holder, seq, lifeUs, most] = [this.#id, ++this.#seq, this.#lifeUs, this.#most]
    const done = (outcome: Outcome) => {
      this.#busy = undefined
      const { units, kept } = outcome.loan ?? { units: -1, kept: 0 }
      if (lease === this.#lease) this.#lose(held - kept)
      if (units < want && units < LEAST_LENT) this.#pause()
      if (wanted === this.#wanted && units >= 0) this.#accept(outcome, sentUs, wallMs)
      else if (units > 0) void this.#message(units, 0, this.#clock.nowUs(), { apart: units })
    }
    const failed = () => {
      this.#busy = undefined
      this.#pause()
    }
    this.#busy = this.#send(this, { holder, seq, held, give, want, lifeUs, most }, soon).then(done, failed)
    return this.#busy
  }

  #pause(): void {
    this.#pauseUs = this.#clock.nowUs() + this.#lifeUs * PAUSE
  }

  /** Answers may be read in another order than they were made. */
  #learn({ remaining, atUs }: Outcome): void {
    if (atUs < this.#leftAtUs) return
    this.#left = remaining
    this.#leftAtUs = atUs
  }

  /** Whoever lends does not know of these any more. */
  #lose(units: number): void {
    if (units <= 0) return
    if (units > this.tokens) this.#end()
    else this.tokens -= units
  }

  #accept(outcome: Outcome, sentUs: number, wallMs: number): void {
    const { units, lifeUs } = outcome.loan as { units: number; lifeUs: number }
    const nowUs = this.#clock.nowUs()
    // What is left of the last lease may have ended while this one was on its way.
    this.#isOver(nowUs)
    if (units + this.tokens + this.#reserved === 0) return
    this.tokens += units
    this.#untilUs = sentUs + lifeUs
    this.#wallUntilMs = wallMs + Math.floor(lifeUs / 1000)
    this.#renewUs = this.#untilUs - lifeUs * LOW
    this.#lowAt = Math.floor(this.tokens * LOW)
    this.#learn(outcome)
    this.#resetUs = nowUs + outcome.resetUs
    this.#growUs = nowUs + outcome.growUs
    this.#aheadUs = outcome.atUs - nowUs
    if (units > 0) [this.#ref, this.#refPart, this.#era] = [outcome.ref, outcome.refPart, outcome.era]
    this.#isOver(nowUs)
  }
}

/** How many units of a key may be out at once. */
export function mostLent({ policy }: Counter, { share }: LeaseTerms): number {
  return Math.floor(policy.limit * share)
}
