import type { Policy } from '../algorithms/algorithm.ts'
import { staggerUs } from '../algorithms/stagger.ts'
import { unlimited } from '../algorithms/unlimited.ts'
import { type Clock, type Ticks, ticksOf } from '../clock.ts'
import { HeadgateError, rejectUnknown, show } from '../errors.ts'
import { blankOutcome, type Counter, type Group, type Op, type Outcome, type Result, type SyncStore } from './store.ts'
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
}

interface Home {
  readonly store: MemoryStore
  readonly space: Space
  readonly table: Table
}

const SMALLEST_BYTES = 16_384
const ID_BYTES = 400
const nothing = new Float64Array(16)

export class MemoryStore implements SyncStore, Budget {
  readonly clock: Clock | undefined
  readonly #ticks: Ticks
  readonly #maxBytes: number
  readonly #spaces = new Map<string, Space>()
  readonly #tables: Table[] = []
  readonly #ids = new Map<string, { readonly result: Result; readonly untilUs: number }>()
  #bytes = 0
  #nowUs = 0

  constructor(options: MemoryOptions) {
    rejectUnknown(options, ['maxBytes', 'clock'], 'memory()')
    const { maxBytes = 64 * 2 ** 20, clock } = options
    if (!Number.isInteger(maxBytes) || maxBytes < SMALLEST_BYTES) {
      throw new HeadgateError('HG_OPTION_INVALID', `maxBytes is ${show(maxBytes)}: give a whole number from ${SMALLEST_BYTES} on`, maxBytes)
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
    return groups.map((group) => this.#decide(group, nowUs))
  }

  runOne(op: Op, outcome: Outcome, nowUs?: number): void {
    const { verb, counter, key, cost } = op
    if (verb !== 'take' && verb !== 'peek') return this.#change(op, this.#instant(nowUs))
    const { policy } = counter
    const { space, table } = this.#home(counter)
    let us = this.#instant(nowUs)
    let at = table.find(key)
    if (at < 0 || policy.staggerUs || space.tables.length > 1 || space.blocks !== undefined) {
      this.#judge(op, outcome, us)
      if (!outcome.ok && this.#ticks.reused && nowUs === undefined) this.#judge(op, outcome, (us = this.#ticks.freshUs()))
      if (outcome.ok && verb === 'take') this.#charge(op, outcome, us)
      this.#look(op, outcome, us)
      return
    }
    // The same in one piece for the common case: one key, seen before, whose time is not shifted.
    let waitUs = policy.waitUs(table.state, at, us, cost)
    if (waitUs > 0 && this.#ticks.reused && nowUs === undefined) {
      us = this.#ticks.freshUs()
      waitUs = policy.waitUs(table.state, at, us, cost)
    }
    outcome.waitUs = waitUs
    outcome.ok = waitUs === 0
    if (waitUs === 0 && verb === 'take' && cost > 0) {
      if (policy.words === 0) at = table.add(key, us)
      outcome.ref = policy.book(table.state, at, us, cost)
    }
    policy.look(table.state, at, us, outcome)
  }

  lineUs(groups: readonly Group[], nowUs?: number): number {
    const startUs = this.#instant(nowUs)
    const states = new Map<string, Float64Array>()
    let us = startUs
    for (const { ops } of groups) {
      let waitUs = 0
      for (const op of ops) waitUs = Math.max(waitUs, this.#waitOf(op, this.#copyOf(op, states, us), us))
      if (waitUs === Infinity) return Infinity
      us += waitUs
      for (const { counter, key, cost } of ops) {
        const id = `${counter.space} ${key}`
        const shiftedUs = us + shiftUs(counter.policy, key)
        const state = states.get(id) as Float64Array
        const roomy = counter.policy.fit?.(state, shiftedUs) ?? state
        states.set(id, roomy)
        counter.policy.book(roomy, 0, shiftedUs, cost)
      }
    }
    return us - startUs
  }

  #instant(nowUs: number | undefined): number {
    this.#nowUs = nowUs ?? this.#ticks.nowUs()
    return this.#nowUs
  }

  #decide(group: Group, nowUs: number | undefined): Result {
    let us = this.#instant(nowUs)
    const known = group.id === undefined ? undefined : this.#ids.get(group.id)
    if (known !== undefined && us < known.untilUs) return known.result
    const outcomes = group.ops.map(blankOutcome)
    let cost = this.#judgeAll(group, outcomes, us)
    if (cost < 0 && this.#ticks.reused && nowUs === undefined) cost = this.#judgeAll(group, outcomes, (us = this.#ticks.freshUs()))
    const ok = cost >= 0
    group.ops.forEach((op, i) => {
      const outcome = outcomes[i] as Outcome
      const charged = group.upTo === undefined || group.fixed?.[i] === true ? op : { ...op, cost }
      if (op.verb !== 'take' && op.verb !== 'peek') this.#change(op, us)
      else if (ok && op.verb === 'take') this.#charge(charged, outcome, us)
    })
    group.ops.forEach((op, i) => this.#look(op, outcomes[i] as Outcome, us))
    const result = { ok, cost: Math.max(0, cost), outcomes }
    if (ok && group.id !== undefined) this.#remember(group.id, result, us + (group.idUs ?? 0))
    return result
  }

  /** Judges each op and returns how many units a take would get, or -1 if there is one that must wait. */
  #judgeAll({ ops, upTo, fixed }: Group, outcomes: readonly Outcome[], us: number): number {
    let ok = true
    let fitting = upTo ?? 0
    ops.forEach((op, i) => {
      if (op.verb !== 'take' && op.verb !== 'peek') return
      const outcome = outcomes[i] as Outcome
      const flexible = upTo !== undefined && fixed?.[i] !== true
      // Ops on the same key see each other: two takes of one must not both find the last unit.
      let cost = flexible ? 1 : op.cost
      for (let j = 0; j < i; j++) if (sameKey(ops[j] as Op, op)) cost += (ops[j] as Op).cost
      this.#judge(cost === op.cost ? op : { ...op, cost }, outcome, us)
      ok &&= outcome.ok
      if (!flexible) return
      this.#look(op, outcome, us)
      fitting = Math.min(fitting, outcome.remaining)
    })
    if (!ok) return -1
    return upTo === undefined ? Math.max(0, ...ops.map((op) => op.cost)) : fitting
  }

  #judge(op: Op, outcome: Outcome, us: number): void {
    outcome.waitUs = this.#waitOf(op, this.#stateOf(op, us), us)
    outcome.ok = outcome.waitUs === 0
  }

  #waitOf({ counter, key, cost }: Op, { state, at }: { state: Float64Array; at: number }, us: number): number {
    const { policy } = counter
    const waitUs = policy.waitUs(state, at, us + shiftUs(policy, key), cost)
    const { blocks } = this.#home(counter).space
    const blocked = blocks === undefined ? -1 : blocks.find(key)
    return blocks === undefined || blocked < 0 ? waitUs : Math.max(waitUs, (blocks.state[blocked] as number) - us)
  }

  /** The state of a key, to be read only: where it is, or what it would be if it were brought over from another policy. */
  #stateOf({ counter, key }: Op, us: number): { state: Float64Array; at: number } {
    const { table } = this.#home(counter)
    const at = table.find(key)
    if (at >= 0) return { state: table.state, at }
    const units = this.#usedElsewhere(counter, key, us)
    if (units === 0) return { state: nothing, at: 0 }
    const { policy } = counter
    const state = policy.fit?.(undefined, us) ?? new Float64Array(policy.words)
    policy.book(state, 0, us + shiftUs(policy, key), units)
    return { state, at: 0 }
  }

