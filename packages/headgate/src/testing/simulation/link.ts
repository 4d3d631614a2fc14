import type { Connection } from '../../redis/connection.ts'
import { Denials } from '../../redis/denials.ts'
import { Replicas } from '../../redis/replicas.ts'
import type { Group, Outcome, Result, Store } from '../../stores/store.ts'
import type { Authority } from './authority.ts'
import type { Heap } from './heap.ts'
import type { Ends, SimulatedNetwork } from './network.ts'
import type { NodeClock } from './node-clock.ts'
import type { Post } from './noticeboard.ts'
import type { Protocol } from './scenario.ts'

/** What a link needs to know of where it is. */
export interface Site {
  readonly gateway: number
  readonly clock: NodeClock
  readonly heap: Heap
  readonly network: SimulatedNetwork
  /** The stores by region; where all regions share one, that alone. */
  readonly stores: readonly Authority[]
  /** In which region a store is. */
  readonly regionOf: (store: number) => number
  readonly protocol: Protocol
  /** A name of the process that runs now. */
  readonly process: () => string
  /** Told what was handed on to be told to others. */
  readonly told: (key: string, units: number) => void
  /** Told when answers come, and when they were made. */
  readonly answered: (atUs: number) => void
  /** Told what a reader of a trace wants to know. */
  readonly note: (text: string) => void
}

export interface LinkOptions {
  /** Whether denials are remembered; `doubted` where units may come back at any time. */
  readonly quickDeny: 'off' | 'on' | 'doubted'
  /** How many copies must know of a lease before it is spent. */
  readonly replicas: number
}

interface Question {
  readonly group: Group
  readonly deadlineUs: number
  readonly resolve: (result: Result) => void
  readonly reject: (reason: unknown) => void
}

/** As in the store for Redis: so many groups go in one call, which is not carried out after that, and twice that when it is tried again. */
const MOST_AT_ONCE = 32
const LIFE_US = 45_000
/** Nobody has answered for so long: the connection counts as broken. */
export const BROKEN_US = 400_000
/** How much longer the holder believes in a lease than whoever lent it, where that is the mistake. */
const TOO_LONG = 1 / 0.85

/** The store as one gateway sees it: what it asks becomes messages. Quick-deny and the check of copies are those of `redis()`. */
export class Link implements Store {
  readonly lends = true
  readonly clock: NodeClock
  readonly #site: Site
  readonly #authority: Authority
  readonly #ends: Ends
  readonly #denials: Denials | undefined
  readonly #replicas: Replicas | undefined
  readonly #open = new Set<(reason: unknown) => void>()
  #queue: Question[] = []

  /** @param store Which of them, by its place in `site.stores`. */
  constructor(site: Site, { quickDeny, replicas }: LinkOptions, store = 0) {
    this.#site = site
    this.#authority = site.stores[store] as Authority
    this.#ends = { gateway: site.gateway, store: site.regionOf(store) }
    this.clock = site.clock
    this.#denials = quickDeny === 'off' ? undefined : new Denials(quickDeny === 'doubted')
    if (replicas > 0) this.#replicas = new Replicas(this.#connection(), replicas)
  }

