import type { Clock } from '../clock.ts'
import type { MemoryStore } from './memory.ts'
import type { Counter, Group, Op, Outcome, PromptStore, Result, StoreStats } from './store.ts'

/** How many processes divide each limit among themselves. */
export interface Membership {
  /** 0 until it is known. */
  readonly nodes: number
  /** Settles once it is known; rejects when nobody can tell. */
  known(): Promise<void>
  leave(): Promise<void>
}

/**
 * Gives this process an equal part of each limit and decides by that alone: no decision asks anybody. What others leave unused
 * of their parts is not for this one. It has a part from the first time on that it counts something: who only looks, as whoever looks
 * after a service does, takes nothing away from those who serve.
 */
export class Shared implements PromptStore {
  readonly prefix: string | undefined
  readonly clock: Clock | undefined
  readonly #store: MemoryStore
  readonly #members: Membership
  readonly #parts = new WeakMap<Counter, { readonly nodes: number; readonly counter: Counter }>()

  constructor(store: MemoryStore, members: Membership, prefix?: string) {
    this.#store = store
    this.#members = members
    this.clock = store.clock
    this.prefix = prefix
  }

  /** Among how many processes limits are divided now; 0 until that is known. */
  get nodes(): number {
    return this.#members.nodes
  }

  stats(): StoreStats {
    return { nodes: this.nodes }
  }

  takeNow(counter: Counter, key: string, cost: number, outcome: Outcome, nowUs?: number): boolean {
    if (this.#members.nodes === 0) return false
    this.#store.takeOne(this.#partOf(counter), key, cost, outcome, nowUs)
    return outcome.ok
  }

  run(groups: readonly Group[], nowUs?: number): Result[] | Promise<Result[]> {
    if (this.#members.nodes > 0 || !groups.some(({ ops }) => ops.some(isCounted))) return this.#run(groups, nowUs)
    return this.#members.known().then(() => this.#run(groups, nowUs))
  }

  #run(groups: readonly Group[], nowUs: number | undefined): Result[] {
    return this.#store.run(
      groups.map((group) => this.#mine(group)),
      nowUs,
    )
  }

  #mine(group: Group): Group {
    const { recall } = group
    const ops = (all: readonly Op[]) => all.map((op) => ({ ...opOf(op), counter: this.#partOf(op.counter) }))
    return { ...group, ops: ops(group.ops), ...(recall && { recall: (memo: string) => ops(recall(memo)) }) }
  }

  #partOf(counter: Counter): Counter {
    const { nodes } = this.#members
    const known = this.#parts.get(counter)
    if (known?.nodes === nodes) return known.counter
    const part = { space: counter.space, policy: counter.policy.share(nodes || 1) }
    this.#parts.set(counter, { nodes, counter: part })
    return part
  }

  /** Leaves its part to the others. */
  close(): Promise<void> {
    return this.#members.leave()
  }
}

function isCounted({ verb }: Op): boolean {
  return verb === 'take' || verb === 'settle'
}

/** An op may be more than it says. */
function opOf({ verb, counter, key, cost, withinUs, mark, observe }: Op): Op {
  return {
    verb,
    counter,
    key,
    cost,
    ...(withinUs !== undefined && { withinUs }),
    ...(mark !== undefined && { mark }),
    ...(observe !== undefined && { observe }),
  }
}
