import type { Policy } from './algorithms/algorithm.ts'
import { HeadgateError, show } from './errors.ts'
import type { Bytes } from './metering.ts'
import type { Counter, Op, Outcome } from './stores/store.ts'

/** One limit's part in a decision. */
export interface LimitState {
  readonly name: string
  readonly ok: boolean
  /** What fits at once when idle. */
  readonly limit: number
  readonly remaining: number
  readonly retryAfterMs: number
  readonly resetAfterMs: number
  /** How long it takes from empty to full. */
  readonly windowMs: number
  /** Absent where the limit is one counter for everybody. */
  readonly key?: string
}

/** What is known of a response when it is over. */
export interface ResponseInfo {
  /** 499 where the caller went away before there was one. */
  readonly status: number
}

/** Whether a request is to be counted, by how it ended. */
export type CountWhen = (response: ResponseInfo) => boolean

/** What of a limit's definition its part in a decision depends on. */
export interface ChargeRule {
  readonly name: string
  /** Whether it only watches a key. */
  observes(key: string): boolean
  /** Whether the limit has a cost of its own, whatever the call says. */
  readonly ownCost: boolean
  /** Whether it keeps the whole from having too much to do, whoever asks. */
  readonly overload: boolean
  /** Which bodies it charges by their size, while they pass: see `Meter`. */
  readonly bytes?: Bytes | undefined
}

/** One limit's part in a decision: the op that is asked of the store, and what came of it. A store that answers at once writes
 *  that here. */
export class Charge implements Op, Outcome {
  readonly rule: ChargeRule
  readonly verb: 'take' | 'peek'
  readonly counter: Counter
  /** What is told of: another than it is judged by where it has some slack, see `KeyPart`. */
  shown: Policy
  readonly key: string
  observe: boolean
  /** It was only looked at, and is booked when this says so. */
  readonly countWhen: CountWhen | undefined
  cost: number
  /** See `Op`. */
  withinUs: number | undefined
  ok: boolean
  remaining: number
  waitUs: number
  resetUs: number
  growUs: number
  atUs: number
  ref: number
  refPart: number
  era: number

  constructor(
    rule: ChargeRule,
    verb: 'take' | 'peek',
    counter: Counter,
    key: string,
    cost: number,
    countWhen?: CountWhen,
  ) {
    this.rule = rule
    this.verb = verb
    this.counter = counter
    this.shown = counter.policy
    this.key = key
    this.observe = rule.observes(key)
    this.cost = cost
    this.countWhen = countWhen
    this.withinUs = undefined
    this.ok = true
    this.remaining = 0
    this.waitUs = 0
    this.resetUs = 0
    this.growUs = 0
    this.atUs = 0
    this.ref = 0
    this.refPart = 0
    this.era = 0
  }

  /** The same, which may be booked so far ahead, if it is of a kind that departs at a steady rate. */
  ahead(withinUs: number): Charge {
    const { rule, verb, counter, key, cost, observe, countWhen } = this
    const copy = new Charge(rule, verb, counter, key, cost, countWhen)
    const shapes = counter.policy.algorithm === 'leaky-bucket' && verb === 'take' && !observe
    if (shapes && cost > 0 && withinUs > 0) copy.withinUs = withinUs
    return copy
  }

  get isSlot(): boolean {
    return this.counter.policy.algorithm === 'at-once'
  }

  /** Whole milliseconds, rounded up, as all times that are told. */
  get retryAfterMs(): number {
    return this.ok ? 0 : Math.ceil(this.waitUs / 1000)
  }

  get resetAfterMs(): number {
    return Math.ceil(this.resetUs / 1000)
  }

  get growAfterMs(): number {
    return Math.ceil(this.growUs / 1000)
  }

  get resetAtS(): number {
    return resetAtOf(this)
  }

  fill({ ok, remaining, waitUs, resetUs, growUs, atUs, ref, refPart, era }: Outcome): void {
    this.ok = ok
    this.remaining = remaining
    this.waitUs = waitUs
    this.resetUs = resetUs
    this.growUs = growUs
    this.atUs = atUs
    this.ref = ref
    this.refPart = refPart
    this.era = era
  }

