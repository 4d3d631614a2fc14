import type { Policy } from './algorithms/algorithm.ts'
import { shareOf } from './algorithms/stagger.ts'
import { LONGEST_US, MOST_UNITS } from './algorithms/whole.ts'
import { type ChargeRule, type CountWhen, checkCost, SHARED } from './charge.ts'
import type { Ticks } from './clock.ts'
import { definitionOf } from './definition.ts'
import { checkChoice, HeadgateError, rejectUnknown, show, suggest } from './errors.ts'
import { Expiring } from './expiring.ts'
import { encodeKey, type Key } from './key.ts'
import {
  type Algorithm,
  type Align,
  compileAtOnce,
  compileLimit,
  type LimitObject,
  type LimitText,
  objectKeys,
} from './limit.ts'
import { type Bytes, type BytesCost, bytesOf } from './metering.ts'
import { type Priority, priorities } from './priority.ts'
import { type Counter, type Hold, holds } from './stores/store.ts'

export type OnStoreError = 'allow' | 'deny' | 'local'
export type Mode = 'enforce' | 'observe' | 'off'
/** Also a text that is known only at run time: it is then checked there. */
export type Limit = string | LimitObject
/** What a key of an in-flight limit may get instead. */
export interface SlotLimit {
  readonly atOnce: number
  readonly holdMs?: number
}
export type AnyLimit = Limit | { readonly [tier: string]: Limit }
/** Makes a wrong limit text a type error where the compiler can see it. */
export type CheckedLimit<L> = [L] extends [LimitText | LimitObject]
  ? L
  : L extends string
    ? string extends L
      ? L
      : LimitText
    : { readonly [Tier in keyof L]: CheckedLimit<L[Tier]> }

export interface LimitOptions<R> {
  readonly limit?: AnyLimit
  /** How many may be in flight at once, instead of a rate. */
  readonly atOnce?: number
  /** After how long a slot of `atOnce` that nobody released comes back by itself. */
  readonly holdMs?: number
  readonly algorithm?: Algorithm
  readonly align?: Align
  readonly zone?: string
  /** Whose limit it is; without it a named limit is one counter for everybody. */
  readonly by?: (request: R) => Key | null | undefined
  /** Whether the limit concerns a request at all. */
  readonly when?: (request: R) => boolean
  readonly cost?: (request: R) => number
  /** Which of the named limits in `limit` holds. */
  readonly tier?: (request: R) => string
  readonly mode?: Mode
  /** For how many keys of a hundred the limit is enforced; for the others it only watches. The same keys as the share grows. */
  readonly enforcePercent?: number
  readonly onStoreError?: OnStoreError
  /** How the store holds it over all processes, where it has several ways: `central` asks each time. */
  readonly hold?: Hold
  /** How much the requests that it concerns matter to overload protection, where nobody says of a request. Of several limits the
   *  least counts. */
  readonly priority?: Priority
  /** Keeps the whole from having too much to do, whoever asks: who is refused by it gets 503, not 429. */
  readonly overload?: boolean
  /** A take then only looks; `decision.count(response)` charges if this says so. */
  readonly countWhen?: CountWhen
}

export const limitKeys = [
  'limit',
  'atOnce',
  'holdMs',
  'algorithm',
  'align',
  'zone',
  'by',
  'when',
  'cost',
  'tier',
  'mode',
  'enforcePercent',
  'onStoreError',
  'hold',
  'priority',
  'overload',
  'countWhen',
]
const NAME = /^[a-z][a-z0-9_-]*$/
/** Of one limit; whole groups of keys are what tiers are for. */
const MOST_OVERRIDES = 100_000
const MOST_OTHERS = 1000

/** A named limit of a gate, checked and compiled. */
export class NamedLimit implements ChargeRule {
  readonly name: string
  readonly observe: boolean
  readonly ownCost: boolean
  readonly overload: boolean
  readonly bytes: Bytes | undefined
  readonly options: LimitOptions<unknown>
  /** What every request asks of the options: those of each limit look different, which makes reading them slow. */
  readonly by: LimitOptions<unknown>['by']
  readonly when: LimitOptions<unknown>['when']
  readonly isOff: boolean
  /** Whether it may be charged by outcome: a request in flight is in flight however it will end, and what passed has passed. */
  readonly mayCountLater: boolean
  readonly countWhen: CountWhen | undefined
  readonly space: string
  /** Without tiers, the one counter. */
  readonly counter: Counter | undefined
  readonly #tiers = new Map<string, Counter>()
  readonly #overrides = new Expiring<{ readonly counter: Counter; readonly untilUs: number }>()
  /** By limits that callers bring along. */
  readonly #others = new Map<string, Counter>()
  readonly #byArgument: boolean
  /** Which part of all hashes is enforced, if not all. */
  readonly #share: number | undefined

