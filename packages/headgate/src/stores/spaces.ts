import type { Late, Policy } from '../algorithms/algorithm.ts'
import { staggerUs } from '../algorithms/stagger.ts'
import { unlimited } from '../algorithms/unlimited.ts'
import { Expiring } from '../expiring.ts'
import { WIDTH } from './lending.ts'
import type { Booking, Counter } from './store.ts'
import { BoxedTable, type Budget, PackedTable, type Table } from './table.ts'

/** All counts of one limit: tables for the shapes of state that its policies have had, and what few keys need beside. */
export class Space {
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
  /** The last group that it was part of, see `#takeKnown`. */
  round = 0
}

/** Where a counter's keys are. */
export interface Home {
  /** Undefined once the space is forgotten. */
  within: Spaces | undefined
  readonly space: Space
  readonly table: Table
  /** Time is not shifted and there is something to count. */
  readonly plain: boolean
  /** A take has only one place to look at: one table, no blocks, nothing late. */
  simple: boolean
  /** Where that is, while it is so and states have a fixed size. */
  simpleIn: Spaces | undefined
  /** The same, while policies are quick as well. */
  quickIn: Spaces | undefined
  readonly quick: boolean
}

export interface Loans {
  /** See `lend`. */
  readonly numbers: number[]
  /** By when all of it has come back, also if it is spent at the last moment. */
  untilUs: number
}

const SPACE_BYTES = 400
const LATE_BYTES = 400
const RESET_BYTES = 150
const LOANS_BYTES = 500
/** Shapes beyond these, as of overrides with a rate of their own, share the last table. */
const MOST_TABLES = 8
const MIXED = 'mixed'
const MANY_SPACES = 1000
/** Where keys without a limit have their counts. */
const nowhere: Table = new BoxedTable({ reserve: () => true, take: () => {} }, false)

