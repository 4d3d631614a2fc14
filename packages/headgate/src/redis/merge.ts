import { afterIdly, type Clock } from '../clock.ts'
import { definitionOf } from '../definition.ts'
import { compileLimit } from '../limit.ts'
import { unguessable } from '../receipt.ts'
import {
  type Counter,
  type Group,
  type Hold,
  heldBy,
  type IsHeld,
  type Op,
  type Outcome,
  type PromptStore,
  type Result,
  type Store,
  type StoreStats,
} from '../stores/store.ts'
import type { Claim } from './board.ts'

/** What one process has let through of one key until now, in one window. It only grows, so the larger one is the newer. */
export interface Total {
  /** Who counts: no two totals have the same, and it never counts anew. */
  readonly actor: string
  readonly space: string
  readonly key: string
  /** The limit, as text. */
  readonly limit: string
  /** From when on these units count no more. */
  readonly untilMs: number
  readonly units: number
}

/** What regions tell each other, at least once, and what this one has made of it. */
export interface Exchange {
  readonly others: readonly string[]
  /** Appends to what this region has to tell. */
  publish(totals: readonly Total[]): Promise<void>
  /** Whose turn it is to read what another region tells: undefined if somebody else's, else from where on. */
  turn(region: string): Promise<string | undefined>
  read(region: string, after: string): Promise<{ readonly totals: readonly Total[]; readonly last: string } | undefined>
  advance(region: string, last: string): Promise<void>
  /** Sets out to count a total, unless it or a larger one is. Undefined if its units count no more. */
  claim(region: string, total: Total): Promise<Claim | undefined>
  done(region: string, total: Total, claim: Claim): Promise<void>
}

export interface MergeOptions {
  readonly syncMs: number
  /** Regions tell each other, or processes of one. */
  readonly hold?: 'regions' | 'sync'
  /** Which limits are told; unless said otherwise those that say so, and those that say nothing. */
  readonly isTold?: IsHeld
  readonly clock?: Clock | undefined
}

interface Tally {
  readonly total: Total
  units: number
  told: number
}

/** So many keys are remembered beyond what has been told; whoever comes again gets a new total. */
const MOST_TALLIES = 100_000
/** And so many at all, while nobody can be told: of the oldest the others never hear then. */
export const MOST_UNTOLD = 200_000
const MOST_TOLD_AT_ONCE = 500
/** Where a network swallows what is sent, another round begins after so long. */
const PATIENCE_MS = 5_000
/** No region is called that. */
const HERE = ''
/** By so much longer than its units count is an id remembered: clocks differ. */
const ID_SLACK_US = 60_000_000

/**
 * Lets limits hold over regions that each decide for themselves. What passes here is told to the others in the background, as totals
 * that only grow; what they tell is booked here as if it had been taken here, whether it fits or not. Totals are merged by their
 * maximum, so it does not matter how often, or in which order, they come. Each region lags behind the others by three rounds at
 * most and the way; that is by how much they let through too much together.
 */
export class Regions implements Store {
  readonly prefix: string | undefined
  readonly clock: Clock | undefined
  readonly holds: readonly Hold[]
  readonly partsOf?: (group: Group) => readonly number[]
  readonly #store: Store
  readonly #hold: 'regions' | 'sync'
  readonly #isTold: IsHeld
  readonly #exchange: Exchange
  readonly #options: MergeOptions
  readonly #process = unguessable()
  readonly #tallies = new Map<string, Tally>()
  readonly #counters = new Map<string, Counter>()
  #ids = 0
  readonly #heardMs = new Map<string, number>()
  readonly #running = new Map<string, Promise<void>>()
  #cancel = () => {}
  #closed = false

  constructor(store: Store, exchange: Exchange, options: MergeOptions, prefix = store.prefix) {
    this.#store = store
    this.#exchange = exchange
    this.#options = options
    this.#hold = options.hold ?? 'regions'
    this.#isTold = options.isTold ?? heldBy(this.#hold)
    this.holds = [this.#hold]
    this.prefix = prefix
    this.clock = store.clock
    if (store.partsOf !== undefined) this.partsOf = (group) => store.partsOf?.(group) ?? []
    this.#later()
  }

  forgetDenials(): void {
    this.#store.forgetDenials?.()
  }

  kindOf(reason: unknown): string | undefined {
    return this.#store.kindOf?.(reason)
  }

  holdsAll(group: Group): boolean {
    return this.#store.holdsAll?.(group) === true
  }

  run(groups: readonly Group[], nowUs?: number, deadlineUs?: number): Result[] | Promise<Result[]> {
    const answer = this.#store.run(groups, nowUs, deadlineUs)
    const note = (results: Result[]) => {
      for (const [i, result] of results.entries()) this.#note(groups[i] as Group, result)
      return results
    }
    return answer instanceof Promise ? answer.then(note) : note(answer)
  }

  #note({ ops, upTo, fixed }: Group, result: Result): void {
    // A repeat was told when it came first.
    if (!result.ok || result.memo !== undefined) return
    for (const [i, op] of ops.entries()) {
      const outcome = result.outcomes[i] as Outcome
      const units = upTo !== undefined && !fixed?.[i] && op.verb === 'take' ? result.cost : op.cost
      const counts = (op.verb === 'take' && outcome.ok) || op.verb === 'settle'
      if (counts) this.taken(op.counter, op.key, units, outcome)
    }
  }

