import type { Connection } from '../../redis/connection.ts'
import { Denials } from '../../redis/denials.ts'
import { Replicas } from '../../redis/replicas.ts'
import type { Group, Outcome, Result, Store } from '../../stores/store.ts'
import type { Authority } from './authority.ts'
import type { Heap } from './heap.ts'
import type { SimulatedNetwork } from './network.ts'
import type { NodeClock } from './node-clock.ts'
import type { Protocol } from './scenario.ts'

/** What a link needs to know of where it is. */
export interface Site {
  readonly gateway: number
  readonly clock: NodeClock
  readonly heap: Heap
  readonly network: SimulatedNetwork
  readonly authority: Authority
  readonly protocol: Protocol
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
const MOST_AT_ONCE = 24
const LIFE_US = 45_000
/** Nobody has answered for so long: the connection counts as broken. */
const BROKEN_US = 400_000
/** How much longer the holder believes in a lease than whoever lent it, where that is the mistake. */
const TOO_LONG = 1 / 0.85

/** The store as one gateway sees it: what it asks becomes messages. Quick-deny and the check of copies are those of `redis()`. */
export class Link implements Store {
  readonly lends = true
  readonly clock: NodeClock
  readonly #site: Site
  readonly #denials: Denials | undefined
  readonly #replicas: Replicas | undefined
  readonly #open = new Set<(reason: unknown) => void>()
  #queue: Question[] = []

  constructor(site: Site, { quickDeny, replicas }: LinkOptions) {
    this.#site = site
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
    const { authority } = this.#site
    const sentUs = this.clock.nowUs()
    let deadlineUs = 0
    for (const question of batch) deadlineUs = Math.max(deadlineUs, question.deadlineUs)
    const leftUs = Math.min(deadlineUs - sentUs, LIFE_US * 2 ** (tries - 1))
    const expiresUs = this.#site.protocol === 'resent-return' ? Infinity : authority.nowUs + leftUs
    const groups = batch.map(({ group }) => group)
    const fail = (reason: unknown) => {
      for (const { reject } of batch) reject(reason)
    }
    // Some clients are quicker to send again than this store expects; messages of leases must stand that.
    const isLoan = batch.every(({ group }) => group.ops[0]?.loan !== undefined)
    this.#exchange<readonly Result[] | undefined>(
      (reply) => reply(authority.run(groups, expiresUs)),
      (results) => {
        if (results !== undefined) for (const [n, { resolve }] of batch.entries()) resolve(results[n] as Result)
        else if (this.clock.nowUs() > deadlineUs) fail(new Error('the call came after its deadline'))
        else this.#send(batch, tries + 1)
      },
      fail,
      isLoan ? 0 : undefined,
    )
  }

  /** A message there and back. Who asked hears one answer, or that there is none. */
  #exchange<T>(
    act: (reply: (answer: T) => void) => void,
    read: (answer: T) => void,
    fail: (reason: unknown) => void,
    againUs?: number,
  ): void {
    const { network, gateway, heap, answered } = this.#site
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
    const deliver = this.clock.forLife((atUs: number, answer: T) => {
      answered(atUs)
      end(() => read(answer))
    })
    const reply = (answer: T) => {
      const atUs = heap.nowUs
      network.carry(gateway, 'back', () => deliver(atUs, answer))
    }
    network.carry(gateway, 'there', () => act(reply), againUs)
  }

  /** The store is another now: nothing that was asked of the last one is answered. */
  disconnect(): void {
    for (const broken of [...this.#open]) this.clock.soon(() => broken(new Error('the connection was closed')))
  }

  #connection(): Connection {
    const command = (name: string) => {
      return new Promise((resolve, reject) => {
        this.#exchange((reply) => this.#site.authority.command(name, reply), resolve, reject)
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