/** Where all counts of a store lie, within how many bytes, and what is forgotten when there are more. */
export class Spaces implements Budget {
  readonly maxBytes: number
  bytes = 0
  /** Raised by every reset. */
  era = 0
  /** Whether anything was ever lent. */
  hasLent = false
  /** Set when states lie elsewhere than before. */
  moved = false
  readonly #spaces = new Map<string, Space>()
  readonly #tables = new Set<Table>()
  #manySpaces = MANY_SPACES

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes
  }

  get keys(): number {
    let keys = 0
    for (const table of this.#tables) keys += table.keys
    return keys
  }

  /** Whether so much is lent in a space that nobody else can borrow there. */
  hasFullLoans({ loans }: Space): boolean {
    return (loans?.size ?? 0) * LOANS_BYTES > this.maxBytes / 16
  }

  keepLoans(space: Space, key: string, loans: Loans, policy: Policy, us: number): void {
    const { numbers } = loans
    if (numbers.length === 0) {
      space.loans?.delete(key)
      return
    }
    const isKnown = loans.untilUs > 0
    loans.untilUs = backByUs(policy, numbers)
    if (isKnown) return
    this.hasLent = true
    space.loans ??= new Expiring(() => this.take(-LOANS_BYTES))
    space.loans.set(key, loans, us)
    this.take(LOANS_BYTES)
    this.simplify(space, us)
  }

  block(space: Space, key: string, untilUs: number, us: number): void {
    const blocks = space.blocks ?? new PackedTable(blocked, this, true)
    const at = blocks.add(key, us)
    blocks.state[at] = untilUs
    if (space.blocks !== undefined) return
    space.blocks = blocks
    this.#tables.add(blocks)
    this.simplify(space, us)
  }

  reset(space: Space, key: string, us: number): void {
    let idleUs = 0
    for (const table of space.tables) {
      const policy = table.policyOf(key)
      if (policy === undefined) continue
      idleUs = Math.max(idleUs, policy.idleAtUs(table.state, table.find(key)) - shiftUs(policy, key))
    }
    this.forget(space, key, idleUs, us)
  }

  /** Forgets the counts of a key, which would have been idle at `idleUs`. */
  forget(space: Space, key: string, idleUs: number, us: number): void {
    const lateUs = space.late?.get(key, us)?.untilUs ?? 0
    for (const table of space.tables) table.delete(key)
    space.late?.delete(key)
    const untilUs = Math.max(idleUs, lateUs)
    if (untilUs > us) this.beginEra(space, key, untilUs, us)
  }

  /** From now on no booking made before can be given back: until `untilUs` by this, and then because it is over. */
  beginEra(space: Space, key: string, untilUs: number, us: number): void {
    space.resets ??= new Expiring(() => this.take(-RESET_BYTES))
    const lastUs = space.resets.get(key, us)?.untilUs ?? 0
    space.resets.set(key, { era: ++this.era, untilUs: Math.max(untilUs, lastUs) }, us)
    this.take(RESET_BYTES)
    // Better too little given back than too much.
    while (space.resets.size * RESET_BYTES > this.maxBytes / 16)
      space.era = Math.max(space.era, space.resets.shift()?.value.era ?? 0)
  }

  keepLate(space: Space, key: string, late: Late, us: number): void {
    space.late ??= new Expiring(() => this.take(-LATE_BYTES))
    space.late.set(key, late, us)
    this.take(LATE_BYTES)
    this.simplify(space, us)
    while (space.late.size * LATE_BYTES > this.maxBytes / 16) {
      const oldest = space.late.shift() as { key: string; value: Late }
      this.beginEra(space, oldest.key, oldest.value.untilUs, us)
    }
  }

  home(counter: Counter, us: number): Home {
    const home = counter.home as Home | undefined
    return home !== undefined && home.within === this ? home : this.#settleDown(counter, us)
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
      const quick = policy.quick === true
      home = { within: this, space, table, plain, simple: false, simpleIn: undefined, quickIn: undefined, quick }
      space.homes.set(mixed ? MIXED : policy.shape, home)
      if (table !== nowhere) {
        this.#tables.add(table)
        space.tables.push(table)
      }
      this.simplify(space, us)
    }
    if (home.table instanceof PackedTable && policy.limit < home.table.policy.limit) home.table.policy = policy
    counter.home = home
    return home
  }

  /** Sees whether takes in a space may go the short way. */
  simplify(space: Space, us: number): void {
    space.blocks?.sweep(us)
    if (space.blocks?.keys === 0) {
      this.#drop(space.blocks)
      space.blocks = undefined
    }
    const simple = space.tables.length === 1 && space.blocks === undefined && !space.late?.size && !space.loans?.size
    for (const home of space.homes.values()) {
      home.simple = simple && home.plain
      home.simpleIn = home.simple && home.table instanceof PackedTable ? this : undefined
      home.quickIn = home.quick ? home.simpleIn : undefined
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
      if (this.bytes <= this.maxBytes) break
      if (!space.blocks?.keys) this.#forgetSpace(name, space)
    }
    this.#manySpaces = Math.max(MANY_SPACES, 2 * this.#spaces.size)
  }

  #forgetSpace(name: string, { tables, blocks, late, loans, resets, homes }: Space): void {
    for (const home of homes.values()) home.within = home.simpleIn = home.quickIn = undefined
    for (const table of blocks === undefined ? tables : [...tables, blocks]) this.#drop(table)
    this.take(-SPACE_BYTES - LATE_BYTES * (late?.size ?? 0) - RESET_BYTES * (resets?.size ?? 0))
    this.take(-LOANS_BYTES * (loans?.size ?? 0))
    this.#spaces.delete(name)
    this.moved = true
  }

  #drop(table: Table): void {
    this.#tables.delete(table)
    table.drop()
  }

  /** A limit may always have its share of the memory, and blocks half of it: then the largest table has to shrink. What nobody
   *  needs, anyone may use. */
  reserve(bytes: number, table: Table, nowUs: number): boolean {
    const shareBytes = table.lasting ? this.maxBytes / 2 : this.maxBytes / this.#tables.size
    while (bytes > 0 && this.bytes + bytes > this.maxBytes) {
      let largest: Table | undefined = table.lasting ? undefined : table
      for (const each of this.#tables)
        if (!each.lasting && (largest === undefined || each.bytes > largest.bytes)) largest = each
      if (largest === undefined || largest === table || table.bytes + bytes > shareBytes) return false
      const before = largest.bytes
      if (before <= shareBytes && !table.lasting) return false
      largest.shrink(nowUs)
      if (largest.bytes === before) return false
    }
    this.bytes += bytes
    return true
  }

  take(bytes: number): void {
    this.bytes += bytes
  }
}

/** Whether the counts of the key were not forgotten since. */
export function isOfNow({ era }: Readonly<Booking>, space: Space, key: string, us: number): boolean {
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

export function shiftUs(policy: Policy, key: string): number {
  return policy.staggerUs ? staggerUs(key, policy.staggerUs) : 0
}

/** Blocked keys are a table of their own; its state is the instant at which the block ends. */
const blocked: Policy = {
  ...unlimited,
  shape: 'blocked',
  waitUs: (state, at, nowUs) => Math.max(0, (state[at] as number) - nowUs),
  idleAtUs: (state, at) => state[at] as number,
}
