import {
  createGate,
  type Decision,
  type Gate,
  type Key,
  type LimitOptions,
  type Mode,
  type Store,
  type StoreHealth,
} from 'headgate'
import {
  type BytesCost,
  bytesCost,
  bytesOf,
  type HeaderWriter,
  type Holding,
  headerWriter,
  holdBack,
  type Meter,
  MOST_HELD,
  type Presence,
} from 'headgate/http'
import type { Priority } from 'headgate/overload'
import { llmUnitOf, looksInside } from '../config/cost-words.ts'
import { pathGlob } from '../config/glob.ts'
import { tiersOf } from '../config/limit-check.ts'
import { type LimitRules, limitSchema } from '../config/limit-schema.ts'
import { FLEET } from '../config/overload-check.ts'
import type { Rules } from '../config/schema.ts'
import { Bills, type Settled } from '../costs/bills.ts'
import { type BodySource, Prices } from '../costs/prices.ts'
import { type RlsHooks, RlsLimits } from '../rls/limits.ts'
import { Caller, Identity, type Incoming, sourceOf } from './caller.ts'
import { fleetShare } from './fleet-share.ts'
import { type Condition, conditionsOf } from './match.ts'
import { Priorities, type Ranked } from './priorities.ts'
import type { TierSource } from './tiers.ts'

export type Decided = Decision<unknown>

/** What may be changed while the service runs, and outlives new rules. */
export interface Tuning {
  /** In place of what the rules say of a limit. */
  readonly modes: ReadonlyMap<string, LimitMode>
  /** In place of what the rules say of overload protection. */
  readonly overloadMode?: Mode | undefined
  /** What is known of tiers already, in place of what the rules say of them. */
  readonly tiers?: TierSource | undefined
}

export interface LimitMode {
  readonly mode: Mode
  readonly enforcePercent: number
}

export interface Override {
  readonly limit: string
  /** Absent: the limit is one counter for everybody. */
  readonly key?: Key
  readonly to: string | { readonly atOnce: number }
  readonly untilMs: number
}

interface CompiledLimit {
  readonly name: string
  readonly rules: LimitRules
  readonly mode: LimitMode
  readonly conditions: readonly Condition[]
  keyOf(caller: Caller): Key | undefined
  /** Keeps the whole from having too much to do. */
  readonly overload?: true
}

/** A part of `when` that did not hold. */
export interface Unmet {
  readonly part: string
  /** What the request says there; undefined: nothing. */
  readonly value: string | undefined
  /** One of these would have done. */
  readonly is?: readonly string[]
  /** None of these. */
  readonly not: readonly string[]
}

/** Why a limit does or does not concern a request. */
export interface Explained {
  readonly name: string
  readonly matches: boolean
  readonly because: readonly Unmet[]
  readonly mode: LimitMode
  readonly by: readonly string[]
  readonly key: Key | undefined
}

/** What is used of a gate beyond what users see. */
interface Metering {
  meter(caller: Caller, decision: Decided): Meter
}

interface Ending {
  readonly hasSlots: boolean
  readonly countsLater: boolean
}

/** What else is told of rules at work. */
export interface Hooks {
  /** How long a take took, told when it is decided. */
  onTimed?(ms: number): void
  onStoreChange?(health: StoreHealth): void
  /** The share of the fleet refused a request, or would have. */
  onFleet?(priority: Priority, observed: boolean): void
  /** A response told a cost that is no number. */
  onCostIgnored?(limit: string): void
}

/** Rules made ready to decide by. One is replaced as a whole; counts are in the store and stay. */
export class RuleSet {
  readonly rules: Rules
  readonly generation: number
  readonly gate: Gate<Caller, string, Store>
  /** Limits that Envoy asks for; absent: there are none. */
  readonly envoy: RlsLimits | undefined
  readonly identity: Identity
  /** Writes the header fields that callers are told their limits by. */
  readonly headers: HeaderWriter
  /** Absent: no limit is settled by responses. */
  readonly bills: Bills | undefined
  readonly #limits: readonly CompiledLimit[]
  readonly #priorities: Priorities | undefined
  readonly #onFleet: Hooks['onFleet']
  readonly #asksTier: boolean
  /** Whether a limit costs bytes. */
  readonly #meters: boolean
  readonly #onTimed: Hooks['onTimed']
  /** By limits that hold back. */
  readonly #delaysMs: ReadonlyMap<string, number>
  readonly #longestDelayMs: number
  /** Whether a limit waits for responses: to free slots, or to see whether they count. */
  readonly #awaitsEnd: boolean
  /** Absent: no limit looks into requests. */
  readonly #prices: Prices | undefined
  #held = 0

