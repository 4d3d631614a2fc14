/**
 * A policy is one limit, ready to judge: an algorithm with its numbers. It is pure: the state of a key comes in as a few
 * numbers, the time as an argument, and nothing else is read. What its state means is the policy's own affair; all zeros are
 * the state of a key never seen.
 *
 * - Time is in whole microseconds and may step back; a policy then waits longer, it never grants more.
 * - A unit taken at t counts at t <= now < t + window. A request fits if what counts plus its cost is at most the limit.
 * - Without other traffic "fits" only ever turns from false to true, so the wait of several limits is their longest.
 */
export interface Policy {
  readonly algorithm: AlgorithmName
  /** What fits at once when idle. */
  readonly limit: number
  /** How many numbers its state is; 0 when that grows with use, then `fit` makes room. */
  readonly words: number
  /** States of policies with the same shape can be exchanged, whatever their limits. */
  readonly shape: string
  /** When set, the windows of each key are shifted by less than this, by how much its hash says: see `staggerUs`. */
  readonly staggerUs?: number

  /** How long a request of this cost must wait: 0 now, Infinity for ever. Changes nothing. */
  waitUs(state: Float64Array, at: number, nowUs: number, cost: number): number
  /** Books units, whether they fit or not, and says in `mark` what `giveBack` must be told about them. */
  book(state: Float64Array, at: number, nowUs: number, cost: number, mark: Mark, late?: Late): void
  /** Takes units back that were booked, as far as they still count: never more than if they had never been booked. Returns
   *  what a store must keep beside the state for later calls, or undefined if nothing. */
  giveBack(
    state: Float64Array,
    at: number,
    nowUs: number,
    cost: number,
    mark: Readonly<Mark>,
    late?: Late,
  ): Late | undefined
  /** Whether a booking made now counts, from that later instant on, exactly as one made then would, though `lent` units are out
   *  until then. Absent: never. */
  sameAt?(state: Float64Array, at: number, nowUs: number, thenUs: number, lent: number): boolean
  /** Whether a booking has to stay, as somebody behind it is booked for a time to come and would not move up. */
  stays?(state: Float64Array, at: number, nowUs: number, mark: Readonly<Mark>, late?: Late): boolean
  /** Lets the hold time of a slot start over. Only for policies that hold slots. */
  renew?(state: Float64Array, at: number, nowUs: number, mark: Readonly<Mark>): void
  /** How long it takes from empty to full; only calendars ask when. */
  windowUs(nowUs: number): number
  /** Describes the state in `view`. Changes nothing. */
  look(state: Float64Array, at: number, nowUs: number, view: View): void
  /** Units that count now, rounded up: what a changed limit must take over. */
  used(state: Float64Array, at: number, nowUs: number): number
  /** Where units come back bit by bit: how long each takes, rounded down. */
  readonly unitUs?: number
  /** Of the same: how much of the last unit in `used` has come back already, in us of units that take so long; rounded down. */
  backUs?(state: Float64Array, at: number, nowUs: number, unitUs: number): number
  /** Of the same: takes over that so much of a unit has come back. */
  moveUp?(state: Float64Array, at: number, us: number): void
  /** From when on the state is as good as none. */
  idleAtUs(state: Float64Array, at: number): number
  /** The part of one of so many that count for themselves, at least 1: together they let through no more than this. If each says
   *  which it is, from 0 on, they let through as much. */
  share(nodes: number, nth?: number): Policy
  /** Whether its state is one number, which is also the mark of the booking that left it, and its twin as simple as can be. */
  readonly quick?: boolean
  /** Of one that is quick: `waitUs`, and `book` if that is 0, of one unit in one step. Returns the state it leaves, or 0 if it books nothing. */
  spend?(state: Float64Array, at: number, nowUs: number): number
  /** Of the same: units left when it had left this state. */
  leftBy?(state: number, nowUs: number): number
  /**
   * Until when units that are booked now may be spent as if they had been spent now: the end of what they are counted in, or
   * Infinity where `hold` sees to it. Absent: every instant counts, so units are never lent. Changes nothing.
   */
  lentUntilUs?(state: Float64Array, at: number, nowUs: number): number
  /** Sees to it that with `units` lent and not spent yet no more than the rest of the limit is left: else what came back since
   *  they were lent would be spent beside them. Only where units come back one by one. */
  hold?(state: Float64Array, at: number, nowUs: number, units: number): void
  /** Takes units back that were lent, are held until now, and were not spent. */
  takeBack?(state: Float64Array, at: number, nowUs: number, units: number, late?: Late): Late | undefined
  /** Turns the mark of what was lent into that of `cost` units of it, spent at `nowUs` with `left` units still held. */
  markLent?(mark: Mark, nowUs: number, cost: number, left: number): void
  /** What its twin in Lua is made of: its name and its numbers. */
  twin(nowUs: number): readonly (string | number)[]
  /** Returns a state with room for one more booking: the same or a larger copy. Only for `words: 0`. */
  fit?(state: Float64Array | undefined, nowUs: number): Float64Array
}

export type Quick = Policy & Required<Pick<Policy, 'spend' | 'leftBy'>>

/** Where a booking stands in a key's state. */
export interface Mark {
  ref: number
  /** Where `ref` alone does not tell: part of a microsecond, or when a slot comes back by itself. */
  refPart: number
}

/** What few keys need, and only for a time: what was given back out of turn. */
export interface Late {
  /** From when on it may be forgotten. */
  untilUs: number
  readonly numbers: number[]
}

export interface View {
  /** Units left now, never below 0. */
  remaining: number
  /** Until all units are back. */
  resetUs: number
  /** Until `remaining` next grows; Infinity if never. */
  growUs: number
}

export const algorithmNames = [
  'gcra',
  'token-bucket',
  'leaky-bucket',
  'fixed-window',
  'sliding-window',
  'sliding-log',
  'strict-window',
] as const
export type AlgorithmName = (typeof algorithmNames)[number] | 'at-once' | 'unlimited'