  constructor(name: string, options: LimitOptions<unknown>, prefix: string, byArgument: boolean) {
    if (!NAME.test(name)) {
      throw new HeadgateError(
        'HG_LIMIT_NAME',
        `"${name}" is no name for a limit: use a-z, then a-z, 0-9, _ and -, as it stands in headers`,
        name,
      )
    }
    this.name = name
    this.options = options
    this.by = options.by
    this.when = options.when
    this.isOff = options.mode === 'off'
    this.countWhen = options.countWhen
    this.observe = options.mode === 'observe'
    this.ownCost = options.cost !== undefined
    this.overload = options.overload === true
    this.bytes = (options.cost as Partial<BytesCost<unknown>> | undefined)?.bytes
    this.mayCountLater = options.atOnce === undefined && this.bytes === undefined
    this.space = `${prefix}:${name}`
    this.#byArgument = byArgument
    checkLimitOptions(options, name)
    const { enforcePercent = 100 } = options
    this.#share = enforcePercent === 100 ? undefined : enforcePercent / 100
    const { limit, atOnce, holdMs } = options
    if (atOnce !== undefined) this.counter = this.#counterOf(compileAtOnce(atOnce, holdMs))
    else if (!isTiers(limit, options.tier)) this.counter = this.#counterOf(compileLimit(limit, options))
    else
      for (const [tier, each] of Object.entries(limit))
        this.#tiers.set(tier, this.#counterOf(compileLimit(each, options)))
  }