  constructor(
    rules: Rules,
    generation: number,
    store: Store,
    tuning: Tuning,
    onDecision: (decision: Decided) => void,
    { onTimed, onStoreChange, onFleet, onCostIgnored = () => {} }: Hooks = {},
  ) {
    this.rules = rules
    this.generation = generation
    this.headers = headerWriter(rules.headers)
    this.identity = new Identity(rules.identify, rules.caseSensitive, tuning.tiers)
    const own = Object.entries(rules.limits).map(([name, each]) => compile(name, each, rules, tuning))
    this.#priorities = prioritiesOf(rules, own)
    this.#limits = [...own, ...fleetOf(rules, tuning, (caller) => this.priorityOf(caller))]
    this.#onFleet = rules.overload?.fleet === undefined ? undefined : onFleet
    this.#asksTier = this.identity.tier.ask !== undefined && usesTier(rules)
    this.#meters = own.some(({ rules: { cost } }) => bytesOf(cost) !== undefined)
    this.#onTimed = onTimed
    this.#delaysMs = new Map(
      Object.entries(rules.limits).flatMap(([name, { delayMs }]) => (delayMs ? [[name, delayMs]] : [])),
    )
    this.#longestDelayMs = Math.max(0, ...this.#delaysMs.values())
    this.#prices = pricesOf(own, rules)
    this.bills = billsOf(rules, onCostIgnored)
    this.gate = gateOf(this.#limits, rules, store, onDecision, onStoreChange)
    const { hasSlots, countsLater } = this.gate as unknown as Ending
    this.#awaitsEnd = hasSlots || countsLater
    this.envoy = rules.envoy && new RlsLimits(rules, rules.envoy, store, tuning, envoyHooks(onDecision, onTimed))
  }

