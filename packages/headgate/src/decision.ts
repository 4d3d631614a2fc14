import type { AlgorithmName } from './algorithms/algorithm.ts'
import { HeadgateError, show } from './errors.ts'
import { type HeaderStyle, formatHeaders } from './headers.ts'
import type { Counter, Op, Outcome } from './stores/store.ts'

/** How one limit judged a request: an op for the store, and its outcome. */
export class Charge implements Op, Outcome {
  readonly verb: 'take' | 'peek'
  readonly name: string
  readonly counter: Counter
  readonly key: string
  cost: number
  /** Whether the cost is the limit's own, whatever the call says. */
  readonly ownCost: boolean
  readonly observe: boolean
  ok = true
  waitUs = 0
  remaining = 0
  resetUs = 0
  growUs = 0
  windowUs = 0
  ref = 0
  settled = false
  released = false

  constructor(verb: 'take' | 'peek', name: string, counter: Counter, key: string, cost: number, ownCost: boolean, observe: boolean) {
    this.verb = verb
    this.name = name
    this.counter = counter
    this.key = key
    this.cost = cost
    this.ownCost = ownCost
    this.observe = observe
  }
}

export type Degraded = false | 'allow' | 'deny' | 'local'

/** One limit's part in a decision. */
export interface LimitState {
  readonly name: string
  readonly ok: boolean
  /** What fits at once when idle. */
  readonly limit: number
  readonly remaining: number
  readonly retryAfterMs: number
  readonly resetAfterMs: number
  readonly windowMs: number
  readonly key?: string
}

/** A limit's state with what headers need beside it. */
export interface HeaderState extends LimitState {
  /** Until `remaining` next grows. */
  readonly growAfterMs: number
  readonly algorithm: AlgorithmName
}

/** What a decision needs to act on later: who carries out ops. `A` is void, or a promise of it on a store that takes time. */
export interface Desk<A> {
  change(ops: readonly Op[]): A
  nowMs(): number
}

/** The answer to one request: a value, also when it is no. */
export class Decision<A = void> {
  readonly ok: boolean
  /** Name of the limit that decided: of those violated the one with the longest wait, else the one with the least left. */
  readonly limit: string
  /** Units left of the one limit that applied; where several did, how many more calls of cost 1 pass. */
  readonly remaining: number
  /** 0 when ok, Infinity when waiting cannot help. A request after exactly this long is let through if nobody else came. */
  readonly retryAfterMs: number
  /** Until all is as if nothing had been taken. */
  readonly resetAfterMs: number
  /** Units charged, or asked for when refused. */
  readonly cost: number
  readonly degraded: Degraded
  readonly #charges: Charge | readonly Charge[]
  readonly #desk: Desk<A>
  readonly #once: { settled?: boolean; released?: boolean }

  constructor(charges: Charge | readonly Charge[], desk: Desk<A>, cost: number, once: { settled?: boolean; released?: boolean }, degraded: Degraded = false) {
    let deciding: Charge | undefined
    if (charges instanceof Charge) deciding = charges
    else deciding = decidingOf(charges)
    this.ok = deciding === undefined || deciding.ok || deciding.observe
    this.limit = deciding === undefined ? '' : deciding.name
    this.remaining = charges === deciding ? deciding.remaining : callsLeft(charges as readonly Charge[])
    this.retryAfterMs = this.ok || deciding === undefined ? 0 : Math.ceil(deciding.waitUs / 1000)
    this.resetAfterMs = deciding === undefined ? 0 : Math.ceil(deciding.resetUs / 1000)
    this.cost = cost
    this.degraded = degraded
    this.#charges = charges
    this.#desk = desk
    this.#once = once
  }

  /** Names of all limits that refused, in the order they were declared. */
  get violated(): string[] {
    return this.#list.filter((charge) => !charge.ok && !charge.observe).map((charge) => charge.name)
  }

  get limits(): LimitState[] {
    return this.#list.map((charge) => limitState(charge))
  }

