import { isDeepStrictEqual } from 'node:util'
import type { Decision, Key, Store, StoreHealth } from 'headgate'
import type { BreakerState, OverloadTuning, Priority, ShedReason } from 'headgate/overload'
import { tuningSchema } from './config/overload-schema.ts'
import type { Rules } from './config/schema.ts'
import { Kept } from './kept.ts'
import { Protection } from './overload/protection.ts'
import { fitting, givingWay, heldWith, merged, settingsOf } from './overload/tuning.ts'
import { type Decided, type LimitMode, type Override, RuleSet } from './rules/rule-set.ts'
import type { TierSource } from './rules/tiers.ts'

/** An exception for one key, until it ends. */
export interface KeptOverride extends Override {
  readonly id: string
  readonly reason: string
  readonly by: string
}

export interface KeptBlock {
  readonly id: string
  readonly limit: string
  /** Absent: the limit is one counter for everybody. */
  readonly key?: Key
  readonly untilMs: number
  readonly reason: string
  readonly by: string
}

/** What happened, for those who watch: the log, metrics, the admin's stream. */
export type ServiceEvent =
  | {
      readonly type: 'rules'
      readonly generation: number
      readonly origin: string
      readonly changed: readonly string[]
    }
  | { readonly type: 'rules-refused'; readonly origin: string; readonly reason: string }
  | { readonly type: 'mode'; readonly limit: string; readonly mode: LimitMode }
  /** Overload protection was tuned; all that is said of it in place of the rules. */
  | { readonly type: 'overload'; readonly tuning: OverloadTuning }
  | { readonly type: 'override'; readonly override: KeptOverride; readonly lifted: boolean }
  | { readonly type: 'block'; readonly block: KeptBlock; readonly lifted: boolean }
  | { readonly type: 'reset'; readonly limit: string; readonly key?: Key }
  | { readonly type: 'store'; readonly state: string; readonly error: string | undefined }
  /** The breaker of a server behind the gateway. */
  | {
      readonly type: 'breaker'
      readonly upstream: string
      readonly url: string
      readonly state: BreakerState
      /** Of which worker, told by the primary. */
      readonly worker?: number
    }

export interface Watcher {
  onDecision?(decision: Decided): void
  /** How long a decision took, from the question to the answer. */
  onTimed?(ms: number): void
  /** A request was refused for lack of capacity; `observed`: it would have been. */
  onShed?(priority: Priority, reason: ShedReason, observed: boolean): void
  /** A response told a cost that is no number. */
  onCostIgnored?(limit: string): void
  /** An override does not fit what its limit is by now, and holds again once it does. */
  onOverrideSkipped?(override: KeptOverride, reason: string): void
  onEvent?(event: ServiceEvent): void
}

/**
 * The rules that hold now, what was changed about them while they did, and the store that counts. Everything that decides
 * (gateway, decision API, forward-auth) asks `rules` anew for each request; everything that changes goes through here.
 */
export class Service {
  readonly store: Store
  readonly #watchers = new Set<Watcher>()
  /** Those of them that want to hear of every request: asked for each, so not looked for. */
  #deciding: readonly Watcher[] = []
  #timing: readonly Watcher[] = []
  readonly #modes = new Map<string, LimitMode>()
  readonly #overrides = new Kept<KeptOverride>()
  readonly #blocks = new Kept<KeptBlock>()
  #storeState: StoreHealth['state'] = 'up'
  #tuning: OverloadTuning = {}
  #protection: Protection | undefined
  /** Whether somebody has requests to protect. */
  #protects = false
  #rules: RuleSet

  constructor(rules: Rules, store: Store, generation = 1) {
    this.store = store
    this.#rules = this.#compile(rules, generation)
  }

  get rules(): RuleSet {
    return this.#rules
  }

  /** Made when somebody has requests to protect; undefined: the rules say nothing of overload. */
  get protection(): Protection | undefined {
    this.#protects = true
    const { rules } = this.#rules
    if (rules.overload !== undefined && this.#protection === undefined) this.#protect(rules)
    return this.#protection
  }

  /** As `protection`, but nothing is made of it: for those who only tell. */
  get protectionAtWork(): Protection | undefined {
    return this.#protection
  }

  watch(watcher: Watcher): () => void {
    this.#watchers.add(watcher)
    this.#sort()
    return () => {
      this.#watchers.delete(watcher)
      this.#sort()
    }
  }

  #sort(): void {
    this.#deciding = [...this.#watchers].filter(({ onDecision }) => onDecision !== undefined)
    this.#timing = [...this.#watchers].filter(({ onTimed }) => onTimed !== undefined)
  }