  toState(nowMs: number): LimitState {
    const { ok, remaining, retryAfterMs, resetAfterMs, key } = this
    const { shown } = this
    const windowMs = Math.ceil(shown.windowUs(nowMs * 1000) / 1000)
    const state = { name: this.rule.name, ok, limit: shown.limit, remaining, retryAfterMs, resetAfterMs, windowMs }
    return key === SHARED ? state : { ...state, key }
  }
}

/** How many units of a charge are meant. */
export type UnitsOf = (charge: Charge) => number

/** What was really used of each limit, of those with these names. */
export function unitsOf(
  actual: number | Readonly<Record<string, number>>,
  names: readonly string[],
  charges: readonly Charge[],
): UnitsOf {
  if (typeof actual !== 'object' || actual === null) {
    const units = checkCost(actual)
    const shared = charges.some(({ rule }) => !rule.ownCost)
    return ({ rule, cost }) => ((shared && rule.ownCost) || rule.bytes !== undefined ? cost : units)
  }
  for (const [name, units] of Object.entries(actual)) {
    checkCost(units, name)
    if (names.includes(name)) continue
    const message = `the decision has no limit "${name}"; it has ${names.join(', ') || 'none'}`
    throw new HeadgateError('HG_LIMIT_UNKNOWN', message, name)
  }
  return ({ rule, cost }) => (Object.hasOwn(actual, rule.name) ? (actual[rule.name] as number) : cost)
}

export function correctionsOf(booked: readonly Charge[], unitsOf: UnitsOf): Op[] {
  const ops: Op[] = []
  for (const charge of booked) {
    const change = unitsOf(charge) - charge.cost
    if (change === 0 || charge.isSlot) continue
    ops.push({ verb: 'settle', counter: charge.counter, key: charge.key, cost: change, mark: charge })
  }
  return ops
}

export function releasesOf(slots: readonly Charge[]): Op[] {
  return slots.map((mark) => ({ verb: 'release', counter: mark.counter, key: mark.key, cost: mark.cost, mark }))
}

/** The one that speaks for all: what is refused for longest, or else what has the least share left. */
export function decidingOf(charges: readonly Charge[]): Charge | undefined {
  let deciding: Charge | undefined
  let share = Infinity
  for (let i = 0; i < charges.length; i++) {
    const charge = charges[i] as Charge
    if (charge.observe || (deciding?.ok === false && charge.ok)) continue
    // Waits are compared as they are told: of two that look the same, the one declared first decides.
    const own = charge.ok ? shareLeft(charge) : -charge.retryAfterMs
    if (deciding !== undefined && deciding.ok === charge.ok && own >= share) continue
    deciding = charge
    share = own
  }
  return deciding
}

function shareLeft({ remaining, shown: { limit } }: Charge): number {
  return limit === Infinity ? Infinity : limit === 0 ? 0 : remaining / limit
}

/** A limit with a cost of its own is worth as many calls as that cost goes into what is left. */
export function callsLeft(charges: readonly Charge[]): number {
  let least = Infinity
  for (let i = 0; i < charges.length; i++) {
    const { observe, rule, remaining, cost } = charges[i] as Charge
    if (observe) continue
    const calls =
      !rule.ownCost || charges.length === 1 ? remaining : cost === 0 ? Infinity : Math.floor(remaining / cost)
    if (calls < least) least = calls
  }
  return least
}

/** In seconds since the epoch, by the clock that the decision was made by; 0 if that is not known. Asked for later, with a time
 *  of its own, it would be a second late now and then. */
export function resetAtOf({ atUs, resetUs }: Outcome): number {
  return atUs === 0 ? 0 : Math.ceil((atUs + resetUs) / 1_000_000)
}

/** The key of a limit without `by`: one counter for everybody. No key that somebody gives is encoded as this, see `key.ts`. */
export const SHARED = '\u0000*'

export function checkCost(cost: unknown, limit?: string): number {
  if (typeof cost === 'number' && cost >= 0 && Number.isSafeInteger(cost)) return cost
  const whose = limit === undefined ? 'the cost' : `the cost for limit "${limit}"`
  throw new HeadgateError(
    'HG_COST_INVALID',
    `${whose} is ${show(cost)}: give a whole number from 0 on; refund() gives back`,
    cost,
  )
}