  run(groups: readonly Group[], _nowUs?: number, deadlineUs = Infinity): Result[] | Promise<Result[]> {
    if (groups.length > 1) return Promise.all(groups.map((group) => this.#decide(group, deadlineUs)))
    const [group] = groups as [Group]
    const denied = this.#denials?.find(group, this.clock.nowUs())
    return denied === undefined ? this.#decide(group, deadlineUs).then((result) => [result]) : [denied]
  }

  async #decide(group: Group, deadlineUs: number): Promise<Result> {
    const askedUs = this.clock.nowUs()
    this.#denials?.forgetAll(group)
    const result = await new Promise<Result>((resolve, reject) => this.#ask({ group, deadlineUs, resolve, reject }))
    this.#denials?.learn(group, result, askedUs)
    this.#tellLoan(group, result)
    const confirmed = this.#replicas === undefined ? result : await this.#replicas.confirm(result)
    return this.#mistaken(confirmed, askedUs)
  }

  #tellLoan({ ops: [op] }: Group, { outcomes: [outcome] }: Result): void {
    if (op?.loan === undefined || outcome?.loan === undefined) return
    const { held, give } = op.loan
    const said = `said that it holds ${held}${give > 0 ? ` and gives back ${give}` : ''}`
    this.#site.note(`gateway ${this.#site.gateway} is lent ${Math.max(0, outcome.loan.units)} of ${op.key}; it ${said}`)
  }

  /** Those of one turn go together. */
  #ask(question: Question): void {
    if (this.#queue.push(question) > 1) return
    queueMicrotask(() => {
      const queue = this.#queue
      this.#queue = []
      for (let i = 0; i < queue.length; i += MOST_AT_ONCE) this.#send(queue.slice(i, i + MOST_AT_ONCE), 1)
    })
  }

  #send(batch: readonly Question[], tries: number): void {
    const authority = this.#authority
    const sentUs = this.clock.nowUs()
    let deadlineUs = 0
    for (const question of batch) deadlineUs = Math.max(deadlineUs, question.deadlineUs)
    const leftUs = Math.min(deadlineUs - sentUs, LIFE_US * 2 ** (tries - 1))
    const expiresUs = this.#site.protocol === 'resent-return' ? Infinity : authority.nowUs + leftUs
    const groups = batch.map(({ group }) => group)
    const fail = (reason: unknown) => {
      for (const { reject } of batch) reject(reason)
    }
    // Some clients are quicker to send again than this store expects; messages that say who they are must stand that.
    const isNamed = batch.every(({ group }) => group.ops[0]?.loan !== undefined || group.id !== undefined)
    this.#exchange<readonly Result[] | undefined>(
      (reply) => reply(authority.run(groups, expiresUs)),
      (results, atUs) => {
        this.#site.answered(atUs)
        if (results !== undefined) for (const [n, { resolve }] of batch.entries()) resolve(results[n] as Result)
        else if (this.clock.nowUs() > deadlineUs) fail(new Error('the call came after its deadline'))
        else this.#send(batch, tries + 1)
      },
      fail,
      isNamed ? 0 : undefined,
    )
  }

  /** Reads or writes what processes tell each other there. Such messages may come again at any time. */
  readonly post: Post = (act) => {
    return new Promise((resolve, reject) => {
      this.#exchange<ReturnType<typeof act>>((reply) => reply(this.#authority.post(act)), resolve, reject, 0)
    })
  }

  /** A message there and back. Who asked hears one answer, or that there is none. */
  #exchange<T>(
    act: (reply: (answer: T) => void) => void,
    read: (answer: T, atUs: number) => void,
    fail: (reason: unknown) => void,
    againUs?: number,
  ): void {
    const { network, heap } = this.#site
    let cancel = () => {}
    const end = (call: () => void) => {
      if (!this.#open.delete(broken)) return
      cancel()
      call()
    }
    const broken = (reason: unknown) => end(() => fail(reason))
    this.#open.add(broken)
    cancel = heap.after(
      BROKEN_US,
      this.clock.forLife(() => broken(new Error('the connection is broken'))),
    )
    const deliver = this.clock.forLife((atUs: number, answer: T) => end(() => read(answer, atUs)))
    const reply = (answer: T) => {
      const atUs = heap.nowUs
      network.carry(this.#ends, 'back', () => deliver(atUs, answer))
    }
    network.carry(this.#ends, 'there', () => act(reply), againUs)
  }

  /** The store is another now: nothing that was asked of the last one is answered. */
  disconnect(): void {
    for (const broken of [...this.#open]) this.clock.soon(() => broken(new Error('the connection was closed')))
  }

  #connection(): Connection {
    const command = (name: string) => {
      return new Promise((resolve, reject) => {
        this.#exchange((reply) => this.#authority.command(name, reply), resolve, reject)
      })
    }
    const none = () => Promise.reject(new Error('not in a simulation'))
    return { cluster: false, command, evalsha: none, eval: none }
  }

  /** Lets a holder believe what it should not, where that is looked for. */
  #mistaken(result: Result, askedUs: number): Result {
    const { protocol } = this.#site
    if (protocol !== 'deadline-from-reply' && protocol !== 'expires-first') return result
    const outcomes = result.outcomes.map((outcome): Outcome => {
      const { loan } = outcome
      if (loan === undefined) return outcome
      const lifeUs = protocol === 'expires-first' ? loan.lifeUs * TOO_LONG : loan.lifeUs + this.clock.nowUs() - askedUs
      return { ...outcome, loan: { ...loan, lifeUs } }
    })
    return { ...result, outcomes }
  }
}