  get limitNames(): readonly string[] {
    return [...this.#limits.map(({ name }) => name), ...(this.envoy?.limits.keys() ?? [])]
  }

  has(limit: string): boolean {
    return this.#limits.some(({ name }) => name === limit) || this.envoy?.limits.has(limit) === true
  }

  /** As the rules say, with the one that `overload.fleet` becomes, and those that Envoy asks for. */
  get limits(): Readonly<Record<string, LimitRules>> {
    return Object.fromEntries([
      ...this.#limits.map(({ name, rules }) => [name, rules] as const),
      ...(this.envoy?.limits ?? []),
    ])
  }

  /** Where the counts of a limit are looked after. */
  gateOf(limit: string): Pick<Gate<Caller, string, Store>, 'block' | 'reset' | 'override' | 'peekKey'> {
    return this.envoy?.limits.has(limit) ? this.envoy.gate : this.gate
  }

  /** One whose limit is not there waits for rules that have it. Throws if it does not fit the limit. */
  override({ limit, key, to, untilMs }: Override): void {
    if (this.has(limit)) this.gateOf(limit).override(limit, key as Key, to, Math.max(0, untilMs - Date.now()))
  }

  priorityOf(caller: Caller): Priority {
    return this.#priorities?.of(caller).priority ?? 'normal'
  }

  /** In which time a request has to be done to be of use: as a trusted proxy says, or the rules. */
  deadlineMs(caller: Caller): number | undefined {
    const { deadlineHeader, deadlineMs } = this.rules.overload ?? {}
    const said = deadlineHeader === undefined ? undefined : caller.incoming.header(deadlineHeader)
    const isBelieved = said !== undefined && /^\d{1,9}$/.test(said) && caller.identity.trusts(caller.incoming.peer)
    return isBelieved ? Number(said) : deadlineMs
  }

  /** Among whom slots go round: whom the first limit that counts somebody counts, else the client's address. */
  nameOf(caller: Caller): string | undefined {
    const limit = this.#limits.find(({ rules: { by } }) => by.length > 0)
    const key = limit === undefined ? caller.ip : limit.keyOf(caller)
    return Array.isArray(key) ? JSON.stringify(key) : key?.toString()
  }

  /** Undefined: nothing is said of overload, so it does not matter. */
  rank(caller: Caller): Ranked | undefined {
    return this.#priorities?.of(caller)
  }

  /** Whether how much a limit lets depends on the tier of who asks. */
  hasTiers(name: string): boolean {
    return this.#limits.some((each) => each.name === name && tiersOf(each.rules.limit) !== undefined)
  }

  callerOf(incoming: Incoming): Caller {
    return new Caller(incoming, this.identity)
  }

  /** Until it is known what the request costs, where its body says so. Rejects with what is to be answered instead. */
  price(caller: Caller, source: BodySource): Promise<void> | undefined {
    const prices = this.#prices
    if (prices === undefined) return undefined
    const asked = this.ready(caller) // a tier may say which limits concern it
    return asked === undefined ? prices.of(caller, source) : asked.then(() => prices.of(caller, source))
  }

  /** At once where neither the store nor a tier has to be waited for. Throws where a caller does not say who it is. */
  take(caller: Caller, options?: { cost?: number; id?: string }): Decided | Promise<Decided> {
    if (this.#onTimed === undefined) return this.#take(caller, options)
    const startMs = performance.now()
    const decision = this.#take(caller, options)
    if (decision instanceof Promise) return this.#timed(decision, startMs)
    this.#onTimed(performance.now() - startMs)
    return decision
  }

  #take(caller: Caller, options?: { cost?: number; id?: string }): Decided | Promise<Decided> {
    caller.askedCost = options?.cost
    // Nothing is made for what most rules do not ask for.
    if (!this.#asksTier && this.#onFleet === undefined) return this.gate.take(caller, options)
    return this.#told(
      this.#withTier(caller, () => this.gate.take(caller, options)),
      caller,
    )
  }

  /** Who watches hears of it if the share of the fleet was used up. */
  #told(decision: Decided | Promise<Decided>, caller: Caller): Decided | Promise<Decided> {
    if (this.#onFleet === undefined) return decision
    if (decision instanceof Promise) return decision.then((each) => this.#tellFleet(each, caller))
    return this.#tellFleet(decision, caller)
  }

  #tellFleet(decision: Decided, caller: Caller): Decided {
    const fleet = decision.limits.find(({ name }) => name === FLEET)
    if (fleet?.ok === false) this.#onFleet?.(this.priorityOf(caller), !decision.violated.includes(FLEET))
    return decision
  }

  /** As `take`, but a request that only limits with a `delayMs` refuse is held back, until it may go or its caller leaves; not for
   *  longer than the time in which it has to be done. */
  hold(caller: Caller, presence: Presence, withinMs = Infinity): Decided | Promise<Decided> {
    if (this.#longestDelayMs === 0 || this.#held >= MOST_HELD) return this.take(caller)
    const bounded = (ms: number) => Math.max(0, Math.min(ms, withinMs))
    const options = {
      maxMs: bounded(this.#longestDelayMs),
      boundOf: (limit: string) => bounded(this.#delaysMs.get(limit) ?? 0),
    }
    const startMs = performance.now()
    const decision = this.#told(
      this.#withTier(caller, () => holdBack(this.gate as unknown as Holding, caller, presence, options)),
      caller,
    )
    if (!(decision instanceof Promise)) {
      this.#onTimed?.(performance.now() - startMs)
      return decision
    }
    this.#held++
    return decision.finally(() => {
      this.#held--
    })
  }

  async #timed(decision: Promise<Decided>, startMs: number): Promise<Decided> {
    const decided = await decision
    this.#onTimed?.(performance.now() - startMs)
    return decided
  }

  peek(caller: Caller, options?: { cost?: number }): Decided | Promise<Decided> {
    caller.askedCost = options?.cost
    return this.#withTier(caller, () => this.gate.peek(caller, options))
  }

  /** A request is over. @param status undefined: it is not to be counted by how it ended */
  end(decision: Decided, status: number | undefined): void {
    if (!this.#awaitsEnd) return
    // Counted first: whoever gets the slot next, at whichever instance, is to see it.
    if (status !== undefined) void decision.count({ status })
    void decision.release()
  }

  /** What counts the bodies of a request that was let in, if a limit asks for that. */
  meter(caller: Caller, decision: Decided): Meter | undefined {
    if (!this.#meters) return undefined
    const meter = (this.gate as unknown as Metering).meter(caller, decision)
    return meter.in === undefined && meter.out === undefined ? undefined : meter
  }

  /** Until the caller's tier is known, where somebody has to be asked for it: then take and peek need not wait for that. */
  ready(caller: Caller): Promise<void> | undefined {
    if (!this.#asksTier || caller.resolvedTier !== undefined) return undefined
    return this.identity.tier.ask?.(caller)?.then((tier) => {
      caller.resolvedTier = tier
    })
  }

  #withTier(caller: Caller, decide: () => Decided | Promise<Decided>): Decided | Promise<Decided> {
    const asked = this.ready(caller)
    return asked === undefined ? decide() : asked.then(decide)
  }

  async explain(caller: Caller): Promise<Explained[]> {
    caller.resolvedTier = await this.identity.tier.ask?.(caller)
    return this.#limits.map((limit) => {
      const because = limit.conditions.filter((each) => !each.holds(caller)).map((each) => unmet(each, caller))
      const { name, mode, rules } = limit
      const matches = because.length === 0 && mode.mode !== 'off'
      return {
        name,
        matches,
        because,
        mode,
        by: rules.by,
        key: matches && rules.by.length > 0 ? limit.keyOf(caller) : undefined,
      }
    })
  }
}

function envoyHooks(onDecision: (decision: Decided) => void, onTimed: Hooks['onTimed']): RlsHooks {
  return { onDecision, ...(onTimed && { onTimed }) }
}

function unmet({ part, match, read }: Condition, caller: Caller): Unmet {
  return { part, value: read(caller), ...match }
}

function compile(name: string, rules: LimitRules, all: Rules, tuning: Tuning): CompiledLimit {
  const { mode, enforcePercent } = rules
  const tuned = tuning.modes.get(name) ?? { mode, enforcePercent }
  const watching = all.mode === 'observe' && tuned.mode === 'enforce'
  return {
    name,
    rules,
    mode: watching ? { mode: 'observe', enforcePercent: 0 } : tuned,
    conditions: conditionsOf(rules.when, all.caseSensitive),
    keyOf: keyBy(rules.by, routeOf(rules, all.caseSensitive)),
  }
}

/** Who enforces a limit for some keys only is still trying it out: nobody is refused for what cannot be read then. */
function pricesOf(limits: readonly CompiledLimit[], rules: Rules): Prices | undefined {
  const priced = limits.flatMap(({ name, rules: { cost }, mode: { mode, enforcePercent }, conditions }) => {
    if (!looksInside(cost) || mode === 'off') return []
    const isStrict = mode === 'enforce' && enforcePercent === 100
    return [{ name, cost, isStrict, concerns: (caller: Caller) => conditions.every((each) => each.holds(caller)) }]
  })
  return priced.length === 0 ? undefined : new Prices(priced, rules)
}

function billsOf({ limits }: Rules, onIgnored: (limit: string) => void): Bills | undefined {
  const settled = Object.entries(limits).flatMap(([name, { cost, settle }]): Settled[] => {
    const llm = llmUnitOf(cost)
    const header = settle?.slice(settle.indexOf(':') + 1).toLowerCase()
    return llm === undefined && header === undefined ? [] : [{ name, ...(llm && { llm }), ...(header && { header }) }]
  })
  return settled.length === 0 ? undefined : new Bills(settled, onIgnored)
}

function prioritiesOf(rules: Rules, limits: readonly CompiledLimit[]): Priorities | undefined {
  if (rules.overload === undefined) return undefined
  const ranking = limits.flatMap(({ name, rules: { priority }, mode, conditions }) =>
    priority === undefined || mode.mode === 'off' ? [] : [{ name, priority, conditions }],
  )
  return new Priorities(rules.overload, ranking, rules.caseSensitive)
}

/** Everything but critical work has a share of what the fleet can do. Decided as one with the other limits. */
function fleetOf(rules: Rules, tuning: Tuning, priorityOf: (caller: Caller) => Priority): CompiledLimit[] {
  const { overload } = rules
  if (overload?.fleet === undefined) return []
  const { mode, reserve } = overload.fleet
  const { most: _, ...share } = fleetShare(overload.fleet, reserve)
  const limit = compile(FLEET, limitSchema.parse({ ...share, mode }), rules, tuning)
  const all = tuning.overloadMode ?? overload.mode
  const weaker = all === 'off' || (all === 'observe' && limit.mode.mode === 'enforce')
  return [
    {
      ...limit,
      mode: weaker ? { mode: all, enforcePercent: 0 } : limit.mode,
      conditions: [
        {
          part: 'priority',
          match: { not: ['critical'] },
          read: priorityOf,
          holds: (caller) => priorityOf(caller) !== 'critical',
        },
      ],
      overload: true,
    },
  ]
}

function usesTier({ limits, overload }: Rules): boolean {
  return (
    Object.values(limits).some(({ limit, when }) => tiersOf(limit) !== undefined || when.tier !== undefined) ||
    overload?.priorities.some(({ when }) => when.tier !== undefined) === true
  )
}

function gateOf(
  limits: readonly CompiledLimit[],
  rules: Rules,
  store: Store,
  onDecision: (decision: Decided) => void,
  onStoreChange: Hooks['onStoreChange'],
): Gate<Caller, string, Store> {
  const { timeoutMs, onStoreError, nodes } = rules
  const options = Object.fromEntries(limits.map((limit) => [limit.name, optionsOf(limit)]))
  // A gate has at least one limit; one that is off concerns nobody.
  const named = limits.length > 0 ? options : { none: { limit: 'unlimited', mode: 'off' as const } }
  return createGate<Caller, Record<string, LimitOptions<Caller>>, Store>({
    store,
    timeoutMs,
    onStoreError,
    nodes,
    onDecision,
    ...(onStoreChange && { onStoreChange }),
    limits: named as never,
  })
}

function optionsOf({ name, rules, mode, conditions, keyOf, overload }: CompiledLimit): LimitOptions<Caller> {
  const { limit, atOnce, holdMs, algorithm, align, zone, by, cost, onStoreError, hold, priority, countWhen } = rules
  const tiers = tiersOf(limit) !== undefined
  const options = {
    limit,
    atOnce,
    holdMs,
    algorithm,
    align,
    zone,
    onStoreError,
    hold,
    priority,
    overload,
    ...mode,
    by: by.length === 0 ? undefined : keyOf,
    when: conditions.length === 0 ? undefined : (caller: Caller) => conditions.every((each) => each.holds(caller)),
    cost: looksInside(cost) ? (caller: Caller) => caller.costBy(name) : costBy(cost),
    tier: tiers ? (caller: Caller) => caller.tier as string : undefined,
    countWhen: countWhen && (({ status }: { status: number }) => countWhen.status.includes(status)),
  }
  // An option that is there and undefined is absent, but not to the types.
  return options as unknown as LimitOptions<Caller>
}

function costBy(cost: LimitRules['cost']): BytesCost<Caller> | (() => number) | undefined {
  const bytes = bytesOf(cost)
  if (bytes !== undefined) return bytesCost(bytes, (caller) => caller.bodyBytes)
  return typeof cost === 'number' ? () => cost : undefined
}

type Part = (caller: Caller) => string | undefined

function keyBy(words: readonly string[], route: Part): (caller: Caller) => Key | undefined {
  const parts = words.map((word) => (word === 'route' ? route : partOf(word)))
  const [first, second] = parts
  if (first !== undefined && parts.length === 1) return first
  if (first !== undefined && second !== undefined && parts.length === 2)
    return (caller) => [first(caller), second(caller)] as string[]
  // A part that is missing makes the whole key a missing one.
  return (caller) => parts.map((part) => part(caller)) as string[]
}

const parts: Readonly<Record<string, Part>> = {
  ip: (caller) => caller.ip,
  'api-key': (caller) => caller.apiKey,
  user: (caller) => caller.user,
  org: (caller) => caller.org,
  tier: (caller) => caller.tier,
  method: (caller) => caller.method.toUpperCase(),
  path: (caller) => caller.path,
  host: (caller) => caller.host,
}

/** All that one pattern of the limit matches is one route; without patterns each path is its own. */
function routeOf({ when }: LimitRules, caseSensitive: boolean): Part {
  const globs = (when.path?.is ?? []).map((glob) => ({ glob, matches: pathGlob(glob, { caseSensitive }) }))
  return ({ path }) => globs.find(({ matches }) => matches(path))?.glob ?? path
}

function partOf(word: string): Part {
  return Object.hasOwn(parts, word) ? (parts[word] as Part) : sourceOf(word)
}