  /** Notes what has passed here, for the others. */
  protected taken(counter: Counter, key: string, units: number, outcome: Outcome): void {
    if (units > 0 && this.#isMerged(counter)) this.#count(counter, key, units, outcome)
  }

  /**
   * How old what is known of the others may be: what they let through since then, and in a round before that, is what may pass
   * beyond the limit. Infinity until all of them have been heard; in a region only the process that reads for all of it hears.
   */
  get lagMs(): number {
    const nowMs = this.#steadyMs()
    return Math.max(...this.#exchange.others.map((region) => nowMs - (this.#heardMs.get(region) ?? -Infinity)))
  }

  stats(): StoreStats {
    return { lagMs: { [this.#hold]: this.lagMs } }
  }

  #isMerged(counter: Counter): boolean {
    const { algorithm } = counter.policy
    return algorithm !== 'at-once' && algorithm !== 'unlimited' && this.#isTold(counter)
  }

  #count(counter: Counter, key: string, units: number, outcome: Outcome): void {
    const definition = definitionOf(counter.policy)
    if (definition === undefined) return
    const untilMs = untilMsOf(counter, outcome)
    const id = `${untilMs}:${counter.space.length}:${counter.space}${key}`
    const known = this.#tallies.get(id)
    if (known !== undefined) {
      known.units += units
      return
    }
    forgetOldest(this.#tallies, MOST_UNTOLD - 1)
    const actor = `${this.#process}.${++this.#ids}`
    const limit = JSON.stringify(definition)
    this.#tallies.set(id, { total: { actor, space: counter.space, key, limit, untilMs, units: 0 }, units, told: 0 })
  }

  #later(): void {
    if (this.#closed) return
    this.#cancel = afterIdly(this.#options.clock, this.#options.syncMs, () => {
      void this.sync()
      this.#later()
    })
  }

  /** One round: tells what is new here, and counts what is new elsewhere. Happens by itself every `syncMs`. Who cannot be reached now
   *  is caught up with later: totals say all there is to say. */
  async sync(): Promise<void> {
    const heard = this.#exchange.others.map((region) => this.#once(region, () => this.#hear(region)))
    await Promise.all([this.#once(HERE, () => this.#tell()), ...heard])
  }

  /** Nobody waits for one that does not answer, and what takes longer than a round is not begun twice. */
  #once(name: string, work: () => Promise<void>): Promise<void> {
    const running = this.#running.get(name)
    if (running !== undefined) return running
    const started = new Promise<void>((resolve) => {
      const cancel = afterIdly(this.#options.clock, PATIENCE_MS, resolve)
      const end = () => {
        cancel()
        resolve()
      }
      work().then(end, end)
    }).then(() => void this.#running.delete(name))
    this.#running.set(name, started)
    return started
  }

  async #tell(): Promise<void> {
    const open = [...this.#tallies.values()].filter(({ units, told }) => units > told)
    for (let i = 0; i < open.length; i += MOST_TOLD_AT_ONCE) {
      const now = open.slice(i, i + MOST_TOLD_AT_ONCE).map((tally) => ({ tally, units: tally.units }))
      await this.#exchange.publish(now.map(({ tally, units }) => ({ ...tally.total, units })))
      for (const { tally, units } of now) tally.told = Math.max(tally.told, units)
    }
    for (const [id, { units, told, total }] of this.#tallies)
      if (units === told && (total.untilMs < this.#nowMs() || this.#tallies.size > MOST_TALLIES))
        this.#tallies.delete(id)
  }

  #nowMs(): number {
    return this.#options.clock?.now() ?? Date.now()
  }

  #steadyMs(): number {
    return this.#options.clock?.now() ?? performance.now()
  }

  async #hear(region: string): Promise<void> {
    let after = await this.#exchange.turn(region)
    while (after !== undefined && !this.#closed) {
      const askedMs = this.#steadyMs()
      const batch = await this.#exchange.read(region, after)
      if (batch === undefined) {
        this.#heardMs.set(region, askedMs)
        return
      }
      await Promise.all([...newest(batch.totals)].map((total) => this.#merge(region, total)))
      await this.#exchange.advance(region, batch.last)
      after = batch.last
    }
  }

  /** Whoever sets out to count says from where to where before, and notes when it is done: whoever finds it halfway does the same
   *  again, under the same id, which books once. */
  async #merge(region: string, total: Total): Promise<void> {
    const counter = this.#counterOf(total)
    while (counter !== undefined) {
      const claim = await this.#exchange.claim(region, total)
      if (claim === undefined || claim.to <= claim.from) return
      await this.#book(total, claim, counter)
      await this.#exchange.done(region, total, claim)
      if (claim.to >= total.units) return
    }
  }

  async #book({ actor, space, key, untilMs }: Total, { from, to }: Claim, counter: Counter): Promise<void> {
    const mark = { ref: 0, refPart: 0, era: 0 }
    const op: Op = { verb: 'settle', counter, key, cost: to - from, mark }
    // Each process keeps its own counts then, and knows by itself what it has heard.
    if (this.#hold === 'sync') return void (await this.#store.run([{ ops: [op], cost: 1 }]))
    const idUs = Math.max(0, untilMs - this.#nowMs()) * 1000 + ID_SLACK_US
    await this.#store.run([{ ops: [op], cost: 1, id: `${space}:~:${actor}:${from}`, idUs, forget: false }])
  }

  /** Undefined for a limit that is not understood here, as of a newer version: it must not hold up the others. */
  #counterOf({ space, limit }: Total): Counter | undefined {
    const id = `${space} ${limit}`
    const known = this.#counters.get(id)
    if (known !== undefined) return known
    if (this.#counters.size > 1000) this.#counters.clear()
    try {
      const counter = { space, policy: compileLimit(JSON.parse(limit)), hold: this.#hold }
      this.#counters.set(id, counter)
      return counter
    } catch {
      return undefined
    }
  }

  /** Tells the others what is new, and no more after that. The store behind stays open. */
  async close(): Promise<void> {
    this.#closed = true
    this.#cancel()
    await this.#running.get(HERE)
    await this.#tell().catch(() => {})
  }
}

/** As `Regions`, on a store that answers at once where it can. */
export class PromptRegions extends Regions implements PromptStore {
  readonly #store: Pick<PromptStore, 'takeNow'>

  constructor(store: PromptStore, exchange: Exchange, options: MergeOptions, prefix?: string) {
    super(store, exchange, options, prefix)
    this.#store = store
  }

  takeNow(counter: Counter, key: string, cost: number, outcome: Outcome, nowUs?: number): boolean {
    if (!this.#store.takeNow(counter, key, cost, outcome, nowUs)) return false
    this.taken(counter, key, cost, outcome)
    return true
  }
}

/** The end of its window or, where units come back one by one, the end of the one after: by then all of them are back. */
function untilMsOf({ policy }: Counter, { atUs, resetUs }: Outcome): number {
  const nowUs = atUs > 0 ? atUs : Date.now() * 1000
  const windowUs = Math.max(1000, policy.windowUs(nowUs))
  if (policy.algorithm === 'fixed-window' && resetUs > 0) return Math.ceil((nowUs + resetUs) / 1000)
  return Math.ceil(((Math.floor(nowUs / windowUs) + 2) * windowUs) / 1000)
}

/** Leaves as many as are named, of those that came last. */
export function forgetOldest(entries: Map<string, unknown>, most: number): void {
  for (const id of entries.keys()) {
    if (entries.size <= most) return
    entries.delete(id)
  }
}

/** Of totals that follow each other the largest says all. */
function newest(totals: readonly Total[]): Iterable<Total> {
  const largest = new Map<string, Total>()
  for (const total of totals) {
    const known = largest.get(total.actor)
    if (known === undefined || known.units < total.units) largest.set(total.actor, total)
  }
  return largest.values()
}

/** What somebody has told, if it can be read. */
export function totalsIn(text: string): readonly Total[] {
  try {
    const totals: unknown = JSON.parse(text)
    return Array.isArray(totals) ? totals.filter(isTotal) : []
  } catch {
    return []
  }
}

function isTotal(total: Partial<Total> | null): total is Total {
  const texts = [total?.actor, total?.space, total?.key, total?.limit]
  const numbers = [total?.untilMs, total?.units]
  return texts.every((each) => typeof each === 'string') && numbers.every(Number.isSafeInteger)
}
