import { createGate, type Gate, type LimitOptions, type Store, type StoreHealth } from 'headgate'
import type { KeyPart } from 'headgate/http'
import { type LimitRules, limitSchema } from '../config/limit-schema.ts'
import type { Rules } from '../config/schema.ts'
import { descriptorsOf, type EnvoyDescriptor, type EnvoyRateLimit } from '../envoy/config.ts'
import type { Unit } from '../envoy/schema.ts'
import type { Decided, LimitMode, Tuning } from '../rules/rule-set.ts'
import { unitNumbers } from './messages.ts'
import { namesOf } from './names.ts'
import { type Found, isCounted, limitsIn, type Match, Tree } from './tree.ts'

/** A limit of a configuration, at work. */
export interface RlsLimit {
  /** Of the limit in the gate; undefined: unlimited. */
  readonly name: string | undefined
  /** As callers know it. */
  readonly label: string
  readonly replaces: readonly string[]
  readonly isQuota: boolean
  readonly mode: LimitMode['mode']
  /** What an admin has said in place of the configuration. */
  readonly tuned: LimitMode['mode'] | undefined
  readonly requests: number
  readonly unit: Unit
}

/** What is used of a gate beyond what users see. */
export interface KeyGate extends Gate<never, string, Store> {
  takeKeys(parts: readonly KeyPart[], withinMs?: number): Decided | Promise<Decided>
  changeKeys(parts: readonly Omit<KeyPart, 'verb' | 'observe' | 'slack'>[]): void | Promise<void>
}

export interface RlsHooks {
  onDecision(decision: Decided): void
  onTimed?(ms: number): void
  onStoreChange?(health: StoreHealth): void
}

/** Callers of this service wait for 20 ms unless they say otherwise. */
const USUAL_MS = 12
/** Under these names no limit of a configuration can be. */
export const LOOKED = 'looked'
const BROUGHT = 'brought-along'
/** For how long it is known that somebody looked at a key: no stream that is charged at its end is longer. */
export const LOOK_MS = 3_600_000

/** The limits that configurations of envoyproxy/ratelimit define, in a gate of their own: those of the rules are held against every
 *  request, and these are asked for by name. */
export class RlsLimits {
  readonly gate: KeyGate
  readonly timeoutMs: number
  readonly onTimed: RlsHooks['onTimed']
  readonly onDecision: RlsHooks['onDecision']
  readonly onStoreError: Rules['onStoreError']
  /** Of the limits that callers bring along. */
  readonly broughtMode: LimitMode['mode']
  readonly headers: NonNullable<Rules['envoy']>['headers']
  /** As the admin port tells of them. */
  readonly limits: ReadonlyMap<string, LimitRules>
  readonly #trees = new Map<string, Tree<RlsLimit>>()

  constructor(rules: Rules, envoy: NonNullable<Rules['envoy']>, store: Store, tuning: Tuning, hooks: RlsHooks) {
    const { domains, headers } = envoy
    this.onTimed = hooks.onTimed
    this.onDecision = hooks.onDecision
    this.onStoreError = envoy.onStoreError ?? rules.onStoreError
    this.broughtMode = tuning.modes.get(BROUGHT)?.mode ?? 'enforce'
    this.timeoutMs = rules.timeoutMs
    this.headers = headers
    const limits = new Map<string, LimitRules>()
    const byPlace = new Map<string, RlsLimit>()
    for (const { name, domain, descriptor, steps } of envoyLimits(rules)) {
      const limit = limitOf(descriptor, name, rules, tuning)
      byPlace.set(placeOf(domain, descriptor), limit)
      if (limit.name !== undefined) limits.set(limit.name, rulesOf(limit, descriptor, steps))
    }
    for (const { domain, descriptors } of domains)
      this.#trees.set(domain, new Tree(descriptorsOf(descriptors), (each) => byPlace.get(placeOf(domain, each))))
    limits.set(BROUGHT, broughtRules)
    this.limits = limits
    this.gate = gateOf(limits, rules, this.onStoreError, store, tuning, hooks)
  }

  has(domain: string): boolean {
    return this.#trees.has(domain)
  }

  find(domain: string, entries: Parameters<Tree<RlsLimit>['find']>[0]): Match<RlsLimit> | undefined {
    return this.#trees.get(domain)?.find(entries)
  }

  /** Counts what callers bring limits along for, and no configuration has one. */
  get broughtAlong(): string {
    return BROUGHT
  }

  /** What the store may take where callers do not say how long they wait. */
  get usualMs(): number {
    return Math.min(this.timeoutMs, USUAL_MS)
  }
}

interface Named extends Found {
  readonly name: string
  readonly domain: string
}

