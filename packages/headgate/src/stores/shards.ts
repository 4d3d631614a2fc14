import type { Clock } from '../clock.ts'
import { hash, low } from './hash.ts'
import {
  blankOutcome,
  type Counter,
  type Group,
  type Hold,
  heldBy,
  type IsHeld,
  isAsked,
  type Op,
  type Outcome,
  type Result,
  type Store,
} from './store.ts'

/** In which of its key's parts an op acts; all of them, or none where the limit is not split. */
type Route = number | 'all' | 'whole'

export const MOST_SHARDS = 64
/** A limit of which each part would be less than this stays whole. */
const LEAST_PART = 16
/** So many parts are asked before a request is refused. */
const TRIES = 4
/** Marks say beside the era which part it was: 0 for all of them, else one more than its number. */
const ERA = 2 * MOST_SHARDS

/**
 * Splits each key of a large limit into parts with names of their own, which lie on different nodes of a cluster, so that a key may
 * be hotter than one node can serve. The parts are together just the limit. A request takes from one part, each from the next, and
 * asks a few others before it is refused: never more than the limit passes, but a request may be refused though parts that were
 * not asked have units left. A cost larger than a part is taken from all of them.
 *
 * Left whole: small limits, slots in flight, `leaky-bucket`, whose departures would be several at once, and windows that start with
 * their first hit, as each part would start its own.
 */
export class Shards implements Store {
  readonly prefix: string | undefined
  readonly clock: Clock | undefined
  readonly holds: readonly Hold[] = ['shards']
  readonly #store: Store
  readonly #shards: number
  readonly #isMine: IsHeld
  readonly #parts = new WeakMap<Counter, readonly Counter[]>()
  #next: number

  /** @param isMine Which limits may be split; the others stay whole.
   *  @param first Where this process begins to go round: processes that began alike would meet. */
  constructor(
    store: Store,
    shards: number,
    isMine = heldBy('shards'),
    first = Math.floor(Math.random() * MOST_SHARDS),
  ) {
    this.#store = store
    this.#shards = shards
    this.#isMine = isMine
    this.#next = first
    this.clock = store.clock
    this.prefix = store.prefix
  }

  forgetDenials(): void {
    this.#store.forgetDenials?.()
  }

  kindOf(reason: unknown): string | undefined {
    return this.#store.kindOf?.(reason)
  }

  close(): void | Promise<void> {
    return this.#store.close?.()
  }