  #counterOf(policy: Policy): Counter {
    const { hold } = this.options
    return hold === undefined ? { space: this.space, policy } : { space: this.space, policy, hold }
  }

  keyOf(request: unknown): string {
    const { by } = this
    if (by === undefined) return this.#byArgument ? encodeKey(request, this.name) : SHARED
    return encodeKey(by(request), this.name)
  }

  /** Whether the limit only watches this key. */
  observes(key: string): boolean {
    return this.observe || (this.#share !== undefined && shareOf(`${this.name}:${key}`) >= this.#share)
  }

  /** `asked` is what the call says, which a cost in bytes falls back on. */
  costOf(request: unknown, asked: number): number {
    return checkCost((this.options.cost as BytesCost<unknown> | undefined)?.(request, asked), this.name)
  }

  /** Whether all requests that it concerns meet the same counter, and nothing but their key is asked. */
  get plain(): boolean {
    return (
      this.counter !== undefined &&
      this.options.countWhen === undefined &&
      this.bytes === undefined &&
      this.#share === undefined &&
      (this.options.mode ?? 'enforce') === 'enforce' &&
      !this.overridden
    )
  }

  get overridden(): boolean {
    return this.#overrides.size > 0
  }

  counterFor(request: unknown, key: string, ticks: Ticks): Counter {
    return this.#overrideOf(key, ticks) ?? this.counter ?? this.#tier(this.options.tier?.(request))
  }

  /** As `counterFor`, where there is no request to ask for its tier. */
  counterOfTier(key: string, tier: string | undefined, ticks: Ticks): Counter {
    return this.#overrideOf(key, ticks) ?? this.counter ?? this.#tier(tier)
  }

  /** The counts of a key, judged by another limit if the key has no override. */
  counterTo(key: string, to: string | undefined, ticks: Ticks): Counter {
    return this.#overrideOf(key, ticks) ?? (to === undefined ? this.anyCounter : this.#judgedBy(to))
  }

  /** The same counts, judged as if the limit were more by so many units. */
  wider(counter: Counter, units: number): Counter {
    const definition = definitionOf(counter.policy)
    if (definition === undefined || definition === 'unlimited' || 'atOnce' in definition) return counter
    const wide = this.#judgedBy({ ...definition, limit: Math.min(definition.limit + units, MOST_UNITS) })
    return wide.policy.shape === counter.policy.shape ? wide : counter
  }

  #judgedBy(to: Limit): Counter {
    const text = typeof to === 'string' ? to : JSON.stringify(to)
    const counter = this.#others.get(text) ?? this.#counterOf(compileLimit(to, this.options))
    // The one that was asked for longest ago goes first.
    this.#others.delete(text)
    this.#others.set(text, counter)
    const [oldest] = this.#others.keys()
    if (this.#others.size > MOST_OTHERS && oldest !== undefined) this.#others.delete(oldest)
    return counter
  }

  #tier(tier: string | undefined): Counter {
    const counter = this.#tiers.get(tier as string)
    if (counter !== undefined) return counter
    const tiers = [...this.#tiers.keys()]
    const hint = typeof tier === 'string' ? suggest(tier, tiers) : ''
    throw new HeadgateError(
      'HG_TIER_UNKNOWN',
      `limit "${this.name}" has no tier ${show(tier)}${hint || `; it has ${tiers.join(', ')}`}`,
      tier,
    )
  }

  #overrideOf(key: string, ticks: Ticks): Counter | undefined {
    return this.overridden ? this.#overrides.get(key, ticks.nowUs())?.counter : undefined
  }

  tierOf(counter: Counter): string | undefined {
    for (const [tier, each] of this.#tiers) if (each === counter) return tier
    return undefined
  }

  /** As `counterFor`, of a request that was seen before. */
  counterOf(key: string, tier: string | undefined, ticks: Ticks): Counter | undefined {
    return (
      this.#overrideOf(key, ticks) ?? this.counter ?? (tier === undefined ? this.anyCounter : this.#tiers.get(tier))
    )
  }

  override(key: string, to: unknown, ms: number, nowUs: number): void {
    if (ms === 0) {
      this.#overrides.delete(key)
      return
    }
    const counter = this.#counterOf(
      this.options.atOnce === undefined ? compileLimit(to, this.options) : this.#slotsOf(to),
    )
    const isNew = this.#overrides.get(key, nowUs) === undefined
    if (isNew && this.#overrides.size >= MOST_OVERRIDES) {
      this.#overrides.forgetEnded(nowUs)
      if (this.#overrides.size >= MOST_OVERRIDES) throw tooManyOverrides(this.name, key)
    }
    this.#overrides.set(key, { counter, untilUs: nowUs + Math.round(ms * 1000) }, nowUs)
  }

  /** Slots in flight are not units over time: neither can stand in for the other. */
  #slotsOf(to: unknown): Policy {
    if (typeof to === 'object' && to !== null && 'atOnce' in to) {
      rejectUnknown(to, ['atOnce', 'holdMs'], 'an override')
      const { atOnce, holdMs = this.options.holdMs } = to as SlotLimit
      return compileAtOnce(atOnce, holdMs)
    }
    throw new HeadgateError(
      'HG_OPTION_CONFLICT',
      `limit "${this.name}" is one of slots in flight and gets ${show(to)} for a key: give { atOnce: 20 }`,
      to,
    )
  }

  /** Any counter of the space serves to name a key in it. */
  get anyCounter(): Counter {
    return this.counter ?? ([...this.#tiers.values()][0] as Counter)
  }

  get longestMs(): number {
    const counters = this.counter === undefined ? [...this.#tiers.values()] : [this.counter]
    return Math.max(...counters.map(({ policy }) => Math.ceil(policy.windowUs(0) / 1000)))
  }
}

/**
 * Whether an object is limits by tier, and not one limit. A tier may have any name, also `limit` or `per`, but its limit is no
 * number, as the count of an object is. Without `tier` there should be no tiers: then names tell what was meant, and which
 * complaint helps.
 */
function isTiers(limit: unknown, tier: unknown): limit is Readonly<Record<string, Limit>> {
  if (typeof limit !== 'object' || limit === null || Array.isArray(limit)) return false
  const { limit: count, per } = limit as Partial<LimitObject>
  if (tier !== undefined) return typeof count !== 'number' || per === undefined
  const hasNumbers = Object.values(limit).some((value) => typeof value === 'number')
  return !hasNumbers && Object.keys(limit).some((name) => !objectKeys.includes(name))
}

function checkLimitOptions(options: LimitOptions<unknown>, name: string): void {
  const where = `limit "${name}"`
  const { limit, atOnce, tier, mode, onStoreError, priority } = options
  if (limit === undefined && atOnce === undefined) {
    throw new HeadgateError(
      'HG_LIMIT_MISSING',
      `${where} has neither "limit" nor "atOnce": give one, such as limit: '100/min'`,
    )
  }
  if (limit !== undefined && atOnce !== undefined)
    throw new HeadgateError('HG_OPTION_CONFLICT', `${where} has both "limit" and "atOnce": make them two limits`)
  if (typeof limit === 'object' && limit !== null && Object.keys(limit).length === 0) {
    throw new HeadgateError(
      'HG_LIMIT_MISSING',
      `"limit" of ${where} is empty: give a limit such as '100/min', or tiers such as { free: '60/min' }`,
      limit,
    )
  }
  if (atOnce === undefined && options.holdMs !== undefined)
    throw new HeadgateError('HG_OPTION_CONFLICT', `${where} has "holdMs", which belongs to "atOnce"`)
  for (const each of ['algorithm', 'align', 'zone', 'countWhen'] as const) {
    if (atOnce !== undefined && options[each] !== undefined)
      throw new HeadgateError('HG_OPTION_CONFLICT', `${where} has "${each}", which belongs to "limit"`)
  }
  if (isTiers(limit, tier) !== (tier !== undefined)) {
    const fix = tier === undefined ? 'limits by tier but no "tier" to choose by' : '"tier" but only one limit'
    throw new HeadgateError('HG_OPTION_CONFLICT', `${where} has ${fix}: give both or neither`)
  }
  checkBytes(options, where)
  for (const each of ['by', 'when', 'cost', 'tier', 'countWhen'] as const)
    checkType(options[each], 'function', `"${each}" of ${where}`)
  checkType(options.overload, 'boolean', `"overload" of ${where}`)
  checkChoice(mode, ['enforce', 'observe', 'off'], `"mode" of ${where}`)
  const { enforcePercent } = options
  if (enforcePercent !== undefined && !(enforcePercent >= 0 && enforcePercent <= 100)) {
    throw new HeadgateError(
      'HG_OPTION_INVALID',
      `"enforcePercent" of ${where} is ${show(enforcePercent)}: give a number from 0 to 100`,
      enforcePercent,
    )
  }
  checkChoice(onStoreError, ['allow', 'deny', 'local'], `"onStoreError" of ${where}`)
  checkChoice(priority, priorities, `"priority" of ${where}`)
  checkChoice(options.hold, holds, `"hold" of ${where}`)
  const { hold = 'central' } = options
  if (atOnce !== undefined && hold !== 'central' && hold !== 'share')
    throw new HeadgateError(
      'HG_OPTION_CONFLICT',
      `${where} counts slots and says hold: '${hold}', by which only units are held: leave "hold" out`,
      hold,
    )
}

/** Bytes are counted while they pass, which only those see who stand where they do. */
function checkBytes({ cost, atOnce, countWhen }: LimitOptions<unknown>, where: string): void {
  const bytes = (cost as Partial<BytesCost<unknown>> | undefined)?.bytes
  const other = atOnce !== undefined ? 'atOnce' : countWhen !== undefined ? 'countWhen' : undefined
  if (bytes !== undefined && other !== undefined)
    throw new HeadgateError(
      'HG_OPTION_CONFLICT',
      `${where} costs ${bytes} and has "${other}", which counts requests: make them two limits`,
    )
  if (bytesOf(cost) !== undefined)
    throw new HeadgateError(
      'HG_OPTION_CONFLICT',
      `${where} costs "${cost}", and a gate by itself sees no bodies: give that to a middleware or to the rules, here a function`,
      cost,
    )
}

/** Somebody's exception must not end because somebody else gets one. */
function tooManyOverrides(name: string, key: string): HeadgateError {
  return new HeadgateError(
    'HG_OVERRIDES_FULL',
    `limit "${name}" has ${MOST_OVERRIDES} overrides, so ${show(key)} gets none: lift some, or use tiers`,
    key,
  )
}

export function checkType(value: unknown, type: string, what: string): void {
  if (value === undefined || typeof value === type) return
  throw new HeadgateError('HG_OPTION_INVALID', `${what} is ${show(value)}: give a ${type}`, value)
}

export function checkMs(ms: unknown, what: string): number {
  if (typeof ms === 'number' && ms >= 0 && ms * 1000 <= LONGEST_US) return ms
  throw new HeadgateError('HG_OPTION_INVALID', `${what} is ${show(ms)}: give milliseconds from 0 to 95 years`, ms)
}

export function namedLimits(limits: unknown, prefix: string): NamedLimit[] {
  if (typeof limits !== 'object' || limits === null || Object.keys(limits).length === 0) {
    throw new HeadgateError(
      'HG_LIMIT_MISSING',
      `"limits" is ${show(limits)}: give at least one, such as { ip: { limit: '10/s', by: … } }`,
      limits,
    )
  }
  return Object.entries(limits as Record<string, LimitOptions<unknown>>).map(([name, options]) => {
    if (typeof options !== 'object' || options === null) {
      throw new HeadgateError(
        'HG_LIMIT_MISSING',
        `limit "${name}" is ${show(options)}: give options such as { limit: '10/s' }`,
        options,
      )
    }
    rejectUnknown(options, limitKeys, `limit "${name}"`)
    return new NamedLimit(name, options, prefix, false)
  })
}
