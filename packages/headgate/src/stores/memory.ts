import type { Late, Policy } from '../algorithms/algorithm.ts'
import { staggerUs } from '../algorithms/stagger.ts'
import { unlimited } from '../algorithms/unlimited.ts'
import { type Clock, type Ticks, ticksOf } from '../clock.ts'
import { HeadgateError, rejectUnknown, show } from '../errors.ts'
import { Expiring } from '../expiring.ts'
import { type Lent, type LoanAsk, lapse, lend, WIDTH } from './lending.ts'
import {
  type Booking,
  blankOutcome,
  type Counter,
  type Forecast,
  type Group,
  idOf,
  isAsked,
  mayBookAhead,
  type Op,
  type Outcome,
  type Result,
  type SyncStore,
} from './store.ts'
import { BoxedTable, type Budget, PackedTable, type Table } from './table.ts'

export interface MemoryOptions {
  /** How much memory the counts may take; 64 MiB unless said otherwise, enough for some two million keys. */
  readonly maxBytes?: number
  readonly clock?: Clock
}

/** Keeps counts in this process. Answers at once, has no timers, and is bounded: see `PackedTable` for what is forgotten first. */
export function memory(options: MemoryOptions = {}): MemoryStore {
  return new MemoryStore(options)
}

/** All counts of one limit: tables for the shapes of state that its policies have had, and what few keys need beside. */
class Space {
  readonly tables: Table[] = []
  /** By the shape of the states; shapes that share a table share its home. */
  readonly homes = new Map<string, Home>()
  blocks: PackedTable | undefined
  late: Expiring<Late> | undefined
  /** What is lent of which keys. */
  loans: Expiring<Loans> | undefined
  /** Keys whose counts were forgotten while they counted, and which era began with that: bookings of older ones are no more. */
  resets: Expiring<{ readonly era: number; readonly untilUs: number }> | undefined
  /** Of all keys, bookings of older eras are no more. */
  era = 0
  slowTakes = 0
}

/** Where a counter's keys are. */
interface Home {
  /** Undefined once the store has forgotten the space. */
  store: MemoryStore | undefined
  readonly space: Space
  readonly table: Table
  /** Time is not shifted and there is something to count. */
  readonly plain: boolean
  /** A take has only one place to look at: one table, no blocks, nothing late. */
  simple: boolean
  /** The store, while that is so and states have a fixed size. */
  simpleIn: MemoryStore | undefined
}

interface Loans {
  /** See `lend`. */
  readonly numbers: number[]
  /** By when all of it has come back, also if it is spent at the last moment. */
  untilUs: number
}

interface Place {
  state: Float64Array
  at: number
}

interface Remembered {
  readonly result: Result
  readonly untilUs: number
  readonly bytes: number
  closed: boolean
  forgotten: boolean
}

const SMALLEST_BYTES = 16_384
const SPACE_BYTES = 400
const ID_BYTES = 300
const OUTCOME_BYTES = 100
const LATE_BYTES = 400
const RESET_BYTES = 150
const LOANS_BYTES = 500
/** Shapes beyond these, as of overrides with a rate of their own, share the last table. */
const MOST_TABLES = 8
const MIXED = 'mixed'
const MANY_SPACES = 1000
/** How many takes of a space that is not simple pass until it is looked at again. */
const SLOW_TAKES = 1000
const nothing = new Float64Array(16)
/** What `#bringOver` returns when it has filled in the place itself. */
const HERE = -2
const noBooking: Readonly<Booking> = { ref: 0, refPart: 0, era: Infinity }
/** Written to where nobody will name the booking again. */
const unnamed = { ref: 0, refPart: 0 }
/** What is known of an id whose booking is corrected and was not known before. */
const closed = { result: { ok: true, cost: 0, outcomes: [] }, closed: true, forgotten: true }
/** Where keys without a limit have their counts. */
const nowhere: Table = new BoxedTable({ reserve: () => true, take: () => {} }, false)