  /** Corrects the charge to what was really used, more or less than reserved: of the limits that charge the call's cost (all,
   *  if each has its own), or of those named. May leave a key below zero; the next wait counts that in. */
  settle(actual: number | Readonly<Record<string, number>>): A {
    const list = this.#list
    const shared = list.some((charge) => !charge.ownCost)
    return this.#close((charge) => {
      const units = typeof actual === 'object' ? actual[charge.name] : shared && charge.ownCost ? undefined : actual
      return units === undefined ? charge.cost : checkCost(units, charge.name)
    })
  }

  /** Gives back what was charged, as if the request had not been. */
  refund(): A {
    return this.#close(() => 0)
  }

  /** Frees the slots of in-flight limits. */
  release(): A {
    const open = this.ok && !this.#once.released
    this.#once.released = true
    return this.#desk.change(open ? this.#list.filter(isSlot).map((charge) => ({ ...opOf(charge), verb: 'release' as const })) : [])
  }

  /** RateLimit, X-RateLimit and Retry-After fields for a response. */
  headers(style?: HeaderStyle | readonly HeaderStyle[]): Record<string, string> {
    const states = this.#list.map((charge): HeaderState => ({
      ...limitState(charge),
      growAfterMs: Math.ceil(charge.growUs / 1000),
      algorithm: charge.counter.policy.algorithm,
    }))
    return formatHeaders(this, states, style, this.#desk.nowMs())
  }

  toJSON(): object {
    const { ok, limit, violated, remaining, retryAfterMs, resetAfterMs, cost, degraded, limits } = this
    return { ok, limit, violated, remaining, retryAfterMs, resetAfterMs, cost, degraded, limits }
  }

  get #list(): readonly Charge[] {
    return this.#charges instanceof Charge ? [this.#charges] : this.#charges
  }

  /** The first of settle and refund closes a booking. */
  #close(actual: (charge: Charge) => number): A {
    const ops: Op[] = []
    if (this.ok && !this.#once.settled) {
      for (const charge of this.#list) {
        const change = actual(charge) - charge.cost
        if (change !== 0 && charge.ok && charge.verb === 'take' && !isSlot(charge)) {
          ops.push({ ...opOf(charge), verb: 'settle', cost: change })
        }
      }
      this.#once.settled = true
    }
    return this.#desk.change(ops)
  }
}

function opOf({ counter, key, cost, ref }: Charge): Omit<Op, 'verb'> {
  return { counter, key, cost, ref }
}

function isSlot(charge: Charge): boolean {
  return charge.counter.policy.algorithm === 'at-once' && charge.verb === 'take'
}

function limitState({ name, ok, remaining, waitUs, resetUs, windowUs, counter, key }: Charge): LimitState {
  return {
    name,
    ok,
    limit: counter.policy.limit,
    remaining,
    retryAfterMs: Math.ceil(waitUs / 1000),
    resetAfterMs: Math.ceil(resetUs / 1000),
    windowMs: Math.ceil(windowUs / 1000),
    ...(key === SHARED ? {} : { key }),
  }
}

/** Of the violated limits the one with the longest wait, else the one with the smallest share left; the first of equals. */
function decidingOf(charges: readonly Charge[]): Charge | undefined {
  let deciding: Charge | undefined
  for (const charge of charges) {
    if (charge.observe) continue
    if (deciding === undefined) deciding = charge
    else if (charge.ok !== deciding.ok) deciding = charge.ok ? deciding : charge
    else if (charge.ok ? shareLeft(charge) < shareLeft(deciding) : charge.waitUs > deciding.waitUs) deciding = charge
  }
  return deciding
}

function shareLeft({ remaining, counter }: Charge): number {
  const { limit } = counter.policy
  return limit === Infinity ? Infinity : limit === 0 ? 0 : remaining / limit
}

function callsLeft(charges: readonly Charge[]): number {
  const enforced = charges.filter((charge) => !charge.observe)
  if (enforced.length === 1) return (enforced[0] as Charge).remaining
  const calls = ({ remaining, ownCost, cost }: Charge) => (ownCost ? (cost === 0 ? Infinity : Math.floor(remaining / cost)) : remaining)
  return enforced.reduce((least, charge) => Math.min(least, calls(charge)), Infinity)
}

/** The key of a limit without `by`: one counter for everybody. */
export const SHARED = '*'

export function checkCost(cost: unknown, limit: string): number {
  if (typeof cost === 'number' && cost >= 0 && Number.isSafeInteger(cost)) return cost
  throw new HeadgateError('HG_COST_INVALID', `limit "${limit}" got the cost ${show(cost)}: give a whole number from 0 on; use refund() to give back`, cost)
}
