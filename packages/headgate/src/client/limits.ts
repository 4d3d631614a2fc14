import type { Ticks } from '../clock.ts'
import type { Policy } from '../headers/parse.ts'
import { Rolling } from '../overload/rolling.ts'
import { createThrottle, type Throttle } from '../overload/throttle.ts'
import type { Priority } from '../overload/types.ts'
import { Budget, CROWD } from './budget.ts'
import { Guess, type Refusal } from './guess.ts'
import type { HostSetup, Pass } from './host.ts'
import { Silent } from './silent.ts'
import type { Told } from './told.ts'

/** Fewer answers say nothing about the next one. */
const FEW = 20
/** What a server did before this says nothing about what it does now. */
const MEMORY_MS = 30_000
const MOST_BUDGETS = 100
const MOST_ROUTES = 1_000
const LONGEST_PARTITION = 200
/** Of so many at least it is known when they were accepted. */
const MOST_ACCEPTED = 500
/** Pauses that nobody asked for: twice as long each time, up to this. */
const [FIRST_PAUSE_MS, LONGEST_PAUSE_MS] = [500, 30_000]
/** A pause that was asked for ends later by a random part of this, or of a tenth of it: others were told the same. */
const SPREAD_MS = 100
/** After this somebody asks again, whatever was told. */
const LONGEST_BLOCK_MS = 86_400_000
/** Each answer moves the share of those that said "busy" by as much; beyond this share there is too much to do. */
const [BUSY_STEP, BUSY_SHARE] = [0.1, 0.15]

/** What is known of the limits of a host, from its answers. */
export class Limits {
  readonly #host: string
  readonly #setup: HostSetup
  readonly #silent = new Silent()
  /** What it takes as a whole, if it refuses without saying that. */
  readonly #guess = new Guess()
  readonly #accepted: Accepted[] = []
  readonly #lastSecond = new Rolling(1_000, 1)
  readonly #ticks: Ticks
  /** The shortest time that an answer took. */
  #shortestMs = Infinity
  readonly #throttle: Throttle
  readonly #underWay: ReadonlySet<Pass>
  readonly #budgets = new Map<string, Budget>()
  /** Under which budgets the calls of a route were counted last. */
  readonly #routes = new Map<string, readonly Budget[]>()
  /** The same of routes that begin alike, for one that is new. */
  readonly #starts = new Map<string, readonly Budget[]>()
  /** Of routes that were refused by themselves. */
  readonly #owns = new Map<string, Budget>()
  #latest: readonly Budget[] = []
  /** It counts callers apart, and names them. */
  isPartitioned = false
  #pausedUntilMs = -Infinity
  #pausedAtMs = -Infinity
  #refusals = 0
  #answers = 0
  #busy = 0

  constructor(host: string, setup: HostSetup, ticks: Ticks, underWay: ReadonlySet<Pass>) {
    this.#host = host
    this.#setup = setup
    this.#ticks = ticks
    this.#throttle = createThrottle({ windowMs: MEMORY_MS, ...(setup.clock !== undefined && { clock: setup.clock }) })
    this.#underWay = underWay
  }