export class MemoryStore implements SyncStore, Budget {
  readonly lends = true
  readonly clock: Clock | undefined
  readonly #ticks: Ticks
  readonly #maxBytes: number
  readonly #spaces = new Map<string, Space>()
  readonly #tables = new Set<Table>()
  readonly #ids = new Expiring<Remembered>(({ bytes }) => {
    this.#idBytes -= bytes
    this.take(-bytes)
  })
  readonly #one: Outcome[] = []
  /** Where the states of a decision's keys are, and whether they have moved since. */
  readonly #places: Place[] = []
  #moved = false
  /** Whether anything was ever lent. */
  #hasLent = false
  /** Raised by every reset. */
  #era = 0
  #bytes = 0
  #idBytes = 0
  #manySpaces = MANY_SPACES

  constructor(options: MemoryOptions) {
    rejectUnknown(options, ['maxBytes', 'clock'], 'memory()')
    const { maxBytes = 64 * 2 ** 20, clock } = options
    if (!Number.isInteger(maxBytes) || maxBytes < SMALLEST_BYTES) {
      throw new HeadgateError(
        'HG_OPTION_INVALID',
        `maxBytes is ${show(maxBytes)}: give a whole number from ${SMALLEST_BYTES} on`,
        maxBytes,
      )
    }
    this.clock = clock
    this.#ticks = ticksOf(clock)
    this.#maxBytes = maxBytes
  }

  /** Bytes that the counts take now. */
  get bytes(): number {
    return this.#bytes
  }

  /** Keys that have a count, over all limits. */
  get keys(): number {
    let keys = 0
    for (const table of this.#tables) keys += table.keys
    return keys
  }

  run(groups: readonly Group[], nowUs?: number): Result[] {
    return groups.map((group) => this.#runGroup(group, nowUs))
  }

  #runGroup(group: Group, nowUs: number | undefined): Result {
    const { id } = group
    if (id === undefined) return this.#decided(group, nowUs)
    const us = nowUs ?? this.#ticks.nowUs()
    const known = this.#ids.get(id, us)
    if (group.forget !== undefined) return this.#correct(group, known, nowUs)
    if (known !== undefined && !known.forgotten) return known.result
    const result = this.#decided(group, nowUs)
    if (result.ok && group.idUs !== undefined) this.#remember(id, group, result, us)
    return result
  }

  #decided(group: Group, nowUs: number | undefined): Result {
    const outcomes = group.ops.map(blankOutcome)
    const cost = this.decide(group, outcomes, nowUs)
    if (cost < 0 && mayBookAhead(group)) {
      const waitUs = this.#aheadUs(group, outcomes)
      if (waitUs !== undefined) return this.#bookAhead(group, outcomes, waitUs)
    }
    return { ok: cost >= 0, cost: Math.max(0, cost), outcomes }
  }

  /** How long until all of a group that was just refused fits, if it may be booked for then. */
  #aheadUs({ ops }: Group, outcomes: readonly Outcome[]): number | undefined {
    let waitUs = 0
    for (let i = 0; i < ops.length; i++) {
      const [op, outcome] = [ops[i] as Op, outcomes[i] as Outcome]
      if (op.observe || outcome.ok || !isAsked(op)) continue
      if (op.verb !== 'take' || op.withinUs === undefined || outcome.waitUs > op.withinUs) return undefined
      if (this.#isBlocked(op, outcome.atUs)) return undefined
      waitUs = Math.max(waitUs, outcome.waitUs)
    }
    const same = ops.every((op, i) => {
      return !isCharged(op) || op.observe || this.#sameAt(op, i, (outcomes[i] as Outcome).atUs, waitUs)
    })
    return same ? waitUs : undefined
  }

  #sameAt(op: Op, i: number, us: number, waitUs: number): boolean {
    const { policy } = op.counter
    const shiftedUs = us + shiftUs(policy, op.key)
    const lent = this.#lapse(op, us)
    const { state, at } = this.#place(op, i, us)
    return policy.sameAt?.(state, at, shiftedUs, shiftedUs + waitUs, lent) === true
  }

  #isBlocked({ counter, key }: Op, us: number): boolean {
    const { blocks } = this.#home(counter, us).space
    const at = blocks?.find(key) ?? -1
    return blocks !== undefined && at >= 0 && (blocks.state[at] as number) > us
  }

  #bookAhead({ ops, cost = 0 }: Group, outcomes: readonly Outcome[], waitUs: number): Result {
    for (let i = 0; i < ops.length; i++) {
      const [op, outcome] = [ops[i] as Op, outcomes[i] as Outcome]
      if (op.verb !== 'take' || (op.observe && !outcome.ok)) continue
      outcome.ok = true
      outcome.waitUs = 0
      this.#charge(op, i, op.cost, outcome, outcome.atUs)
    }
    for (let i = 0; i < ops.length; i++)
      if (isAsked(ops[i] as Op)) this.#look(ops[i] as Op, i, outcomes[i] as Outcome, (outcomes[i] as Outcome).atUs)
    return { ok: true, cost, outcomes, waitUs }
  }

  #correct(group: Group, known: Remembered | undefined, nowUs: number | undefined): Result {
    if (known?.closed) return { ok: true, cost: 0, outcomes: group.ops.map(blankOutcome) }
    const { id = '', idUs = 0 } = group
    // One that is not known was made without an id, or longer ago than ids are kept for: a take with it would be a new one.
    if (known === undefined && idUs > 0) this.#note(id, closed, nowUs ?? this.#ticks.nowUs(), idUs)
    if (known !== undefined) known.closed = true
    if (known !== undefined && group.forget) known.forgotten = true
    return this.#decided(group, nowUs)
  }

  #remember(id: string, { memo = '', idUs = 0 }: Group, result: Result, nowUs: number): void {
    this.#note(id, { result: { ...result, memo }, closed: false, forgotten: false }, nowUs, idUs)
  }

  #note(id: string, what: Pick<Remembered, 'result' | 'closed' | 'forgotten'>, nowUs: number, idUs: number): void {
    const { memo = '', outcomes } = what.result
    const bytes = ID_BYTES + 2 * (id.length + memo.length) + OUTCOME_BYTES * outcomes.length
    const most = this.#maxBytes / 8
    if (bytes > most) return
    this.#ids.set(id, { ...what, untilUs: nowUs + idUs, bytes }, nowUs)
    this.take(bytes)
    this.#idBytes += bytes
    while (this.#idBytes > most) this.#ids.shift()
  }

  takeOne(counter: Counter, key: string, cost: number, outcome: Outcome, nowUs?: number): void {
    const home = counter.home as Home | undefined
    // A known key that has room. All of it is short, so that engines inline it.
    if (home !== undefined && home.simpleIn === this && cost > 0) {
      const { policy } = counter
      const us = nowUs ?? this.#ticks.nowUs()
      const at = home.table.find(key)
      const { state } = home.table
      if (at >= 0 && policy.waitUs(state, at, us, cost) === 0) {
        outcome.ok = true
        outcome.waitUs = 0
        outcome.refPart = 0
        outcome.era = this.#era
        outcome.atUs = us
        policy.book(state, at, us, cost, outcome)
        policy.look(state, at, us, outcome)
        return
      }
    }
    this.#takeSlowly(counter, key, cost, outcome, nowUs)
  }

  /** The same as `decide` where there is only one place to look at. */
  #takeSimply(
    policy: Policy,
    table: Table,
    key: string,
    cost: number,
    outcome: Outcome,
    us: number,
    reused: boolean,
  ): void {
    let at = table.find(key, true)
    let state = at < 0 ? nothing : table.state
    if (at < 0) at = 0
    const waitUs = policy.waitUs(state, at, us, cost)
    if (waitUs > 0 && reused) {
      this.#takeSimply(policy, table, key, cost, outcome, this.#ticks.freshUs(), false)
      return
    }
    outcome.waitUs = waitUs
    outcome.ok = waitUs === 0
    outcome.ref = outcome.refPart = 0
    outcome.era = this.#era
    outcome.atUs = us
    if (waitUs === 0 && cost > 0) {
      at = table.add(key, us, policy)
      state = table.state
      policy.book(state, at, us, cost, outcome)
    }
    policy.look(state, at, us, outcome)
  }

  #takeSlowly(counter: Counter, key: string, cost: number, outcome: Outcome, nowUs: number | undefined): void {
    const us = nowUs ?? this.#ticks.nowUs()
    const { space, table, simple } = this.#home(counter, us)
    if (simple) {
      this.#takeSimply(counter.policy, table, key, cost, outcome, us, nowUs === undefined && this.#ticks.reused)
      return
    }
    this.#one[0] = outcome
    this.decide({ ops: [{ verb: 'take', counter, key, cost }] }, this.#one, nowUs)
    if (++space.slowTakes % SLOW_TAKES === 0) this.#simplify(space, us)
  }

  decide(group: Group, outcomes: readonly Outcome[], nowUs?: number): number {
    const { ops, upTo, fixed } = group
    let us = nowUs ?? this.#ticks.nowUs()
    for (let i = 0; i < ops.length; i++)
      if (!isAsked(ops[i] as Op)) this.#change(ops[i] as Op, outcomes[i] as Outcome, us)
    let cost = this.#judge(group, outcomes, us)
    if (cost < 0 && nowUs === undefined && this.#ticks.reused) {
      us = this.#ticks.freshUs()
      cost = this.#judge(group, outcomes, us)
    }
    if (cost >= 0) {
      for (let i = 0; i < ops.length; i++) {
        const op = ops[i] as Op
        if (op.verb === 'take' && (outcomes[i] as Outcome).ok) {
          const units = upTo === undefined || fixed?.[i] ? op.cost : cost
          if (!op.observe || units === op.cost || this.#waitOf(op, i, units, us) === 0)
            this.#charge(op, i, units, outcomes[i] as Outcome, us)
          else {
            const outcome = outcomes[i] as Outcome
            outcome.ok = false
            outcome.waitUs = this.#waitOf(op, i, units, us)
          }
        }
      }
    }
    for (let i = 0; i < ops.length; i++)
      if (isAsked(ops[i] as Op)) this.#look(ops[i] as Op, i, outcomes[i] as Outcome, us)
    return cost
  }

  forecast(): Forecast {
    const states = new Map<string, Float64Array>()
    let lastUs = 0
    const waitUs = (group: Group, join: boolean, nowUs = this.#ticks.nowUs()) => {
      const fromUs = Math.max(nowUs, lastUs)
      let wait = 0
      for (const op of group.ops) {
        if (!op.observe) wait = Math.max(wait, this.#waitUs(op, op.cost, this.#copyOf(op, states, fromUs), 0, fromUs))
      }
      if (join && wait !== Infinity) {
        lastUs = fromUs + wait
        for (const op of group.ops) this.#bookCopy(op, states, lastUs)
      }
      return fromUs + wait - nowUs
    }
    return { waitUs }
  }

  #bookCopy(op: Op, states: Map<string, Float64Array>, us: number): void {
    const { policy } = op.counter
    const state = this.#copyOf(op, states, us)
    const shiftedUs = us + shiftUs(policy, op.key)
    const roomy = policy.fit?.(state, shiftedUs) ?? state
    states.set(idOf(op), roomy)
    policy.book(roomy, 0, shiftedUs, op.cost, unnamed)
  }

  /** Judges each op and returns how many units a take would get, or -1 if one has to wait. */
  #judge(group: Group, outcomes: readonly Outcome[], us: number): number {
    const { ops, upTo, fixed } = group
    let ok = true
    let fitting = upTo ?? group.cost ?? 0
    if (this.#hasLent) for (const op of ops) if (isAsked(op)) this.#lapse(op, us)
    this.#moved = false
    for (let i = 0; i < ops.length; i++) {
      const op = ops[i] as Op
      if (!isAsked(op)) continue
      const outcome = outcomes[i] as Outcome
      const flexible = upTo !== undefined && !fixed?.[i]
      let cost = flexible ? 1 : op.cost
      // Ops on the same key see each other: two takes of one must not both find the last unit.
      for (let j = 0; j < i; j++) {
        const other = ops[j] as Op
        if (other.verb === 'take' && other.counter.space === op.counter.space && other.key === op.key)
          cost += other.cost
      }
      const place = this.#place(op, i, us)
      outcome.ref = outcome.refPart = 0
      outcome.era = this.#era
      outcome.atUs = us
      outcome.waitUs = this.#waitUs(op, cost, place.state, place.at, us)
      outcome.ok = outcome.waitUs === 0
      if (op.observe) continue
      if (!outcome.ok) ok = false
      if (!flexible) continue
      this.#look(op, i, outcome, us)
      if (outcome.remaining < fitting) fitting = outcome.remaining
    }
    return ok ? fitting : -1
  }

  #waitUs({ counter, key }: Op, cost: number, state: Float64Array, at: number, us: number): number {
    const { policy } = counter
    const waitUs = policy.waitUs(state, at, us + shiftUs(policy, key), cost)
    const { blocks } = this.#home(counter, us).space
    if (blocks === undefined) return waitUs
    const blocked = blocks.find(key)
    return blocked < 0 ? waitUs : Math.max(waitUs, (blocks.state[blocked] as number) - us)
  }

  /** Finds where the state of the i-th op's key is, for the rest of the decision or until states move. */
  #place({ verb, counter, key }: Op, i: number, us: number): Place {
    const { table, space } = this.#home(counter, us)
    if (i === this.#places.length) this.#places.push({ state: nothing, at: 0 })
    const place = this.#places[i] as Place
    let at = table.find(key, true)
    if (at >= 0 && table.mixed && table.policyOf(key)?.shape !== counter.policy.shape) at = -1
    if (at < 0 && space.tables.length > 1) {
      at = this.#bringOver(counter.policy, space, table, key, us, verb === 'peek' ? place : undefined)
      if (at === HERE) return place
      if (at >= 0) this.#moved = true
    }
    place.state = at < 0 ? nothing : table.state
    place.at = at < 0 ? 0 : at
    return place
  }

  #copyOf(op: Op, states: Map<string, Float64Array>, us: number): Float64Array {
    const known = states.get(idOf(op))
    if (known !== undefined) return known
    const { state, at } = this.#place(op, 0, us)
    const { words } = op.counter.policy
    const copy = state.slice(at, words === 0 ? undefined : at + words)
    states.set(idOf(op), copy)
    return copy
  }

  #charge({ counter, key }: Op, i: number, cost: number, outcome: Outcome, us: number): void {
    const { policy } = counter
    if (cost === 0 || policy === unlimited) return
    const { space, table } = this.#home(counter, us)
    let { state, at } = this.#places[i] as Place
    if (this.#moved || state === nothing || policy.words === 0) {
      at = table.add(key, us, policy)
      state = table.state
      this.#moved = true
    }
    policy.book(state, at, us + shiftUs(policy, key), cost, outcome, space.late?.get(key, us))
  }

  /** How long an observed limit would have to wait for as many units as the others let through. */
  #waitOf(op: Op, i: number, units: number, us: number): number {
    const { state, at } = this.#moved ? this.#place(op, i, us) : (this.#places[i] as Place)
    return this.#waitUs(op, units, state, at, us)
  }

  #look(op: Op, i: number, outcome: Outcome, us: number): void {
    const { state, at } = this.#moved ? this.#place(op, i, us) : (this.#places[i] as Place)
    op.counter.policy.look(state, at, us + shiftUs(op.counter.policy, op.key), outcome)
  }

  /** Takes over what a key consumed under a policy whose state looks otherwise, once, when a take first meets this one. All of
   *  it: were it cut to a lower limit, a key could gain by going to and fro between two. With `peeked` it is only shown there. */
  #bringOver(policy: Policy, space: Space, table: Table, key: string, us: number, peeked: Place | undefined): number {
    if (policy === unlimited) return -1
    for (const other of space.tables) {
      const old = other.policyOf(key)
      if (old === undefined || old.shape === policy.shape) continue
      const units = old.used(other.state, other.find(key), us + shiftUs(old, key))
      if (peeked !== undefined) {
        if (units === 0) return -1
        peeked.state = policy.fit?.(undefined, us) ?? new Float64Array(policy.words)
        peeked.at = 0
        policy.book(peeked.state, 0, us + shiftUs(policy, key), units, unnamed)
        return HERE
      }
      // What was booked under the other policy cannot be told apart any more, so it cannot be given back.
      const idleUs = old.idleAtUs(other.state, other.find(key)) - shiftUs(old, key)
      this.#forget(space, key, idleUs, us)
      if (units === 0) return -1
      const at = table.add(key, us, policy)
      policy.book(table.state, at, us + shiftUs(policy, key), units, unnamed)
      return at
    }
    return -1
  }

  /** The verbs that are not asked whether they fit. */
  #change(op: Op, outcome: Outcome, us: number): void {
    const { verb, key, cost } = op
    const { space } = this.#home(op.counter, us)
    const lent = this.#lapse(op, us)
    if (op.loan !== undefined) this.#lend(op, op.loan, outcome, us)
    else if (verb === 'block' && cost > 0) this.#block(space, key, us + cost, us)
    else if (verb === 'block' || verb === 'reset') {
      space.blocks?.delete(key)
      if (verb === 'reset') this.#reset(space, key, us)
      // What is lent is not forgotten: it is yet to be spent.
      if (verb === 'reset' && lent > 0) this.#correctBooking({ ...op, verb: 'settle', cost: lent }, space, us)
    } else if (verb === 'renew') this.#renew(op, space, us)
    else {
      this.#correctBooking(op, space, us)
      this.#lapse(op, us)
    }
  }

  /** Sees to it that what is lent of a key is held, and returns how much that is. */
  #lapse(op: Op, us: number): number {
    const { counter, key } = op
    const { policy } = counter
    const { space, table } = this.#home(counter, us)
    const loans = this.#hasLent ? space.loans?.get(key, us) : undefined
    if (loans === undefined || policy.lentUntilUs === undefined) return 0
    // Counts of another policy come over first.
    this.#place({ ...op, verb: 'take' }, 0, us)
    const at = table.add(key, us, policy)
    this.#moved = true
    const out = lapse(policy, table.state, at, us + shiftUs(policy, key), loans.numbers)
    if (loans.numbers.length === 0) space.loans?.delete(key)
    return out
  }

  /** Units of a key that are lent, and may be spent by those who have them. */
  lentOf(counter: Counter, key: string, nowUs = this.#ticks.nowUs()): number {
    return this.#lapse({ verb: 'peek', counter, key, cost: 0 }, nowUs)
  }

  #lend(op: Op, ask: LoanAsk, outcome: Outcome, us: number): void {
    const { counter, key } = op
    const { policy } = counter
    const { space, table } = this.#home(counter, us)
    this.#place({ ...op, verb: 'take' }, 0, us)
    const known = space.loans?.get(key, us)
    const isFull = known === undefined && (space.loans?.size ?? 0) * LOANS_BYTES > this.#maxBytes / 16
    const loans = known ?? { numbers: [], untilUs: 0 }
    const at = table.add(key, us, policy)
    const late = space.late?.get(key, us)
    const blocked = isFull || this.#isBlocked(op, us)
    const lent: Lent = { policy, state: table.state, at, loans: loans.numbers, late, blocked }
    const shiftedUs = us + shiftUs(policy, key)
    const loan = lend(lent, shiftedUs, ask, outcome)
    if (lent.late !== undefined && lent.late !== late) this.#keepLate(space, key, lent.late, us)
    if (!isFull) this.#keepLoans(space, key, loans, policy, us)
    policy.look(table.state, at, shiftedUs, outcome)
    Object.assign(outcome, { loan, era: this.#era, atUs: us })
  }

  #keepLoans(space: Space, key: string, loans: Loans, policy: Policy, us: number): void {
    const { numbers } = loans
    if (numbers.length === 0) {
      space.loans?.delete(key)
      return
    }
    const isKnown = loans.untilUs > 0
    loans.untilUs = backByUs(policy, numbers)
    if (isKnown) return
    this.#hasLent = true
    space.loans ??= new Expiring(() => this.take(-LOANS_BYTES))
    space.loans.set(key, loans, us)
    this.take(LOANS_BYTES)
    this.#simplify(space, us)
  }

  #renew({ key, mark = noBooking }: Op, space: Space, us: number): void {
    if (!isOfNow(mark, space, key, us)) return
    for (const table of space.tables) {
      const at = table.find(key)
      if (at >= 0) table.policyOf(key)?.renew?.(table.state, at, us, mark)
    }
  }

  #block(space: Space, key: string, untilUs: number, us: number): void {
    const blocks = space.blocks ?? new PackedTable(blocked, this, true)
    const at = blocks.add(key, us)
    blocks.state[at] = untilUs
    if (space.blocks !== undefined) return
    space.blocks = blocks
    this.#tables.add(blocks)
    this.#simplify(space, us)
  }

  #reset(space: Space, key: string, us: number): void {
    let idleUs = 0
    for (const table of space.tables) {
      const policy = table.policyOf(key)
      if (policy === undefined) continue
      idleUs = Math.max(idleUs, policy.idleAtUs(table.state, table.find(key)) - shiftUs(policy, key))
    }
    this.#forget(space, key, idleUs, us)
  }

  /** Forgets the counts of a key, which would have been idle at `idleUs`. */
  #forget(space: Space, key: string, idleUs: number, us: number): void {
    const lateUs = space.late?.get(key, us)?.untilUs ?? 0
    for (const table of space.tables) table.delete(key)
    space.late?.delete(key)
    const untilUs = Math.max(idleUs, lateUs)
    if (untilUs > us) this.#beginEra(space, key, untilUs, us)
  }

  /** From now on no booking made before can be given back: until `untilUs` by this, and then because it is over. */
  #beginEra(space: Space, key: string, untilUs: number, us: number): void {
    space.resets ??= new Expiring(() => this.take(-RESET_BYTES))
    const lastUs = space.resets.get(key, us)?.untilUs ?? 0
    space.resets.set(key, { era: ++this.#era, untilUs: Math.max(untilUs, lastUs) }, us)
    this.take(RESET_BYTES)
    // Better too little given back than too much.
    while (space.resets.size * RESET_BYTES > this.#maxBytes / 16)
      space.era = Math.max(space.era, space.resets.shift()?.value.era ?? 0)
  }

  #correctBooking({ verb, counter, key, cost, mark = noBooking }: Op, space: Space, us: number): void {
    if (counter.policy === unlimited) return
    const own = this.#home(counter, us).table
    const known = space.tables.find((each) => {
      const policy = each.policyOf(key)
      return (
        policy !== undefined &&
        (each === own || policy.idleAtUs(each.state, each.find(key)) > us + shiftUs(policy, key))
      )
    })
    if (known === undefined) for (const each of space.tables) each.delete(key)
    const table = known ?? own
    const policy = known?.policyOf(key) ?? counter.policy
    const shiftedUs = us + shiftUs(policy, key)
    if (verb === 'settle' && cost > 0) {
      const at = table.add(key, us, policy)
      policy.book(table.state, at, shiftedUs, cost, unnamed)
    } else if (known !== undefined && isOfNow(mark, space, key, us)) {
      const at = table.find(key)
      const before = space.late?.get(key, us)
      const sameShape = counter.policy.shape === policy.shape
      if (sameShape && counter.policy.stays?.(table.state, at, shiftedUs, mark, before)) return
      const late = policy.giveBack(table.state, at, shiftedUs, -cost, mark, before)
      if (late !== undefined) this.#keepLate(space, key, late, us)
    }
  }

  #keepLate(space: Space, key: string, late: Late, us: number): void {
    space.late ??= new Expiring(() => this.take(-LATE_BYTES))
    space.late.set(key, late, us)
    this.take(LATE_BYTES)
    this.#simplify(space, us)
    while (space.late.size * LATE_BYTES > this.#maxBytes / 16) {
      const oldest = space.late.shift() as { key: string; value: Late }
      this.#beginEra(space, oldest.key, oldest.value.untilUs, us)
    }
  }

  #home(counter: Counter, us: number): Home {
    const home = counter.home as Home | undefined
    return home !== undefined && home.store === this ? home : this.#settleDown(counter, us)
  }

  #settleDown(counter: Counter, us: number): Home {
    const { policy } = counter
    const space = this.#spaces.get(counter.space) ?? this.#newSpace(counter.space, us)
    let home = space.homes.get(policy.shape) ?? space.homes.get(MIXED)
    if (home === undefined) {
      const mixed = space.tables.length === MOST_TABLES - 1
      const table =
        policy === unlimited
          ? nowhere
          : mixed || policy.words === 0
            ? new BoxedTable(this, mixed)
            : new PackedTable(policy, this)
      const plain = policy !== unlimited && !policy.staggerUs && !mixed
      home = { store: this, space, table, plain, simple: false, simpleIn: undefined }
      space.homes.set(mixed ? MIXED : policy.shape, home)
      if (table !== nowhere) {
        this.#tables.add(table)
        space.tables.push(table)
      }
      this.#simplify(space, us)
    }
    if (home.table instanceof PackedTable && policy.limit < home.table.policy.limit) home.table.policy = policy
    counter.home = home
    return home
  }

  /** Sees whether takes in a space may go the short way. */
  #simplify(space: Space, us: number): void {
    space.blocks?.sweep(us)
    if (space.blocks?.keys === 0) {
      this.#drop(space.blocks)
      space.blocks = undefined
    }
    const simple = space.tables.length === 1 && space.blocks === undefined && !space.late?.size && !space.loans?.size
    for (const home of space.homes.values()) {
      home.simple = simple && home.plain
      home.simpleIn = home.simple && home.table instanceof PackedTable ? this : undefined
    }
  }

  #newSpace(name: string, us: number): Space {
    if (this.#spaces.size >= this.#manySpaces) this.#forgetSpaces(us)
    const space = new Space()
    this.#spaces.set(name, space)
    this.take(SPACE_BYTES)
    return space
  }

  /** Limits that come and go, each with a name of its own, do not fill the memory: those without live counts go, and if that is
   *  not enough the oldest. */
  #forgetSpaces(us: number): void {
    for (const [name, space] of this.#spaces) {
      for (const table of space.tables) table.sweep(us)
      space.blocks?.sweep(us)
      const idle =
        !space.blocks?.keys && !space.resets?.size && !space.loans?.size && space.tables.every(({ keys }) => keys === 0)
      if (idle) this.#forgetSpace(name, space)
    }
    for (const [name, space] of this.#spaces) {
      if (this.#bytes <= this.#maxBytes) break
      if (!space.blocks?.keys) this.#forgetSpace(name, space)
    }
    this.#manySpaces = Math.max(MANY_SPACES, 2 * this.#spaces.size)
  }

  #forgetSpace(name: string, { tables, blocks, late, loans, resets, homes }: Space): void {
    for (const home of homes.values()) home.store = home.simpleIn = undefined
    for (const table of blocks === undefined ? tables : [...tables, blocks]) this.#drop(table)
    this.take(-SPACE_BYTES - LATE_BYTES * (late?.size ?? 0) - RESET_BYTES * (resets?.size ?? 0))
    this.take(-LOANS_BYTES * (loans?.size ?? 0))
    this.#spaces.delete(name)
    this.#moved = true
  }

  #drop(table: Table): void {
    this.#tables.delete(table)
    table.drop()
  }

  /** A limit may always have its share of the memory, and blocks half of it: then the largest table has to shrink. What nobody
   *  needs, anyone may use. */
  reserve(bytes: number, table: Table, nowUs: number): boolean {
    const shareBytes = table.lasting ? this.#maxBytes / 2 : this.#maxBytes / this.#tables.size
    while (bytes > 0 && this.#bytes + bytes > this.#maxBytes) {
      let largest: Table | undefined = table.lasting ? undefined : table
      for (const each of this.#tables)
        if (!each.lasting && (largest === undefined || each.bytes > largest.bytes)) largest = each
      if (largest === undefined || largest === table || table.bytes + bytes > shareBytes) return false
      const before = largest.bytes
      if (before <= shareBytes && !table.lasting) return false
      largest.shrink(nowUs)
      if (largest.bytes === before) return false
    }
    this.#bytes += bytes
    return true
  }

  take(bytes: number): void {
    this.#bytes += bytes
  }
}