  tell(event: ServiceEvent): void {
    for (const watcher of this.#watchers) watcher.onEvent?.(event)
  }

  #compile(rules: Rules, generation: number, before?: RuleSet): RuleSet {
    const tuning = { modes: this.#modes, overloadMode: this.#tuning.mode, tiers: this.#tiersFor(rules, before) }
    const set = new RuleSet(rules, generation, this.store, tuning, (decision) => this.#decided(decision), {
      onTimed: (ms) => {
        for (const watcher of this.#timing) watcher.onTimed?.(ms)
      },
      onStoreChange: (health) => this.#storeChanged(health),
      onFleet: (priority, observed) => this.shed(priority, 'fleet', observed),
      onCostIgnored: (limit) => {
        for (const watcher of this.#watchers) watcher.onCostIgnored?.(limit)
      },
    })
    for (const override of this.overrides) this.#fit(override, set)
    return set
  }

  /** Tiers that were asked for stay known as long as the rules ask the same. */
  #tiersFor({ identify }: Rules, before: RuleSet | undefined): TierSource | undefined {
    const asksTheSame = before !== undefined && isDeepStrictEqual(identify.tier, before.rules.identify.tier)
    return asksTheSame ? before.identity.tier : undefined
  }

  /** What was said of a limit must not keep others from changing that. */
  #fit(override: KeptOverride, set: RuleSet): void {
    try {
      set.override(override)
    } catch (error) {
      for (const watcher of this.#watchers) watcher.onOverrideSkipped?.(override, String(error))
    }
  }

  /** A request was refused for lack of capacity, or would have been. */
  shed(priority: Priority, reason: ShedReason, observed: boolean): void {
    for (const watcher of this.#watchers) watcher.onShed?.(priority, reason, observed)
  }

  #decided(decision: Decided): void {
    for (const watcher of this.#deciding) watcher.onDecision?.(decision)
  }

  /** Rules that were replaced may still be told of the store: what they say is no news. */
  #storeChanged({ state, error }: StoreHealth): void {
    if (state === this.#storeState) return
    this.#storeState = state
    this.tell({ type: 'store', state, error: error instanceof Error ? error.message : undefined })
  }

  /** All at once: a request is decided by the old rules or by the new; if this throws, by the old. Counts stay, and a changed limit
   *  grants nothing. */
  replace(rules: Rules, origin: string, generation = this.#rules.generation + 1): void {
    const before = this.#rules.limits
    const next = this.#compile(rules, generation, this.#rules)
    this.#protect(rules)
    this.#rules = next
    const after = this.#rules.limits
    const names = new Set([...Object.keys(before), ...Object.keys(after)])
    const changed = [...names].filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
    this.tell({ type: 'rules', generation, origin, changed })
  }

  #protect(rules: Rules): void {
    const { overload } = rules
    const tuning = heldWith(rules, this.#tuning)
    if (overload === undefined || !this.#protects) {
      this.#protection?.close()
      this.#protection = undefined
    } else if (this.#protection !== undefined) this.#protection.update(overload, tuning)
    else
      this.#protection = new Protection(overload, tuning, ({ priority, reason, observed }) =>
        this.shed(priority, reason, observed),
      )
  }

  /** In place of what the rules say of overload protection, on top of what was said before, until somebody says otherwise. What
   *  of that had to give way to the rules is forgotten. */
  tuneOverload(tuning: OverloadTuning): void {
    const { overload } = this.#rules.rules
    this.setTuning(merged(overload === undefined ? this.#tuning : fitting(overload, this.#tuning), tuning))
  }

  /** All that is said of it. Throws if nobody could have meant that. */
  setTuning(tuning: OverloadTuning): void {
    tuningSchema.parse(tuning)
    this.#protection?.tune(heldWith(this.#rules.rules, tuning))
    this.#tuning = tuning
    this.#rules = this.#compile(this.#rules.rules, this.#rules.generation, this.#rules)
    this.tell({ type: 'overload', tuning })
  }

  /** Why numbers that were tuned do not hold with these rules. */
  get tuningGivesWay(): readonly string[] {
    const { overload } = this.#rules.rules
    return overload === undefined ? [] : givingWay(overload, this.#tuning)
  }

  /** What was said of overload protection in place of the rules, and what holds then. */
  get overloadSettings(): { readonly tuning: OverloadTuning; readonly settings: OverloadTuning } {
    const { rules } = this.#rules
    const { overload } = rules
    const settings = overload === undefined ? {} : settingsOf(overload, heldWith(rules, this.#tuning))
    return { tuning: this.#tuning, settings }
  }

  /** In place of what the rules say of a limit, until the service ends or somebody says otherwise. */
  setMode(limit: string, mode: LimitMode): void {
    this.#modes.set(limit, mode)
    this.#rules = this.#compile(this.#rules.rules, this.#rules.generation, this.#rules)
    this.tell({ type: 'mode', limit, mode })
  }

  modeOf(limit: string): LimitMode | undefined {
    const rules = this.#rules.limits[limit]
    return this.#modes.get(limit) ?? (rules && { mode: rules.mode, enforcePercent: rules.enforcePercent })
  }

  /** What was said of limits in place of the rules. */
  get modes(): ReadonlyMap<string, LimitMode> {
    return this.#modes
  }

  get overrides(): readonly KeptOverride[] {
    return this.#overrides.all
  }

  get blocks(): readonly KeptBlock[] {
    return this.#blocks.all
  }

  /** A later one for the same key takes the place of an earlier one. Throws if it does not fit the limit. */
  override(override: KeptOverride): void {
    this.#rules.override(override)
    this.#keepOverride(override)
  }

  /** One that was found good elsewhere: here its limit may not be there yet, or be another. */
  knowOverride(override: KeptOverride): void {
    this.#fit(override, this.#rules)
    this.#keepOverride(override)
  }

  #keepOverride(override: KeptOverride): void {
    this.#overrides.set(override)
    this.tell({ type: 'override', override, lifted: false })
  }

  liftOverride(id: string): boolean {
    const override = this.#overrides.get(id)
    if (override === undefined) return false
    this.#overrides.delete(id)
    this.#fit({ ...override, untilMs: 0 }, this.#rules)
    this.tell({ type: 'override', override, lifted: true })
    return true
  }

  async block(block: KeptBlock): Promise<void> {
    await this.#rules.gateOf(block.limit).block(block.limit, block.key as Key, Math.max(0, block.untilMs - Date.now()))
    this.#blocks.set(block)
    this.tell({ type: 'block', block, lifted: false })
  }

  async liftBlock(id: string): Promise<boolean> {
    const block = this.#blocks.get(id)
    if (block === undefined) return false
    if (this.#rules.has(block.limit)) await this.#rules.gateOf(block.limit).block(block.limit, block.key as Key, 0)
    this.#blocks.delete(id)
    this.tell({ type: 'block', block, lifted: true })
    return true
  }

  /** A block that another instance put into the store that all share. */
  knowBlock(block: KeptBlock): void {
    this.#blocks.set(block)
    this.tell({ type: 'block', block, lifted: false })
  }

  forgetBlock(id: string): void {
    const block = this.#blocks.get(id)
    this.#blocks.delete(id)
    if (block !== undefined) this.tell({ type: 'block', block, lifted: true })
  }

  /** Forgets the counts of a key, and its block. */
  async reset(limit: string, key?: Key): Promise<void> {
    await this.#rules.gateOf(limit).reset(limit, key)
    const block = this.#blocks.of(limit, key)
    if (block !== undefined) this.forgetBlock(block.id)
    this.tell({ type: 'reset', limit, ...(key !== undefined && { key }) })
  }

  /** What is left of a key, without spending. */
  async inspect(limit: string, key: Key | undefined, tier?: string): Promise<Decision<unknown>> {
    return this.#rules.gateOf(limit).peekKey(limit, key, tier === undefined ? {} : { tier })
  }

  /** What was said of a key while the rules hold. */
  exceptionsOf(limit: string, key: Key | undefined): { override?: KeptOverride; block?: KeptBlock } {
    const [override, block] = [this.#overrides.of(limit, key), this.#blocks.of(limit, key)]
    return { ...(override && { override }), ...(block && { block }) }
  }
}