/** All limits that configurations define, with their names. */
export function envoyLimits({ envoy, limits }: Rules): Named[] {
  const found = (envoy?.domains ?? []).flatMap(({ domain, descriptors }) =>
    limitsIn(descriptorsOf(descriptors)).map((each) => ({ ...each, domain })),
  )
  const unnamed = found.map(({ domain, descriptor, steps }) => ({
    text: textFor(domain, descriptor, steps),
    place: JSON.stringify([domain, steps.map(({ key, value }) => [key, value])]),
    isChosen: descriptor.rateLimit?.name !== undefined,
  }))
  const names = namesOf(unnamed, new Set([...Object.keys(limits), LOOKED, BROUGHT]))
  return found.map((each, i) => ({ ...each, name: names[i] as string }))
}

function placeOf(domain: string, { path }: EnvoyDescriptor): string {
  return JSON.stringify([domain, path])
}

/** `-` is before a key, `--` before a value, and neither inside of them: so there is one place for each text. */
function textFor(domain: string, { rateLimit }: EnvoyDescriptor, steps: readonly EnvoyDescriptor[]): string {
  if (rateLimit?.name !== undefined) return `${domain}-${rateLimit.name}`
  const told = (word: string) => word.replaceAll('-', '.')
  const way = steps.map(({ key, value }) => (value === undefined ? told(key) : `${told(key)}--${told(value)}`))
  return [told(domain), ...way].join('-')
}

function limitOf(
  { rateLimit, shadowMode, quotaMode }: EnvoyDescriptor,
  name: string,
  { mode: all }: Rules,
  { modes }: Tuning,
): RlsLimit {
  const { rate, name: label = '', replaces } = rateLimit as EnvoyRateLimit
  const tuned = modes.get(name)?.mode
  const said = tuned ?? (shadowMode ? 'observe' : 'enforce')
  return {
    name: rate === undefined ? undefined : name,
    label,
    replaces,
    isQuota: quotaMode,
    mode: all === 'observe' && said === 'enforce' ? 'observe' : said,
    tuned,
    requests: rate?.requests ?? 0,
    unit: rate?.unit ?? 'second',
  }
}

function rulesOf(
  { requests, unit }: RlsLimit,
  { shadowMode }: EnvoyDescriptor,
  steps: readonly EnvoyDescriptor[],
): LimitRules {
  const mode = shadowMode ? ('observe' as const) : ('enforce' as const)
  return { ...TEMPLATE, limit: textOf(requests, unit), mode, by: steps.filter(isCounted).map(({ key }) => key) }
}

/** What rules would say of a limit that says nothing else. */
const TEMPLATE = limitSchema.parse({ limit: '0/s', algorithm: 'fixed-window' })

/** Callers say how much; they are told apart by domain, unit and descriptor. */
const broughtRules: LimitRules = {
  ...limitSchema.parse({ limit: 'unlimited' }),
  by: ['domain', 'unit', 'descriptor'],
}

/** Windows start at multiples of their length since 1970; a month is 30 days, a year 365. */
export function textOf(requests: number, unit: Unit): string {
  return `${requests}/${unit}`
}

export function unitOf(number: number): Unit {
  const [unit] = Object.entries(unitNumbers).find(([, each]) => each === number) ?? ['second']
  return unit as Unit
}

function gateOf(
  limits: ReadonlyMap<string, LimitRules>,
  { timeoutMs, nodes, mode }: Rules,
  onStoreError: Rules['onStoreError'],
  store: Store,
  { modes }: Tuning,
  { onStoreChange }: RlsHooks,
): KeyGate {
  // What was looked at, charged past the limit and given back must be known to all at once.
  const window = { algorithm: 'fixed-window', cost: () => 1, hold: 'central' } as const
  const keyed = { ...window, by: () => undefined }
  const named: Record<string, LimitOptions<never>> = {
    // Counts for at least an hour, and no more than two.
    [LOOKED]: { ...keyed, limit: '1000000/h', algorithm: 'sliding-window' },
  }
  for (const [name, { limit, by, mode: own, enforcePercent }] of limits) {
    const tuned = modes.get(name) ?? { mode: own, enforcePercent }
    const watching = mode === 'observe' && tuned.mode === 'enforce'
    const held = watching ? ({ mode: 'observe', enforcePercent: 100 } as const) : tuned
    named[name] = { ...(by.length === 0 ? window : keyed), limit: limit as string, ...held }
  }
  return createGate<never, typeof named, Store>({
    store,
    // No limit of the rules can have a name that starts like this.
    prefix: `${store.prefix ?? 'hg'}:~envoy`,
    timeoutMs,
    onStoreError,
    nodes,
    ...(onStoreChange && { onStoreChange }),
    limits: named as never,
  }) as unknown as KeyGate
}