/** Whether the counts of the key were not forgotten since. */
function isOfNow({ era }: Readonly<Booking>, space: Space, key: string, us: number): boolean {
  return era >= Math.max(space.era, space.resets?.get(key, us)?.era ?? 0)
}

/** By when what is lent has come back, if it is spent at the last moment. */
function backByUs(policy: Policy, loans: readonly number[]): number {
  let [lastUs, out] = [0, 0]
  for (let i = 0; i < loans.length; i += WIDTH) {
    lastUs = Math.max(lastUs, loans[i + 3] as number)
    out += loans[i + 2] as number
  }
  if (policy.hold === undefined) return lastUs + 1
  const state = new Float64Array(policy.words)
  policy.hold(state, 0, lastUs, out)
  return policy.idleAtUs(state, 0) + 1
}

function isCharged({ verb, cost, counter }: Op): boolean {
  return verb === 'take' && cost > 0 && counter.policy !== unlimited
}

function shiftUs(policy: Policy, key: string): number {
  return policy.staggerUs ? staggerUs(key, policy.staggerUs) : 0
}

/** Blocked keys are a table of their own; its state is the instant at which the block ends. */
const blocked: Policy = {
  ...unlimited,
  shape: 'blocked',
  waitUs: (state, at, nowUs) => Math.max(0, (state[at] as number) - nowUs),
  idleAtUs: (state, at) => state[at] as number,
}
