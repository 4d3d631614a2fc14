import type { Policy } from '../../algorithms/algorithm.ts'
import { memory } from '../../stores/memory.ts'
import type { Counter, Group, Op, Outcome, Result } from '../../stores/store.ts'
import type { Heap } from './heap.ts'
import { BEGIN_US } from './node-clock.ts'
import { Noticeboard } from './noticeboard.ts'
import type { Random } from './random.ts'
import type { Protocol } from './scenario.ts'

/** Something that was done, to be done again by copies. */
interface Entry {
  readonly act: (copy: Copy) => void
  readonly groups: readonly Group[]
  readonly results: readonly Result[]
}

/** What copies that took over did not know of: units taken, and units lent or whose lease was made longer. By key. */
export interface Forgotten {
  readonly taken: Map<string, number>
  readonly lent: Map<string, number>
}

/** The most that was lent of a key at once, and what that and the rest were above the limit. */
export interface Lending {
  mostOut: number
  worst: number
  /** What holders could spend above what was lent. */
  unknown: number
}

/** How long WAIT waits. */
const WAIT_US = 100_000
const LONGEST_BEHIND_US = 300_000

/** Where the counts are. What it is told goes to copies some time later; one of them may have to take its place. */
export class Authority {
  readonly #heap: Heap
  readonly #random: Random
  readonly #startUs: number
  #primary: Copy
  #copies: Copy[]
  #log: Entry[] = []
  #waiting: (() => void)[] = []
  #aheadUs = 0
  #term = 1
  #offset = 0
  /** By space: those that were asked for. */
  readonly #counters = new Map<string, Counter>()
  /** By key: units of windows taken here, less those given back. */
  readonly #taken = new Map<string, number>()
  readonly forgotten: Forgotten = { taken: new Map(), lent: new Map() }
  readonly lending: Lending = { mostOut: 0, worst: 0, unknown: 0 }
  /** How far its clock was set forward, each time. */
  readonly jumpsUs: number[] = []
  calls = 0
  groups = 0

  /** @param copies How many failovers there may be. */
  constructor(heap: Heap, random: Random, protocol: Protocol, copies: number) {
    this.#heap = heap
    this.#random = random
    this.#startUs = heap.nowUs
    const born = () => new Copy(protocol)
    this.#primary = born()
    this.#copies = Array.from({ length: copies }, born)
    if (copies > 0) this.#copyLater()
  }

  get nowUs(): number {
    return BEGIN_US + this.#heap.nowUs - this.#startUs + this.#aheadUs
  }

  setClock(us: number): void {
    this.#aheadUs += us
    if (us > 0) this.jumpsUs.push(us)
  }

  /** Decides what one call brings; undefined if it came too late to. */
  run(groups: readonly Group[], expiresUs: number): readonly Result[] | undefined {
    const { nowUs } = this
    this.calls++
    if (nowUs > expiresUs) return undefined
    this.groups += groups.length
    const results = this.#do((copy) => copy.run(groups, nowUs), groups)
    for (const [n, { ops }] of groups.entries()) this.#note(ops, results[n] as Result)
    this.#watch(groups)
    return results
  }

  /** Reads or writes what processes tell each other. */
  post<T>(act: (board: Noticeboard, nowMs: number) => T): T {
    const nowMs = this.nowUs / 1000
    this.calls++
    return this.#do((copy) => act(copy.board, nowMs), [])
  }

  #do<T>(act: (copy: Copy) => T, groups: readonly Group[]): T {
    const answer = act(this.#primary)
    this.#offset++
    if (this.#copies.length > 0) this.#log.push({ act, groups, results: groups.length > 0 ? (answer as Result[]) : [] })
    return answer
  }

  #note(ops: readonly Op[], { ok }: Result): void {
    for (const { verb, counter, key, cost } of ops) {
      if (!this.#counters.has(counter.space)) this.#counters.set(counter.space, counter)
      if (counter.policy.hold !== undefined) continue
      const units = verb === 'take' && ok ? cost : verb === 'settle' ? Math.min(0, cost) : 0
      this.#taken.set(key, this.takenHere(key) + units)
    }
  }

  /** What must hold after every message about a loan. */
  #watch(groups: readonly Group[]): void {
    for (const { ops } of groups) {
      const [op] = ops as [Op]
      if (op.loan === undefined) continue
      const { out, left } = this.#primary.look(op, this.nowUs)
      this.lending.mostOut = Math.max(this.lending.mostOut, out)
      this.lending.worst = Math.max(this.lending.worst, out > 0 ? out + left - op.counter.policy.limit : 0)
    }
  }