  /** When the host may be sent anything. */
  readyAtMs(nowMs: number, demand: number): number {
    const guessedMs = this.#guess.readyAtMs(nowMs, demand, this.#setup.peers())
    return Math.max(this.#pausedUntilMs, guessedMs, this.#silent.readyAtMs(nowMs, this.#underWay.size))
  }

  budgetsOf(route: string): readonly Budget[] {
    const alike = this.#starts.get(startOf(route)) ?? this.#starts.get(callerOf(route))
    const known = this.#routes.get(route) ?? alike ?? this.#latest
    const own = this.#owns.get(route)
    return own === undefined ? known : [...known, own]
  }

  sent(nowMs: number, demand: number): void {
    this.#silent.sent(nowMs)
    this.#guess.sent(nowMs, demand, this.#setup.peers())
  }

  accepted({ priority, sentMs, route, budgets }: Pass, nowMs: number): void {
    this.#refusals = 0
    this.#shortestMs = Math.min(this.#shortestMs, nowMs - sentMs)
    const seenMs = this.#seenMs({ sentMs, answeredMs: nowMs })
    this.#guess.accepted(sentMs, seenMs)
    for (const { guess } of budgets.keys()) guess?.accepted(sentMs, seenMs)
    this.#lastSecond.add(this.#ticks.nowUs(), 0)
    this.#accepted.push({ sentMs, answeredMs: nowMs, route })
    if (this.#accepted.length > 2 * MOST_ACCEPTED) this.#accepted.splice(0, MOST_ACCEPTED)
    this.#silent.accepted(nowMs)
    this.#throttle.done('accepted', priority)
    this.#busy -= this.#busy * BUSY_STEP
    this.#answers++
  }

  /** No answer, or none that says more than that there is too much to do. */
  failed({ priority }: Pass): void {
    this.#throttle.done('refused', priority)
    this.#answers++
  }

  /** It had too much to do and did not say how much that is. Now and then that happens to anybody. */
  busy(pass: Pass, url: string, nowMs: number): void {
    this.failed(pass)
    this.#busy += (1 - this.#busy) * BUSY_STEP
    if (this.#busy < BUSY_SHARE) return
    const forMs = this.#guessMs([], { sentMs: pass.sentMs, nowMs, toldMs: undefined }, pass.route)
    if (forMs === 0) return
    this.pause(nowMs, forMs)
    this.#setup.emit({ type: 'pause', host: this.#host, url, forMs, scope: 'host' })
  }

  holdsBack(priority: Priority): boolean {
    return this.#budgets.size === 0 && this.#answers >= FEW && !this.#throttle.enter(priority)
  }

  learn(policies: readonly Policy[], lessons: Lessons): void {
    const { route, budgets: shares, isFromInstant } = lessons
    const usable = policies.slice(0, MOST_BUDGETS).filter(isUsable)
    if (usable.length === 0) return
    const budgets = usable.map((policy) => {
      const budget = this.#budgetOf(policy, route)
      const [limit, windowMs] = [budget.limit, budget.windowMs]
      const share = shares.get(budget)
      const index = share?.index ?? budget.lastIndex
      const isCounted = share !== undefined
      budget.learn({ ...lessons, policy, index, isCounted, isFromInstant: isFromInstant(policy) })
      if (limit !== budget.limit || windowMs !== budget.windowMs)
        this.#setup.emit({ type: 'learnt', host: this.#host, policy })
      return budget
    })
    this.#silent.known()
    // Where a server names what it counts apart, nothing is known of a route that is unlike all others.
    const isApart = ({ source, name, partition }: Policy) =>
      partition !== undefined || (source === 'legacy' && name !== undefined)
    this.isPartitioned ||= usable.some(({ partition }) => partition !== undefined)
    this.#latest = usable.some(isApart) ? [] : budgets
    this.#remember(route, budgets)
  }

  #remember(route: string, budgets: readonly Budget[]): void {
    const starts = this.isPartitioned ? [startOf(route), callerOf(route)] : [startOf(route)]
    for (const [map, key] of [
      [this.#routes, route] as const,
      ...starts.map((start) => [this.#starts, start] as const),
    ]) {
      map.delete(key)
      map.set(key, budgets)
      dropOldest(map, MOST_ROUTES)
    }
  }

  /** A nameless limit is known by its size. Calls under way on the same route count under one that is new. */
  #budgetOf({ name, unit, source, limit, partition }: Policy, route: string): Budget {
    const apart = partition === undefined ? [] : [partition.slice(0, LONGEST_PARTITION)]
    const id = JSON.stringify([source, name ?? limit ?? '', unit ?? '', ...apart])
    const known = this.#budgets.get(id)
    const budget = known ?? new Budget(id, unit)
    this.#budgets.delete(id)
    this.#budgets.set(id, budget)
    if (known !== undefined) return budget
    dropOldest(this.#budgets, MOST_BUDGETS)
    for (const pass of this.#underWay) {
      if (pass.route !== route || pass.budgets.has(budget)) continue
      const weight = budget.weigh(pass.weight)
      const index = budget.send(weight, pass.sentMs, { demand: 0, peers: 1 })
      pass.budgets.set(budget, { weight, index })
    }
    return budget
  }

  /** Whoever was meant pauses; returns for how long. */
  refused(told: Told, pass: Pass, url: string, nowMs: number): number {
    const { route, sentMs } = pass
    const spent = (told.policies ?? []).filter(({ remaining }) => remaining === 0)
    const scope = told.scope ?? (spent.length > 0 ? 'policies' : 'host')
    const resets = spent.flatMap(({ resetAfterMs }) => resetAfterMs ?? [])
    const toldMs = told.retryAfterMs ?? (resets.length > 0 ? Math.max(...resets) : undefined)
    if (scope === 'call') return toldMs ?? 0
    if (sentMs >= this.#pausedAtMs) [this.#refusals, this.#pausedAtMs] = [this.#refusals + 1, nowMs]
    const budgets = scope === 'host' ? [] : scope === 'route' ? [this.#ownBudgetOf(route)] : this.#meant(spent, route)
    const guessedMs = spent.length === 0 ? this.#guessMs(budgets, { sentMs, nowMs, toldMs }, route) : 0
    const leastMs = guessedMs > 0 ? Math.max(guessedMs, toldMs ?? 0) : toldMs
    const forMs = this.#pauseMs(leastMs, Math.max(0, ...budgets.map(({ crowdMs }) => crowdMs)))
    if (toldMs === undefined) this.failed(pass)
    this.#pause(budgets, nowMs, leastMs ?? forMs, forMs)
    const { reason } = told
    this.#setup.emit({ type: 'pause', host: this.#host, url, forMs, scope, ...(reason !== undefined && { reason }) })
    return forMs
  }

  /** For how long nothing should be sent by what was accepted before; 0: that tells nothing. */
  #guessMs(
    budgets: readonly Budget[],
    { toldMs, ...rest }: Omit<Refusal, 'acceptedMs' | 'lastSecond'>,
    route: string,
  ): number {
    this.#silent.known()
    const refusal = { ...rest, toldMs: toldMs === undefined ? undefined : Math.min(toldMs, LONGEST_BLOCK_MS) }
    const seenMs = (accepted: Accepted) => this.#seenMs(accepted)
    const lastSecond = this.#lastSecond.sum(this.#ticks.nowUs(), 0)
    if (budgets.length === 0)
      return this.#guess.refused({ ...refusal, lastSecond, acceptedMs: this.#accepted.map(seenMs) })
    const acceptedMs = this.#accepted.filter((each) => each.route === route).map(seenMs)
    return Math.max(...budgets.map((budget) => budget.refused({ ...refusal, lastSecond: 0, acceptedMs })))
  }

  /** A call that took longer than others, as the first over a connection does, may have come later. */
  #seenMs({ sentMs, answeredMs }: Omit<Accepted, 'route'>): number {
    return Math.max(sentMs, answeredMs - this.#shortestMs)
  }

  /** What was asked for, and a random part more. Nothing was asked for, or too little again and again: longer each time. */
  #pauseMs(toldMs: number | undefined, crowdMs: number): number {
    const { random, maxWaitMs } = this.#setup
    const longestMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.max(0, this.#refusals - 1))
    // Who was refused twice and never let through is one of many, too.
    const isOneOfMany = this.#refusals > 1 && this.#accepted.length === 0
    const manyMs = isOneOfMany ? CROWD * (toldMs ?? 2 * FIRST_PAUSE_MS) : crowdMs
    if (toldMs === undefined) return longestMs * (0.5 + random() / 2) + random() * Math.min(manyMs, maxWaitMs / 3)
    const leastMs = this.#refusals > 1 ? (longestMs / 4) * random() : 0
    // Not so long that calls are given up for it.
    const spreadMs = Math.min(manyMs, (maxWaitMs - toldMs) / 3)
    return Math.max(toldMs, leastMs) + random() * Math.max(SPREAD_MS, toldMs / 10, spreadMs)
  }

  #meant(spent: readonly Policy[], route: string): readonly Budget[] {
    return spent.length > 0 ? spent.map((policy) => this.#budgetOf(policy, route)) : this.budgetsOf(route)
  }

  /** No budgets: the whole host. A pause that is long enough already is left as it is. */
  #pause(budgets: readonly Budget[], nowMs: number, leastMs: number, forMs: number): void {
    const extend = (untilMs: number) =>
      untilMs >= nowMs + leastMs ? untilMs : nowMs + Math.min(forMs, LONGEST_BLOCK_MS)
    if (budgets.length === 0) this.#pausedUntilMs = extend(this.#pausedUntilMs)
    for (const budget of budgets) budget.pausedUntilMs = extend(budget.pausedUntilMs)
    this.#setup.gates?.pause(this.#host, budgets, forMs)
  }

  pause(nowMs: number, ms: number): void {
    this.#pause([], nowMs, ms, ms)
  }

  /** Of a route that was refused by itself: nothing is known of it but that. */
  #ownBudgetOf(route: string): Budget {
    const budget = this.#budgetOf({ name: `route ${route}`, source: 'vendor' }, route)
    this.#owns.set(route, budget)
    dropOldest(this.#owns, MOST_BUDGETS)
    return budget
  }

  state(nowMs: number) {
    const rate = this.#guess.perSecond(nowMs)
    return {
      pausedForMs: Math.max(0, this.#pausedUntilMs - nowMs),
      /** What is sent at most to a server that refuses without saying how much it takes. */
      ...(rate < Infinity && { perSecond: rate }),
      budgets: [...this.#budgets.values()].map((budget) => budget.state(nowMs)),
    }
  }
}

interface Accepted {
  readonly sentMs: number
  readonly answeredMs: number
  readonly route: string
}

export interface Lessons {
  readonly route: string
  readonly budgets: Pass['budgets']
  readonly sentMs: number
  readonly nowMs: number
  readonly refused: boolean
  readonly isFromInstant: (policy: Policy) => boolean
}

/** Where callers are counted apart, the route begins with who it is. */
function callerOf(route: string): string {
  return `${route.split('/', 1)[0]} *`
}

function startOf(route: string): string {
  return route.split('/', 2).join('/')
}

function dropOldest(map: Map<string, unknown>, most: number): void {
  const [oldest] = map.keys()
  if (map.size > most && oldest !== undefined) map.delete(oldest)
}

/** Slots are not used up, and a limit without any number is none. */
function isUsable({ unit, limit, remaining }: Policy): boolean {
  return unit !== 'concurrent-requests' && (limit !== undefined || remaining !== undefined)
}