  #copyOf(op: Op, states: Map<string, Float64Array>, us: number): { state: Float64Array; at: number } {
    const id = `${op.counter.space} ${op.key}`
    let state = states.get(id)
    if (state === undefined) {
      const found = this.#stateOf(op, us)
      const { words } = op.counter.policy
      state = found.state.slice(found.at, words === 0 ? undefined : found.at + words)
      states.set(id, state)
    }
    return { state, at: 0 }
  }

  #charge({ counter, key, cost }: Op, outcome: Outcome, us: number): void {
    const { policy } = counter
    if (cost === 0 || policy === unlimited) return
    const { space, table } = this.#home(counter)
    if (space.tables.length > 1) this.#bringOver(counter, key, us)
    const at = table.add(key, us)
    outcome.ref = policy.book(table.state, at, us + shiftUs(policy, key), cost)
  }

  #look(op: Op, outcome: Outcome, us: number): void {
    const { state, at } = this.#stateOf(op, us)
    op.counter.policy.look(state, at, us + shiftUs(op.counter.policy, op.key), outcome)
  }

  /** Units that the key consumed under a policy whose state looks otherwise. */
  #usedElsewhere(counter: Counter, key: string, us: number): number {
    const { space, table } = this.#home(counter)
    if (space.tables.length === 1 || counter.policy === unlimited) return 0
    for (const other of space.tables) {
      const at = other === table ? -1 : other.find(key)
      if (at >= 0) return other.policy.used(other.state, at, us + shiftUs(other.policy, key))
    }
    return 0
  }

  #bringOver(counter: Counter, key: string, us: number): void {
    const { space, table } = this.#home(counter)
    if (table.find(key) >= 0) return
    const units = this.#usedElsewhere(counter, key, us)
    for (const other of space.tables) if (other !== table) other.delete(key)
    if (units === 0) return
    const at = table.add(key, us)
    counter.policy.book(table.state, at, us + shiftUs(counter.policy, key), units)
  }

  /** The verbs that are not asked whether they fit. */
  #change({ verb, counter, key, cost, ref = 0 }: Op, us: number): void {
    const { space, table } = this.#home(counter)
    if (verb === 'reset' || (verb === 'block' && cost === 0)) {
      space.blocks?.delete(key)
      if (verb === 'reset') for (const each of space.tables) each.delete(key)
      return
    }
    if (verb === 'block') {
      const blocks = (space.blocks ??= this.#track(new PackedTable(blocked, this)))
      const at = blocks.add(key, us)
      blocks.state[at] = us + cost
      return
    }
    const home = space.tables.find((each) => each.find(key) >= 0) ?? table
    const shiftedUs = us + shiftUs(home.policy, key)
    if (verb === 'settle' && cost > 0) {
      if (counter.policy === unlimited) return
      const at = home.add(key, us)
      home.policy.book(home.state, at, shiftedUs, cost)
    } else {
      const at = home.find(key)
      if (at >= 0) home.policy.giveBack(home.state, at, shiftedUs, -cost, ref)
    }
  }

  #home(counter: Counter): Home {
    const home = counter.home as Home | undefined
    if (home?.store === this) {
      home.table.policy = counter.policy
      return home
    }
    return this.#settleDown(counter)
  }

  #settleDown(counter: Counter): Home {
    let space = this.#spaces.get(counter.space)
    if (space === undefined) this.#spaces.set(counter.space, (space = { tables: [], blocks: undefined }))
    let table = space.tables.find(({ policy }) => policy.shape === counter.policy.shape)
    if (table === undefined) {
      const Kind = counter.policy.words === 0 ? BoxedTable : PackedTable
      table = this.#track(new Kind(counter.policy, this))
      space.tables.push(table)
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
  reserve(bytes: number, table: Table): boolean {
    const shareBytes = this.#maxBytes / Math.max(1, this.#tables.length)
    while (bytes > 0 && this.bytes + bytes > this.#maxBytes) {
      const largest = this.#tables.reduce((large, each) => (each.bytes > large.bytes ? each : large), table)
      const before = largest.bytes
      if (largest === table || table.bytes + bytes > shareBytes || before <= shareBytes) return false
      largest.shrink(this.#nowUs)
      if (largest.bytes === before) return false
    }
    this.#bytes += bytes
    return true
  }

  #remember(id: string, result: Result, untilUs: number): void {
    const most = Math.floor(this.#maxBytes / 8 / ID_BYTES)
    for (const [old, { untilUs: endUs }] of this.#ids) {
      if (endUs > this.#nowUs && this.#ids.size < most) break
      this.#ids.delete(old)
    }
    this.#ids.set(id, { result, untilUs })
  }
}

function shiftUs(policy: Policy, key: string): number {
  return policy.staggerUs ? staggerUs(key, policy.staggerUs) : 0
}

function sameKey(a: Op, b: Op): boolean {
  return a.key === b.key && a.counter.space === b.counter.space
}

/** Blocked keys are a table of their own; its state is the instant at which the block ends. */
const blocked: Policy = {
  ...unlimited,
  shape: 'blocked',
  waitUs: (state, at, nowUs) => Math.max(0, (state[at] as number) - nowUs),
  idleAtUs: (state, at) => state[at] as number,
}
