import type { Policy, Quick } from '../algorithms/algorithm.ts'
import { unlimited } from '../algorithms/unlimited.ts'
import { type Clock, type Ticks, ticksOf } from '../clock.ts'
import { HeadgateError, rejectUnknown, show } from '../errors.ts'
import { Expiring } from '../expiring.ts'
import { type Lent, type LoanAsk, lapse, lend } from './lending.ts'
import { type Home, isOfNow, type Space, Spaces, shiftUs } from './spaces.ts'
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
  type QuickStore,
  type Result,
  showBlocked,
} from './store.ts'
import type { PackedTable, Table } from './table.ts'

export interface MemoryOptions {
  /** How much memory the counts may take; 64 MiB unless said otherwise, enough for some two million keys. */
  readonly maxBytes?: number
  readonly clock?: Clock
}

/** Keeps counts in this process. Answers at once, has no timers, and is bounded: see `PackedTable` for what is forgotten first. */
export function memory(options: MemoryOptions = {}): MemoryStore {
  return new MemoryStore(options)
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
const ID_BYTES = 300
const OUTCOME_BYTES = 100
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
export class MemoryStore implements QuickStore {
  readonly lends = true
  readonly clock: Clock | undefined
  readonly #ticks: Ticks
  readonly #spaces: Spaces
  readonly #ids = new Expiring<Remembered>(({ bytes }) => {
    this.#idBytes -= bytes
    this.#spaces.take(-bytes)
  })
  readonly #one: Outcome[] = []
  /** Where the states of a decision's keys are, unless they have moved since. */
  readonly #places: Place[] = []
  #round = 0
  #idBytes = 0

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
    this.#spaces = new Spaces(maxBytes)
  }

  /** Bytes that the counts take now. */
  get bytes(): number {
    return this.#spaces.bytes
  }

  /** Keys that have a count, over all limits. */
  get keys(): number {
    return this.#spaces.keys
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

  #isBlocked(op: Op, us: number): boolean {
    return this.#blockedUs(op, us) > 0
  }

  /** For how long from now a key is blocked; 0 or less if it is not. */
  #blockedUs({ counter, key }: Op, us: number): number {
    const { blocks } = this.#spaces.home(counter, us).space
    const at = blocks?.find(key) ?? -1
    return blocks === undefined || at < 0 ? 0 : (blocks.state[at] as number) - us
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
    const most = this.#spaces.maxBytes / 8
    if (bytes > most) return
    this.#ids.set(id, { ...what, untilUs: nowUs + idUs, bytes }, nowUs)
    this.#spaces.take(bytes)
    this.#idBytes += bytes
    while (this.#idBytes > most) this.#ids.shift()
  }

  get era(): number {
    return this.#spaces.era
  }

  spendOne(counter: Counter, key: string, nowUs: number): number {
    const home = counter.home as Home | undefined
    if (home === undefined || home.quickIn !== this.#spaces) return 0
    const table = home.table as PackedTable
    const at = table.find(key)
    return at < 0 ? 0 : (counter.policy as Quick).spend(table.state, at, nowUs)
  }

  spendAll(
    counters: readonly Counter[],
    keys: readonly (string | undefined)[],
    states: number[],
    nowUs: number,
  ): boolean {
    const places = this.#places
    for (let i = 0; i < keys.length; i++) {
      const [counter, key] = [counters[i] as Counter, keys[i]]
      const home = counter.home as Home | undefined
      if (key === undefined) continue
      if (home === undefined || home.quickIn !== this.#spaces) return false
      const table = home.table as PackedTable
      const at = table.find(key, true)
      if (at < 0 || counter.policy.waitUs(table.state, at, nowUs, 1) > 0) return false
      while (places.length <= i) places.push({ state: nothing, at: 0 })
      const place = places[i] as Place
      place.state = table.state
      place.at = at
    }
    for (let i = 0; i < keys.length; i++) {
      if (keys[i] === undefined) continue
      const { state, at } = places[i] as Place
      states[i] = ((counters[i] as Counter).policy as Quick).spend(state, at, nowUs)
    }
    return true
  }

  takeOne(counter: Counter, key: string, cost: number, outcome: Outcome, nowUs?: number): void {
    const home = counter.home as Home | undefined
    // A known key that has room. All of it is short, so that engines inline it.
    if (home !== undefined && home.simpleIn === this.#spaces && cost > 0) {
      const { policy } = counter
      const us = nowUs ?? this.#ticks.nowUs()
      const at = home.table.find(key)
      const { state } = home.table
      if (at >= 0 && policy.waitUs(state, at, us, cost) === 0) {
        outcome.ok = true
        outcome.waitUs = 0
        outcome.refPart = 0
        outcome.era = this.#spaces.era
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
    outcome.era = this.#spaces.era
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
    const { space, table, simple } = this.#spaces.home(counter, us)
    if (simple) {
      this.#takeSimply(counter.policy, table, key, cost, outcome, us, nowUs === undefined && this.#ticks.reused)
      return
    }
    this.#one[0] = outcome
    this.decide({ ops: [{ verb: 'take', counter, key, cost }] }, this.#one, nowUs)
    if (++space.slowTakes % SLOW_TAKES === 0) this.#spaces.simplify(space, us)
  }

  decide(group: Group, outcomes: readonly Outcome[], nowUs?: number): number {
    const { ops, upTo, fixed } = group
    let us = nowUs ?? this.#ticks.nowUs()
    if (upTo === undefined && this.#takeKnown(ops, outcomes, us)) return group.cost ?? 0
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

  /** The short way, as of `takeOne`: all are known keys that have room, each in a space of its own. Else nothing is done. */
  #takeKnown(ops: readonly Op[], outcomes: readonly Outcome[], us: number): boolean {
    const places = this.#places
    const round = ++this.#round
    for (let i = 0; i < ops.length; i++) {
      const { verb, counter, key, cost } = ops[i] as Op
      const home = counter.home as Home | undefined
      if (home === undefined || home.simpleIn !== this.#spaces || verb !== 'take' || cost === 0) return false
      if (home.space.round === round) return false
      home.space.round = round
      const at = home.table.find(key, true)
      if (at < 0 || counter.policy.waitUs(home.table.state, at, us, cost) > 0) return false
      if (i === places.length) places.push({ state: nothing, at: 0 })
      const place = places[i] as Place
      place.state = home.table.state
      place.at = at
    }
    for (let i = 0; i < ops.length; i++) {
      const { counter, cost } = ops[i] as Op
      const { state, at } = places[i] as Place
      const outcome = outcomes[i] as Outcome
      outcome.ok = true
      outcome.waitUs = 0
      outcome.refPart = 0
      outcome.era = this.#spaces.era
      outcome.atUs = us
      counter.policy.book(state, at, us, cost, outcome)
      counter.policy.look(state, at, us, outcome)
    }
    return true
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
    if (this.#spaces.hasLent) for (const op of ops) if (isAsked(op)) this.#lapse(op, us)
    this.#spaces.moved = false
    for (let i = 0; i < ops.length; i++) {
      const op = ops[i] as Op
      if (!isAsked(op)) continue
      const outcome = outcomes[i] as Outcome
      const flexible = upTo !== undefined && !fixed?.[i]
      let cost = flexible ? 1 : op.cost
      // Ops on the same key see each other: two takes of one must not both find the last unit.
      for (let j = 0; j < i; j++) {
        const other = ops[j] as Op
        const counts = other.verb === 'take' && (!other.observe || (outcomes[j] as Outcome).ok)
        if (counts && other.counter.space === op.counter.space && other.key === op.key) cost += other.cost
      }
      const place = this.#place(op, i, us)
      outcome.ref = outcome.refPart = 0
      outcome.era = this.#spaces.era
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

  #waitUs(op: Op, cost: number, state: Float64Array, at: number, us: number): number {
    const { policy } = op.counter
    return Math.max(policy.waitUs(state, at, us + shiftUs(policy, op.key), cost), this.#blockedUs(op, us))
  }

  /** Finds where the state of the i-th op's key is, for the rest of the decision or until states move. */
  #place({ verb, counter, key }: Op, i: number, us: number): Place {
    const { table, space } = this.#spaces.home(counter, us)
    if (i === this.#places.length) this.#places.push({ state: nothing, at: 0 })
    const place = this.#places[i] as Place
    let at = table.find(key, true)
    if (at >= 0 && table.mixed && table.policyOf(key)?.shape !== counter.policy.shape) at = -1
    if (at < 0 && space.tables.length > 1) {
      at = this.#bringOver(counter.policy, space, table, key, us, verb === 'peek' ? place : undefined)
      if (at === HERE) return place
      if (at >= 0) this.#spaces.moved = true
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
    const { space, table } = this.#spaces.home(counter, us)
    let { state, at } = this.#places[i] as Place
    if (this.#spaces.moved || state === nothing || policy.words === 0) {
      at = table.add(key, us, policy)
      state = table.state
      this.#spaces.moved = true
    }
    policy.book(state, at, us + shiftUs(policy, key), cost, outcome, space.late?.get(key, us))
  }

  /** How long an observed limit would have to wait for as many units as the others let through. */
  #waitOf(op: Op, i: number, units: number, us: number): number {
    const { state, at } = this.#spaces.moved ? this.#place(op, i, us) : (this.#places[i] as Place)
    return this.#waitUs(op, units, state, at, us)
  }

  #look(op: Op, i: number, outcome: Outcome, us: number): void {
    const { state, at } = this.#spaces.moved ? this.#place(op, i, us) : (this.#places[i] as Place)
    op.counter.policy.look(state, at, us + shiftUs(op.counter.policy, op.key), outcome)
    const blockedUs = this.#blockedUs(op, us)
    if (blockedUs > 0) showBlocked(outcome, blockedUs)
  }

  /** Takes over what a key consumed under a policy whose state looks otherwise, once, when a take first meets this one. All of
   *  it: were it cut to a lower limit, a key could gain by going to and fro between two. With `peeked` it is only shown there. */
  #bringOver(policy: Policy, space: Space, table: Table, key: string, us: number, peeked: Place | undefined): number {
    if (policy === unlimited) return -1
    for (const other of space.tables) {
      const old = other.policyOf(key)
      if (old === undefined || old.shape === policy.shape) continue
      const from = other.find(key)
      const units = old.used(other.state, from, us + shiftUs(old, key))
      // Else who goes to and fro between two would never have the last unit back.
      const backUs = policy.unitUs === undefined ? 0 : (old.backUs?.(other.state, from, us, policy.unitUs) ?? 0)
      if (peeked !== undefined) {
        if (units === 0) return -1
        peeked.state = policy.fit?.(undefined, us) ?? new Float64Array(policy.words)
        peeked.at = 0
        policy.book(peeked.state, 0, us + shiftUs(policy, key), units, unnamed)
        policy.moveUp?.(peeked.state, 0, backUs)
        return HERE
      }
      // What was booked under the other policy cannot be told apart any more, so it cannot be given back.
      const idleUs = old.idleAtUs(other.state, from) - shiftUs(old, key)
      this.#spaces.forget(space, key, idleUs, us)
      if (units === 0) return -1
      const at = table.add(key, us, policy)
      policy.book(table.state, at, us + shiftUs(policy, key), units, unnamed)
      policy.moveUp?.(table.state, at, backUs)
      return at
    }
    return -1
  }

  /** The verbs that are not asked whether they fit. */
  #change(op: Op, outcome: Outcome, us: number): void {
    const { verb, key, cost } = op
    const { space } = this.#spaces.home(op.counter, us)
    const lent = this.#lapse(op, us)
    if (op.loan !== undefined) this.#lend(op, op.loan, outcome, us)
    else if (verb === 'block' && cost > 0) this.#spaces.block(space, key, us + cost, us)
    else if (verb === 'block' || verb === 'reset') {
      space.blocks?.delete(key)
      if (verb === 'reset') this.#spaces.reset(space, key, us)
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
    const { space, table } = this.#spaces.home(counter, us)
    const loans = this.#spaces.hasLent ? space.loans?.get(key, us) : undefined
    if (loans === undefined || policy.lentUntilUs === undefined) return 0
    // Counts of another policy come over first.
    this.#place({ ...op, verb: 'take' }, 0, us)
    const at = table.add(key, us, policy)
    this.#spaces.moved = true
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
    const { space, table } = this.#spaces.home(counter, us)
    this.#place({ ...op, verb: 'take' }, 0, us)
    const known = space.loans?.get(key, us)
    const isFull = known === undefined && this.#spaces.hasFullLoans(space)
    const loans = known ?? { numbers: [], untilUs: 0 }
    const at = table.add(key, us, policy)
    const late = space.late?.get(key, us)
    const blocked = isFull || this.#isBlocked(op, us)
    const lent: Lent = { policy, state: table.state, at, loans: loans.numbers, late, blocked }
    const shiftedUs = us + shiftUs(policy, key)
    const loan = lend(lent, shiftedUs, ask, outcome)
    if (lent.late !== undefined && lent.late !== late) this.#spaces.keepLate(space, key, lent.late, us)
    if (!isFull) this.#spaces.keepLoans(space, key, loans, policy, us)
    policy.look(table.state, at, shiftedUs, outcome)
    Object.assign(outcome, { loan, era: this.#spaces.era, atUs: us })
  }

  #renew({ key, mark = noBooking }: Op, space: Space, us: number): void {
    if (!isOfNow(mark, space, key, us)) return
    for (const table of space.tables) {
      const at = table.find(key)
      if (at >= 0) table.policyOf(key)?.renew?.(table.state, at, us, mark)
    }
  }

  #correctBooking({ verb, counter, key, cost, mark = noBooking }: Op, space: Space, us: number): void {
    if (counter.policy === unlimited) return
    const own = this.#spaces.home(counter, us).table
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
      if (late !== undefined) this.#spaces.keepLate(space, key, late, us)
    }
  }
}

function isCharged({ verb, cost, counter }: Op): boolean {
  return verb === 'take' && cost > 0 && counter.policy !== unlimited
}
