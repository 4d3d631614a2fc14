import type { Mark, Policy, View } from '../algorithms/algorithm.ts'
import type { Clock } from '../clock.ts'
import type { Loan, LoanAsk } from './lending.ts'

/** Ways to hold a limit over several processes: asked for each time, or by a mode that the store has beside that. */
export const holds = ['central', 'lease', 'share', 'sync', 'shards', 'regions'] as const
export type Hold = (typeof holds)[number]
export type IsHeld = (counter: Pick<Counter, 'hold'>) => boolean

/** Which limits are held that way: those that say so and, where it is the only one, those that do not say. */
export function heldBy(way: Hold, isOnly = true): IsHeld {
  return isOnly ? ({ hold = way }) => hold === way : ({ hold }) => hold === way
}

/** What the modes of a store have to tell of themselves. */
export interface StoreStats {
  readonly lease?: LeaseStats
  /** How old what is known of others may be. */
  readonly lagMs?: { readonly sync?: number; readonly regions?: number }
  /** Among how many processes limits are divided. */
  readonly nodes?: number
}

export interface LeaseStats {
  /** Units that this process has borrowed and could spend now. */
  readonly heldUnits: number
  /** Requests that were decided by what was held, without asking. */
  readonly decided: number
  /** Messages that borrowed, reported or gave back. */
  readonly messages: number
}

/** Where the counts of one limit live and by which policy they are judged. Counters of one space share their keys' counts, also
 *  when their policies differ: units consumed under one policy are consumed under the next. */
export interface Counter {
  readonly space: string
  readonly policy: Policy
  /** How it is held, where a store knows several ways. */
  readonly hold?: Hold | undefined
  /** A store may note here where it put the counts, so that not every decision has to look for that. */
  home?: object
}

export interface Op {
  /**
   * - `take` spends `cost` if it fits; `peek` says what a take would get and leaves no trace.
   * - `settle` changes an earlier booking by `cost` units, more or (below 0) less, whether that fits or not.
   * - `release` frees the slot that an earlier take of an in-flight limit got.
   * - `block` refuses the key for `cost` microseconds, 0 lifts that; `reset` forgets the key's counts and block.
   * - `renew` lets the hold time of such a slot start over. Only a store that outlives those who hold slots needs to know it.
   * - `lease` borrows up to `cost` units to spend elsewhere, says what of earlier ones is spent, and gives back: see `lend`. Only
   *   a store that `lends` knows it.
   */
  readonly verb: 'take' | 'peek' | 'settle' | 'release' | 'block' | 'reset' | 'renew' | 'lease'
  readonly counter: Counter
  readonly key: string
  readonly cost: number
  /**
   * A take that does not fit may be booked ahead, for when it does, if that is no later than this. The group then is ok, and its
   * result says when its time comes: at the latest of its takes. All are booked or none is; none is where a charge made now would
   * count otherwise than one made then, see `Policy.sameAt`, or the key is blocked. Not in a group with an `id` or `upTo`.
   */
  readonly withinUs?: number | undefined
  /** For `settle`, `release` and `renew`: the outcome that is meant. A reset since then leaves nothing of it to give back. */
  readonly mark?: Readonly<Booking>
  /** For `lease`. */
  readonly loan?: LoanAsk
  /** Judged, and charged if it fits and the group is ok, but never the reason to refuse it. */
  readonly observe?: boolean
}

/** Decided as one: either all takes in it are charged or none is. What is not asked is done first, whatever comes of the takes. */
export interface Group {
  readonly ops: readonly Op[]
  /** What the call asked for: the cost of ops that are not `fixed`. Comes back in the result. */
  readonly cost?: number
  /** Takes as many units as fit, from 1 to this; ops marked by `fixed` keep their cost. */
  readonly upTo?: number
  readonly fixed?: readonly boolean[]
  /**
   * A group that is ok is remembered by its id for `idUs`, if it says that. Until then a group of takes or peeks with that id charges
   * nothing and gets the first result again. A group that says `forget` corrects the first booking with its settles, once: the
   * next one with that id changes nothing, and its result has cost 0. That there was one is remembered as long as the id is, or
   * for `idUs` where the id is not known.
   */
  readonly id?: string
  readonly idUs?: number
  /** Kept with the id, and part of the result of a repeat; `recall` says which ops it was made of. */
  readonly memo?: string
  recall?(memo: string): readonly Op[]
  /** Whether the booking is taken back altogether, so that a take with the id is charged again. */
  readonly forget?: boolean
}

/** Where a booking stands: in a key's state, and before or after which resets. */
export interface Booking extends Mark {
  era: number
}

export interface Outcome extends View, Booking {
  /** Whether this limit, by itself, lets the request through. */
  ok: boolean
  /** 0 if ok, Infinity if waiting cannot help. */
  waitUs: number
  /** The instant of the decision on the store's clock; 0 if it does not tell. */
  atUs: number
  /** What came of a `lease`. */
  readonly loan?: Loan
}

export interface Result {
  readonly ok: boolean
  /** The group's cost if it is ok, or as many units as `upTo` got; else 0. */
  readonly cost: number
  /** One per op, in their order. `remaining` and the rest are as of after the decision. */
  readonly outcomes: readonly Outcome[]
  /** How long until its time comes, if it was booked ahead. */
  readonly waitUs?: number
  /** Only on a repeat: the memo of the group whose result this is. */
  readonly memo?: string
}