  /** What of a key has not come back yet. */
  missing(key: string): number {
    let units = 0
    for (const [space, { policy }] of this.#counters) if (policy.hold !== undefined) units += this.used(space, key)
    return units
  }

  /** How much of a key is lent. */
  out(key: string): number {
    const [counter] = this.#counters.values()
    return counter === undefined ? 0 : this.#primary.look({ counter, key }, this.nowUs).out
  }

  /** Units of a key that one limit counts now. */
  used(space: string, key: string): number {
    const counter = this.#counters.get(space)
    if (counter === undefined) return 0
    return counter.policy.limit - this.#primary.look({ counter, key }, this.nowUs).left
  }

  takenHere(key: string): number {
    return this.#taken.get(key) ?? 0
  }

  /** Whether it has never forgotten anything. */
  get isFirst(): boolean {
    return this.#term === 1
  }

  /** As Redis answers INFO and WAIT. */
  command(name: string, reply: (answer: unknown) => void): void {
    let open = true
    const once = () => {
      if (open) reply(name === 'WAIT' ? 1 : this.#info())
      open = false
    }
    if (name !== 'WAIT' || this.#log.length === 0) once()
    else {
      this.#waiting.push(once)
      this.#heap.after(WAIT_US, once)
    }
  }

  #info(): string {
    const known = this.#offset - this.#log.length
    const copies = this.#copies.map((_, n) => `slave${n}:state=online,offset=${known}\n`).join('')
    return `role:master\n${copies}master_replid:${this.#term}a\nmaster_repl_offset:${this.#offset}\n`
  }

  #copyLater(): void {
    this.#heap.after(this.#random.between(1_000, LONGEST_BEHIND_US), () => {
      for (const copy of this.#copies) for (const { act } of this.#log) act(copy)
      this.#log = []
      for (const reply of this.#waiting.splice(0)) reply()
      if (this.#copies.length > 0) this.#copyLater()
    })
  }

  /** A copy takes over, and what it was not told in time never happened. */
  failOver(): void {
    const next = this.#copies.shift()
    if (next === undefined) return
    this.#primary = next
    this.#term++
    for (const { groups, results } of this.#log)
      for (const [n, { ops }] of groups.entries()) this.#forget(ops[0] as Op, results[n] as Result)
    this.#offset -= this.#log.length
    this.#log = []
    // Whoever waits for copies hears nothing any more.
    this.#waiting = []
  }

  #forget({ verb, key, cost }: Op, { ok, outcomes }: Result): void {
    const { loan } = outcomes[0] as Outcome
    const add = (to: Map<string, number>, units: number) => to.set(key, (to.get(key) ?? 0) + units)
    if ((verb === 'take' && ok) || (verb === 'settle' && cost > 0)) add(this.forgotten.taken, cost)
    if (loan !== undefined) add(this.forgotten.lent, Math.max(0, loan.units) + loan.kept)
  }
}

/** One store with the counts of all. Counters are its own: a store notes in them where it put what. */
class Copy {
  readonly board = new Noticeboard()
  readonly #store = memory({ maxBytes: 2 ** 30 })
  readonly #protocol: Protocol
  readonly #counters = new WeakMap<Counter, Counter>()
  #seq = 0

  constructor(protocol: Protocol) {
    this.#protocol = protocol
  }

  run(groups: readonly Group[], nowUs: number): Result[] {
    const own = groups.map((group) => ({ ...group, ops: group.ops.map((op) => this.#own(op)) }))
    return this.#store.run(own, nowUs)
  }

  look(op: Pick<Op, 'counter' | 'key'>, nowUs: number): { readonly out: number; readonly left: number } {
    const [counter, { key }] = [this.#counterOf(op.counter), op]
    const out = this.#store.lentOf(counter, key, nowUs)
    const [result] = this.#store.run([{ ops: [{ verb: 'peek', counter, key, cost: 0 }] }], nowUs) as [Result]
    return { out, left: result.outcomes[0]?.remaining ?? 0 }
  }

  #own({ verb, counter, key, cost, mark, loan }: Op): Op {
    const own = { verb, counter: this.#counterOf(counter), key, cost }
    if (mark !== undefined) return { ...own, mark }
    if (loan === undefined) return own
    return { ...own, loan: this.#protocol === 'resent-return' ? { ...loan, seq: ++this.#seq } : loan }
  }

  #counterOf(counter: Counter): Counter {
    const known = this.#counters.get(counter)
    if (known !== undefined) return known
    const { space, policy } = counter
    const own = { space, policy: this.#protocol === 'debit-only' ? withoutHold(policy) : policy }
    this.#counters.set(counter, own)
    return own
  }
}

/** The mistake of taking off what is lent, and letting it come back while it is out. */
function withoutHold(policy: Policy): Policy {
  return new Proxy(policy, {
    get(target, name) {
      if (name === 'hold') return undefined
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
