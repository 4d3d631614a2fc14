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
import { type Holding, headerWriter, holdBack, MOST_HELD, type Presence } from 'headgate/http'
import { pathGlob } from '../config/glob.ts'
import { tiersOf } from '../config/limit-check.ts'
import type { LimitRules } from '../config/limit-schema.ts'
import type { Rules } from '../config/schema.ts'
import { Caller, Identity, type Incoming, sourceOf } from './caller.ts'
import { type Condition, conditionsOf } from './match.ts'

export type Decided = Decision<unknown>

/** What may be changed while the service runs, and outlives new rules. */
export interface Tuning {
  /** In place of what the rules say of a limit. */
  readonly modes: ReadonlyMap<string, LimitMode>
  readonly overrides: Iterable<Override>
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

/** What else is told of rules at work. */
export interface Hooks {
  /** How long a take took, told when it is decided. */
  onTimed?(ms: number): void
  onStoreChange?(health: StoreHealth): void
}

/** Rules made ready to decide by. One is replaced as a whole; counts are in the store and stay. */
export class RuleSet {
  readonly rules: Rules
  readonly generation: number
  readonly gate: Gate<Caller, string, Store>
  readonly identity: Identity
  /** Writes the header fields that callers are told their limits by. */
  readonly headers: ReturnType<typeof headerWriter>
  readonly #limits: readonly CompiledLimit[]
  readonly #asksTier: boolean
  readonly #onTimed: Hooks['onTimed']
  /** By limits that hold back. */
  readonly #delaysMs: ReadonlyMap<string, number>
  readonly #longestDelayMs: number
  #held = 0

  constructor(
    rules: Rules,
    generation: number,
    store: Store,
    tuning: Tuning,
    onDecision: (decision: Decided) => void,
    { onTimed, onStoreChange }: Hooks = {},
  ) {
    this.rules = rules
    this.generation = generation
    this.headers = headerWriter(rules.headers)
    this.identity = new Identity(rules.identify, rules.caseSensitive)
    this.#limits = Object.entries(rules.limits).map(([name, each]) => compile(name, each, rules, tuning))
    this.#asksTier =
      this.identity.tier.ask !== undefined &&
      this.#limits.some(({ rules: { limit, when } }) => tiersOf(limit) !== undefined || when.tier !== undefined)
    this.#onTimed = onTimed
    this.#delaysMs = new Map(
      Object.entries(rules.limits).flatMap(([name, { delayMs }]) => (delayMs ? [[name, delayMs]] : [])),
    )
    this.#longestDelayMs = Math.max(0, ...this.#delaysMs.values())
    this.gate = gateOf(this.#limits, rules, store, onDecision, onStoreChange)
    for (const { limit, key, to, untilMs } of tuning.overrides)
      if (Object.hasOwn(rules.limits, limit))
        this.gate.override(limit, key as Key, to, Math.max(0, untilMs - Date.now()))
  }

  get limitNames(): readonly string[] {
    return this.#limits.map(({ name }) => name)
  }

  /** Whether how much a limit lets depends on the tier of who asks. */
  hasTiers(name: string): boolean {
    return this.#limits.some((each) => each.name === name && tiersOf(each.rules.limit) !== undefined)
  }

  callerOf(incoming: Incoming): Caller {
    return new Caller(incoming, this.identity)
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
    return this.#withTier(caller, () => this.gate.take(caller, options))
  }

  /** As `take`, but a request that only limits with a `delayMs` refuse is held back, until it may go or its caller leaves. */
  hold(caller: Caller, presence: Presence): Decided | Promise<Decided> {
    if (this.#longestDelayMs === 0 || this.#held >= MOST_HELD) return this.take(caller)
    const options = { maxMs: this.#longestDelayMs, boundOf: (limit: string) => this.#delaysMs.get(limit) ?? 0 }
    const startMs = performance.now()
    const decision = this.#withTier(caller, () => holdBack(this.gate as unknown as Holding, caller, presence, options))
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
    return this.#withTier(caller, () => this.gate.peek(caller, options))
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

function optionsOf({ rules, mode, conditions, keyOf }: CompiledLimit): LimitOptions<Caller> {
  const { limit, atOnce, holdMs, algorithm, align, zone, by, cost, onStoreError, priority, countWhen } = rules
  const tiers = tiersOf(limit) !== undefined
  const options = {
    limit,
    atOnce,
    holdMs,
    algorithm,
    align,
    zone,
    onStoreError,
    priority,
    ...mode,
    by: by.length === 0 ? undefined : keyOf,
    when: conditions.length === 0 ? undefined : (caller: Caller) => conditions.every((each) => each.holds(caller)),
    cost: cost === undefined ? undefined : () => cost,
    tier: tiers ? (caller: Caller) => caller.tier as string : undefined,
    countWhen: countWhen && (({ status }: { status: number }) => countWhen.status.includes(status)),
  }
  // An option that is there and undefined is absent, but not to the types.
  return options as unknown as LimitOptions<Caller>
}

type Part = (caller: Caller) => string | undefined

function keyBy(words: readonly string[], route: Part): (caller: Caller) => Key | undefined {
  const parts = words.map((word) => (word === 'route' ? route : partOf(word)))
  const [only] = parts
  if (parts.length === 1 && only !== undefined) return only
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