  run(groups: readonly Group[], nowUs?: number, deadlineUs?: number): Promise<Result[]> {
    return Promise.all(groups.map((group) => this.#run(group, nowUs, deadlineUs)))
  }

  async #run(group: Group, nowUs: number | undefined, deadlineUs: number | undefined): Promise<Result> {
    const routes = this.#routesOf(group)
    const tries = group.id === undefined ? Math.min(TRIES, this.#shards) : 1
    let best: Result | undefined
    for (let n = 1; ; n++) {
      const [answer] = await this.#store.run([this.#split(group, routes)], nowUs, deadlineUs)
      const result = this.#join(group, routes, answer as Result)
      best = best === undefined || result.ok ? result : sooner(best, result)
      if (result.ok || n >= tries || !this.#moveOn(group, routes, result)) return best
    }
  }

  #isSplit(counter: Counter): boolean {
    const { algorithm, limit, shape } = counter.policy
    if (!this.#isMine(counter) || limit < LEAST_PART * this.#shards || shape.includes('first-hit')) return false
    return algorithm !== 'at-once' && algorithm !== 'leaky-bucket' && algorithm !== 'unlimited'
  }

  /** The same for the same id, so that a repeat is known where the first was. */
  #routesOf({ ops, id, upTo, fixed }: Group): Route[] {
    let first = this.#next++ % this.#shards
    if (id !== undefined) {
      hash(id)
      first = (low >>> 0) % this.#shards
    }
    return ops.map((op, i) => this.#routeOf(op, first, upTo !== undefined && !fixed?.[i]))
  }

  #routeOf({ verb, counter, cost, mark }: Op, first: number, asMuchAsFits: boolean): Route {
    if (!this.#isSplit(counter)) return 'whole'
    if (verb === 'block' || verb === 'reset') return 'all'
    if (mark !== undefined && cost < 0) {
      const part = mark.era % ERA
      return part === 0 ? 'all' : part - 1
    }
    return cost > Math.floor(counter.policy.limit / this.#shards) && !asMuchAsFits ? 'all' : first
  }

  /** Sends what was refused to the next part; false if there is none. */
  #moveOn({ ops }: Group, routes: Route[], { outcomes }: Result): boolean {
    let moved = false
    for (const [i, route] of routes.entries()) {
      const op = ops[i] as Op
      if (typeof route !== 'number' || outcomes[i]?.ok || op.observe || !isAsked(op)) continue
      routes[i] = (route + 1) % this.#shards
      moved = true
    }
    return moved
  }

  #split(group: Group, routes: readonly Route[]): Group {
    const { recall, fixed } = group
    const ops = group.ops.flatMap((op, i) => this.#opsOf(op, routes[i] as Route))
    return {
      ...group,
      ops,
      ...(fixed && { fixed: group.ops.flatMap((_, i) => this.#spread(routes[i] as Route, () => fixed[i] === true)) }),
      ...(recall && { recall: (memo: string) => this.#again(group, recall(memo)) }),
    }
  }

  #again(group: Group, ops: readonly Op[]): Op[] {
    const routes = this.#routesOf({ ...group, ops })
    return ops.flatMap((op, i) => this.#opsOf(op, routes[i] as Route))
  }

  #spread<T>(route: Route, make: (part: number) => T): T[] {
    return route === 'all' ? Array.from({ length: this.#shards }, (_, part) => make(part)) : [make(-1)]
  }

  #opsOf(op: Op, route: Route): readonly Op[] {
    if (route === 'whole') return [op]
    const { verb, counter, key, cost, mark, observe } = op
    const parts = this.#partsOf(counter)
    const make = (part: number, cost: number): Op => ({
      verb,
      counter: parts[part] as Counter,
      key,
      cost,
      ...(mark !== undefined && { mark: { ...mark, era: Math.floor(mark.era / ERA) } }),
      ...(observe !== undefined && { observe }),
    })
    if (route !== 'all') return [make(route, cost)]
    // What was taken from all parts is marked in none of them: it comes back by itself.
    const costOf = (part: number) => (verb === 'block' ? cost : cost < 0 ? 0 : nthOf(cost, this.#shards, part))
    return parts.map((_, part) => make(part, costOf(part)))
  }

  /** With empty braces the whole name decides where it lies, whatever braces the key has. No limit's name has braces. */
  #partsOf(counter: Counter): readonly Counter[] {
    const known = this.#parts.get(counter)
    if (known !== undefined) return known
    const { space, policy } = counter
    const parts = Array.from({ length: this.#shards }, (_, nth) => ({
      space: `${space}{}${nth}`,
      policy: policy.share(this.#shards, nth),
    }))
    this.#parts.set(counter, parts)
    return parts
  }

  #join(group: Group, sent: readonly Route[], result: Result): Result {
    const { memo } = result
    const ops = memo === undefined ? group.ops : (group.recall?.(memo) ?? [])
    const routes = memo === undefined ? sent : this.#routesOf({ ...group, ops })
    let at = 0
    const outcomes = ops.map((op, i) => {
      const route = routes[i] as Route
      const count = route === 'all' ? this.#shards : 1
      at += count
      return this.#outcomeOf(op, route, result.outcomes.slice(at - count, at))
    })
    return { ...result, outcomes }
  }

  #outcomeOf({ counter }: Op, route: Route, own: readonly Outcome[]): Outcome {
    const [only = blankOutcome()] = own
    if (route === 'whole') return only
    if (route === 'all') return allOf(own)
    const { limit } = counter.policy
    const part = this.#partsOf(counter)[route] as Counter
    const remaining = Math.min(limit, Math.floor((only.remaining / part.policy.limit) * limit))
    return { ...only, remaining, era: only.era * ERA + route + 1 }
  }
}

/** The nth of so many nearly equal parts. */
function nthOf(units: number, parts: number, nth: number): number {
  return Math.floor(units / parts) + (nth < units % parts ? 1 : 0)
}

function allOf(own: readonly Outcome[]): Outcome {
  const [first = blankOutcome()] = own
  const most = (of: (outcome: Outcome) => number) => Math.max(...own.map(of))
  return {
    ...first,
    ok: own.every(({ ok }) => ok),
    remaining: own.reduce((sum, { remaining }) => sum + remaining, 0),
    waitUs: most(({ waitUs }) => waitUs),
    resetUs: most(({ resetUs }) => resetUs),
    growUs: Math.min(...own.map(({ growUs }) => growUs)),
    atUs: most(({ atUs }) => atUs),
    ref: 0,
    refPart: 0,
    era: 0,
  }
}

/** Of what was refused by several parts, the shortest wait holds. */
function sooner(before: Result, now: Result): Result {
  const outcomes = now.outcomes.map((outcome, i) => {
    const other = before.outcomes[i]
    return other !== undefined && !outcome.ok && !other.ok && other.waitUs < outcome.waitUs ? other : outcome
  })
  return { ...now, outcomes }
}
