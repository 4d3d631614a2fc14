import type { Late, Policy } from '../algorithms/algorithm.ts'
import { staggerUs } from '../algorithms/stagger.ts'
import { unlimited } from '../algorithms/unlimited.ts'
import { type Clock, type Ticks, ticksOf } from '../clock.ts'
import { HeadgateError, rejectUnknown, show } from '../errors.ts'
import {
  blankOutcome,
  type Counter,
  type Forecast,
  type Group,
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

/** All counts of one limit: a table for each shape of state that its policies have had, and the blocked keys. */
interface Space {
  readonly tables: Table[]
  blocks: PackedTable | undefined
  /** What some keys need beside their state. */
  readonly late: Map<string, Late>
  /** One table, no blocks, nothing late, time not shifted: then there is only one thing to look at. */
  simple: boolean
}

interface Place {
  state: Float64Array
  at: number
}

interface Home {
  readonly store: MemoryStore
  readonly space: Space
  readonly table: Table
}

const SMALLEST_BYTES = 16_384
const ID_BYTES = 400
const LATE_BYTES = 400
const nothing = new Float64Array(16)
/** What `#bringOver` returns when it has filled in the place itself. */
const HERE = -2
/** For bookings that nobody will name again. */
const unmarked = { ref: 0, refPart: 0 }

export class MemoryStore implements SyncStore, Budget {
  readonly clock: Clock | undefined
  readonly #ticks: Ticks
  readonly #maxBytes: number
  readonly #spaces = new Map<string, Space>()
  readonly #tables: Table[] = []
  readonly #ids = new Map<string, { readonly result: Result; readonly untilUs: number }>()
  readonly #one: Outcome[] = []
  /** Where the states of a decision's keys are, and whether they have moved since. */
  readonly #places: Place[] = []
  #moved = false
  #bytes = 0

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
    return this.#bytes + this.#ids.size * ID_BYTES
  }

  /** Keys that have a count, over all limits. */
  get keys(): number {
    return this.#tables.reduce((sum, table) => sum + table.keys, 0)
  }

  run(groups: readonly Group[], nowUs?: number): Result[] {
    return groups.map((group) => this.#runGroup(group, nowUs))
  }

  #runGroup(group: Group, nowUs: number | undefined): Result {
    const { id, ops, idUs = 0 } = group
    const known = id === undefined ? undefined : this.#ids.get(id)
    const us = nowUs ?? this.#ticks.nowUs()
    if (known !== undefined && us < known.untilUs) return known.result
    const outcomes = ops.map(blankOutcome)
    const cost = this.decide(group, outcomes, nowUs)
    const result: Result = { ok: cost >= 0, cost: Math.max(0, cost), outcomes }
    if (id !== undefined && result.ok) this.#remember(id, result, us, us + idUs)
    return result
  }

  takeOne(counter: Counter, key: string, cost: number, outcome: Outcome, nowUs?: number): void {
    const { policy } = counter
    const { space, table } = this.#home(counter)
    if (!space.simple) {
      this.#one[0] = outcome
      this.decide({ ops: [{ verb: 'take', counter, key, cost }] }, this.#one, nowUs)
      return
    }
    // The same as `decide` where there is only one place to look at.
    let us = nowUs ?? this.#ticks.nowUs()
    let at = table.find(key)
    let state = table.state
    if (at < 0) {
      state = nothing
      at = 0
    }
    let waitUs = policy.waitUs(state, at, us, cost)
    if (waitUs > 0 && nowUs === undefined && this.#ticks.reused) {
      us = this.#ticks.freshUs()
      waitUs = policy.waitUs(state, at, us, cost)
    }
    outcome.waitUs = waitUs
    outcome.ok = waitUs === 0
    outcome.ref = outcome.refPart = 0
    if (waitUs === 0 && cost > 0) {
      if (state === nothing || policy.words === 0) {
        at = table.add(key, us)
        state = table.state
      }
      policy.book(state, at, us, cost, outcome)
    }
    policy.look(state, at, us, outcome)
  }

  decide(group: Group, outcomes: readonly Outcome[], nowUs?: number): number {
    const { ops, upTo, fixed } = group
    let us = nowUs ?? this.#ticks.nowUs()
    let cost = this.#judge(group, outcomes, us)
    if (cost < 0 && nowUs === undefined && this.#ticks.reused) {
      us = this.#ticks.freshUs()
      cost = this.#judge(group, outcomes, us)
    }
    if (cost >= 0) {
      for (let i = 0; i < ops.length; i++) {
        const op = ops[i] as Op
        if (!isAsked(op)) this.#change(op, us)
        else if (op.verb === 'take' && (outcomes[i] as Outcome).ok) {
          const units = upTo === undefined || fixed?.[i] ? op.cost : cost
          if (!op.observe || units === op.cost || this.#fits(op, i, units, us))
            this.#charge(op, i, units, outcomes[i] as Outcome, us)
          else (outcomes[i] as Outcome).ok = false
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
    policy.book(roomy, 0, shiftedUs, op.cost, unmarked)
  }

  /** Judges each op and returns how many units a take would get, or -1 if one has to wait. */
  #judge(group: Group, outcomes: readonly Outcome[], us: number): number {
    const { ops, upTo, fixed } = group
    let ok = true
    let fitting = upTo ?? group.cost ?? 0
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
        if (other.counter.space === op.counter.space && other.key === op.key) cost += other.cost
      }
      const place = this.#place(op, i, us)
      outcome.ref = outcome.refPart = 0
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
    const { blocks } = this.#home(counter).space
    if (blocks === undefined) return waitUs
    const blocked = blocks.find(key)
    return blocked < 0 ? waitUs : Math.max(waitUs, (blocks.state[blocked] as number) - us)
  }

  /** Finds where the state of the i-th op's key is, for the rest of the decision or until states move. */
  #place({ verb, counter, key }: Op, i: number, us: number): Place {
    const { table, space } = this.#home(counter)
    if (i === this.#places.length) this.#places.push({ state: nothing, at: 0 })
    const place = this.#places[i] as Place
    let at = table.find(key, true)
    if (at < 0 && space.tables.length > 1) {
      at = this.#bringOver(counter, key, us, verb, place)
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
    const { space, table } = this.#home(counter)
    let { state, at } = this.#places[i] as Place
    if (this.#moved || state === nothing || policy.words === 0) {
      at = table.add(key, us)
      state = table.state
      this.#moved = true
    }
    policy.book(state, at, us + shiftUs(policy, key), cost, outcome, late(space, key, us))
  }

  /** Whether an observed limit has room for as many units as the others let through. */
  #fits(op: Op, i: number, units: number, us: number): boolean {
    const { state, at } = this.#moved ? this.#place(op, i, us) : (this.#places[i] as Place)
    return this.#waitUs(op, units, state, at, us) === 0
  }

  #look(op: Op, i: number, outcome: Outcome, us: number): void {
    const { state, at } = this.#moved ? this.#place(op, i, us) : (this.#places[i] as Place)
    op.counter.policy.look(state, at, us + shiftUs(op.counter.policy, op.key), outcome)
  }

  /** Takes over what a key consumed under a policy whose state looks otherwise, once, when a take first meets this one. All of
   *  it: were it cut to a lower limit, a key could gain by going to and fro between two. A peek sees the same, in `place`, and
   *  moves nothing. */
  #bringOver({ space: name, policy }: Counter, key: string, us: number, verb: Op['verb'], place: Place): number {
    if (policy === unlimited) return -1
    const { tables, late } = this.#spaces.get(name) as Space
    const other = tables.find((each) => each.policy.shape !== policy.shape && each.find(key) >= 0)
    if (other === undefined) return -1
    const units = other.policy.used(other.state, other.find(key), us + shiftUs(other.policy, key))
    if (verb === 'peek') {
      if (units === 0) return -1
      place.state = policy.fit?.(undefined, us) ?? new Float64Array(policy.words)
      place.at = 0
      policy.book(place.state, 0, us + shiftUs(policy, key), units, unmarked)
      return HERE
    }
    other.delete(key)
    late.delete(key)
    if (units === 0) return -1
    const table = tables.find((each) => each.policy.shape === policy.shape) as Table
    const at = table.add(key, us)
    policy.book(table.state, at, us + shiftUs(policy, key), units, unmarked)
    return at
  }

  /** The verbs that are not asked whether they fit. */
  #change({ verb, counter, key, cost, mark = unmarked }: Op, us: number): void {
    const { space, table } = this.#home(counter)
    if (verb === 'reset' || (verb === 'block' && cost === 0)) {
      space.blocks?.delete(key)
      if (verb === 'reset') for (const each of space.tables) each.delete(key)
      if (verb === 'reset') space.late.delete(key)
      return
    }
    if (verb === 'block') {
      space.blocks ??= this.#track(new PackedTable(blocked, this))
      const { blocks } = space
      space.simple = false
      const at = blocks.add(key, us)
      blocks.state[at] = us + cost
      return
    }
    if (counter.policy === unlimited) return
    const home = space.tables.find((each) => each.find(key) >= 0) ?? table
    const shiftedUs = us + shiftUs(home.policy, key)
    if (verb === 'settle' && cost > 0) {
      const at = home.add(key, us)
      home.policy.book(home.state, at, shiftedUs, cost, unmarked)
    } else {
      const at = home.find(key)
      if (at < 0) return
      const kept = home.policy.giveBack(home.state, at, shiftedUs, -cost, mark, late(space, key, us))
      if (kept !== undefined) this.#keepLate(space, key, kept, us)
    }
  }

  #keepLate(space: Space, key: string, kept: Late, us: number): void {
    const most = Math.floor(this.#maxBytes / 8 / LATE_BYTES)
    for (const [old, { untilUs }] of space.late) {
      if (untilUs > us && space.late.size < most) break
      space.late.delete(old)
    }
    space.late.set(key, kept)
    space.simple = false
  }

  #home(counter: Counter): Home {
    const home = counter.home as Home | undefined
    if (home === undefined || home.store !== this) return this.#settleDown(counter)
    if (home.table.policy !== counter.policy) home.table.policy = counter.policy
    return home
  }

  #settleDown(counter: Counter): Home {
    const space: Space = this.#spaces.get(counter.space) ?? {
      tables: [],
      blocks: undefined,
      late: new Map(),
      simple: false,
    }
    this.#spaces.set(counter.space, space)
    let table = space.tables.find(({ policy }) => policy.shape === counter.policy.shape)
    if (table === undefined) {
      const Kind = counter.policy.words === 0 ? BoxedTable : PackedTable
      table = this.#track(new Kind(counter.policy, this))
      space.tables.push(table)
      space.simple =
        space.tables.length === 1 &&
        space.blocks === undefined &&
        !counter.policy.staggerUs &&
        counter.policy !== unlimited
    }
    table.policy = counter.policy
    const home: Home = { store: this, space, table }
    counter.home = home
    return home
  }

  #track<T extends Table>(table: T): T {
    this.#tables.push(table)
    return table
  }

  /** A limit may always have its share of the memory: then the largest table has to shrink. What nobody needs, anyone may use. */
  reserve(bytes: number, table: Table, nowUs: number): boolean {
    const shareBytes = this.#maxBytes / Math.max(1, this.#tables.length)
    while (bytes > 0 && this.bytes + bytes > this.#maxBytes) {
      const largest = this.#tables.reduce((large, each) => (each.bytes > large.bytes ? each : large), table)
      const before = largest.bytes
      if (largest === table || table.bytes + bytes > shareBytes || before <= shareBytes) return false
      largest.shrink(nowUs)
      if (largest.bytes === before) return false
    }
    this.#bytes += bytes
    return true
  }

  take(bytes: number): void {
    this.#bytes += bytes
  }

  #remember(id: string, result: Result, nowUs: number, untilUs: number): void {
    const most = Math.floor(this.#maxBytes / 8 / ID_BYTES)
    for (const [old, { untilUs: endUs }] of this.#ids) {
      if (endUs > nowUs && this.#ids.size < most) break
      this.#ids.delete(old)
    }
    this.#ids.set(id, { result, untilUs })
  }
}

function late({ late }: Space, key: string, us: number): Late | undefined {
  if (late.size === 0) return undefined
  const kept = late.get(key)
  if (kept === undefined || us < kept.untilUs) return kept
  late.delete(key)
  return undefined
}

function shiftUs(policy: Policy, key: string): number {
  return policy.staggerUs ? staggerUs(key, policy.staggerUs) : 0
}

function isAsked({ verb }: Op): boolean {
  return verb === 'take' || verb === 'peek'
}

function idOf({ counter, key }: Op): string {
  return `${counter.space} ${key}`
}

/** Blocked keys are a table of their own; its state is the instant at which the block ends. */
const blocked: Policy = {
  ...unlimited,
  shape: 'blocked',
  waitUs: (state, at, nowUs) => Math.max(0, (state[at] as number) - nowUs),
  idleAtUs: (state, at) => state[at] as number,
}