/**
 * Keeps counts. The whole contract; `storeSuite` from `headgate/testing` says whether an implementation holds it.
 *
 * - All ops of a group see one instant, all groups of a run are decided in order, and no two callers start from the same state.
 * - A group that is not ok, a `peek` and a cost of 0 leave no trace.
 * - The store's clock tells the time, unless `nowUs` is given.
 * - A store that cannot know rejects. It never guesses: allow, deny or count locally is the gate's choice.
 */
export interface Store {
  /** Nobody waits for the answer after `deadlineUs` (on this process's monotonic clock): better then not to charge any more. */
  run(groups: readonly Group[], nowUs?: number, deadlineUs?: number): Result[] | Promise<Result[]>
  /** A run of one group without a promise for it: what is known at once is returned, all else is told to `asker`, later and once. */
  readonly ask?: (group: Group, nowUs: number | undefined, deadlineUs: number, asker: Asker) => Result | undefined
  /** What tells the time in this process, to those who wait for the store; absent: the system's clock. Counts are the store's affair. */
  readonly clock?: Clock | undefined
  /** Whether it knows the verb `lease`. */
  readonly lends?: boolean
  /** The ways to hold limits that it has beside `central`. */
  readonly holds?: readonly Hold[]
  /** How these are doing. */
  stats?(): StoreStats
  /** What its keys start with unless a gate says otherwise. */
  readonly prefix?: string | undefined
  /** Which of its parts decide a group, where parts can fail one by one; a rejection may say which did, see `PartsFailed`. */
  partsOf?(group: Group): readonly number[]
  /** Whether it can let a group through without asking anybody, by what it has borrowed. */
  holdsAll?(group: Group): boolean
  /** Others gave units back before their time, by a reset or the end of a block: what was refused is asked for again. */
  forgetDenials?(): void
  /** A word for why it rejected, to count by: `timeout`, or what its server says. Undefined if it could not be reached. */
  kindOf?(reason: unknown): string | undefined
  close?(): void | Promise<void>
}

/** Who asked a store for one group. */
export interface Asker {
  decided(result: Result): void
  failed(reason: unknown): void
}

/** What a store rejects with when it knows which of its parts did not answer: the others did. */
export class PartsFailed extends Error {
  readonly parts: readonly number[]

  constructor(parts: readonly number[], cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause })
    this.parts = parts
  }
}

/** A store that answers at once. Beside `run` it offers the same without making objects, for the caller to reuse its own. */
export interface SyncStore extends Store {
  readonly clock: Clock | undefined
  run(groups: readonly Group[], nowUs?: number): Result[]
  /** A run of one group that takes `cost` of one key, with the outcome written into `outcome`. */
  takeOne(counter: Counter, key: string, cost: number, outcome: Outcome, nowUs?: number): void
  /** A run of one group, which has no id: writes into `outcomes` and returns the result's cost, or -1 if it is not ok. */
  decide(group: Group, outcomes: readonly Outcome[], nowUs?: number): number
  /** Starts to look ahead: what would happen if nobody else came. Leaves no trace. */
  forecast(): Forecast
}

/** A store that answers at once, and most takes in one step. */
export interface QuickStore extends SyncStore {
  /** Takes a unit of a key, if that is all quick: its policy is, the key is known and has room. Returns the state it leaves, or 0
   *  if nothing was done and `takeOne` has to do it. */
  spendOne(counter: Counter, key: string, nowUs: number): number
  /** The same of several limits: takes a unit of each that has a key, or none of any. Writes the states into `states` and returns
   *  whether it did. */
  spendAll(
    counters: readonly Counter[],
    keys: readonly (string | undefined)[],
    states: number[],
    nowUs: number,
  ): boolean
  /** What these two book is of this era. */
  readonly era: number
}

/** A store that answers at once where it can, and else takes its time: `run` then returns the one or the other. */
export interface PromptStore extends Store {
  /** A run of one group that takes `cost` of one key, if it can be let through at once; false if it has to be asked for. */
  takeNow(counter: Counter, key: string, cost: number, outcome: Outcome, nowUs?: number): boolean
  close(): Promise<void>
}

/** A line of groups of takes that each go as soon as they fit, one after the other. */
export interface Forecast {
  /** How long from now the group has to wait behind those in line, Infinity if for ever; with `join` it then stands in line. */
  waitUs(group: Group, join: boolean, nowUs?: number): number
}

export function blankOutcome(): Outcome {
  return { ok: true, remaining: 0, waitUs: 0, resetUs: 0, growUs: 0, ref: 0, refPart: 0, era: 0, atUs: 0 }
}

/** While a key is blocked nothing is left of it, whatever its counts say. */
export function showBlocked(view: View, blockedUs: number): void {
  view.growUs = view.remaining > 0 ? blockedUs : Math.max(view.growUs, blockedUs)
  view.remaining = 0
  view.resetUs = Math.max(view.resetUs, blockedUs)
}

export function isAsked({ verb }: Pick<Op, 'verb'>): boolean {
  return verb === 'take' || verb === 'peek'
}

/** Whether takes of a group may be booked ahead. */
export function mayBookAhead({ ops, id, upTo }: Group): boolean {
  return id === undefined && upTo === undefined && ops.some(({ withinUs }) => withinUs !== undefined)
}

/** Names a key among all that a store has. */
export function idOf({ counter, key }: Pick<Op, 'counter' | 'key'>): string {
  return `${counter.space.length}:${counter.space}${key}`
}
