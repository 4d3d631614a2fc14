import type { Clock, PromptStore, Store, StoreStats } from 'headgate'
import { type LimitVisitor, visitLimits } from 'headgate/http'
import type { OverloadState, Priority, ShedReason } from 'headgate/overload'
import type { Decided } from '../rules/rule-set.ts'
import type { Service, ServiceEvent, Watcher } from '../service.ts'
import { ALLOWED, DEGRADED, DENIED, DecisionCounts, OBSERVED, OTHER, since, type Tally } from './decision-counts.ts'
import { type Durations, Histogram } from './histogram.ts'
import { HotKeys } from './hot-keys.ts'
import { collectorOf } from './metrics.ts'
import { sumOf } from './overload-state.ts'
import { everySecond } from './pulse.ts'
import { statsOfAll } from './store-stats.ts'
import { PromptTimedStore, TimedStore } from './timed-store.ts'
import type { TopKey } from './top-keys.ts'

export interface TelemetryOptions {
  /** How many limits are told apart in metrics; the rest are `other`. 200 unless said otherwise. */
  readonly mostLimits?: number
  readonly clock?: Clock
}

/** What a process counted since its last report, for the one that tells of all of them. */
export interface Report {
  readonly tallies: Readonly<Record<string, Tally>>
  readonly decisions: Durations
  readonly stores: readonly (readonly [name: string, durations: Durations])[]
  readonly failures: Readonly<Record<string, number>>
  readonly inflight: number
  readonly degraded: boolean
  readonly hot: readonly (readonly [limit: string, keys: readonly TopKey[]])[]
  readonly shed: readonly ShedCount[]
  readonly ignoredCosts: Readonly<Record<string, number>>
  readonly overload?: OverloadState
  readonly breakers: readonly Breaker[]
  /** As they are, not since the last report. */
  readonly store: StoreStats
}

/** One that is not closed. */
export interface Breaker {
  readonly upstream: string
  readonly url: string
}

const MOST_REASONS = 20

type ShedLabels = { readonly priority: string; readonly reason: string }
/** `observed`: of those that would have been refused. */
type ShedCount = readonly [labels: ShedLabels, observed: boolean, count: number]

/** Counts what the service decides. Make it first, so that it can wrap the store; then `attach` it to the service. */
export class Telemetry implements Watcher, LimitVisitor {
  readonly counts: DecisionCounts
  readonly decisionDurations = new Histogram()
  /** By store. */
  readonly storeDurations = new Map<string, Histogram>()
  /** For whoever holds requests: added to when one comes, taken from when it is done. */
  inflight = 0
  /** Set by whoever has upstreams: which breakers are not closed now. */
  breakers: () => readonly Breaker[] = () => []
  readonly #hotKeys = new HotKeys()
  /** Of processes that report to this one. */
  readonly #others = new Map<number, Report>()
  /** What processes have done that are gone. */
  #past: StoreStats = {}
  #store: Store | undefined
  readonly #otherFailures: Record<string, number> = {}
  #reported: Float64Array = new Float64Array()
  #reportedFailures: Readonly<Record<string, number>> = {}
  readonly #shed = new Map<string, { labels: ShedLabels; observed: boolean; count: number; reported: number }>()
  /** Responses whose cost was no number, by limit. */
  readonly ignoredCosts = new Map<string, number>()
  #reportedCosts: ReadonlyMap<string, number> = new Map()
  readonly #collector = collectorOf(this)
  readonly #clock: Clock | undefined
  #service: Service | undefined
  /** Of the decision that is being counted. */
  #degraded = false

  constructor({ mostLimits = 200, clock }: TelemetryOptions = {}) {
    this.counts = new DecisionCounts(mostLimits)
    this.#clock = clock
  }

  /** Watches until the returned function is called. */
  attach(service: Service): () => void {
    this.#service = service
    this.#assign()
    const unwatch = service.watch(this)
    const stop = everySecond(this.#clock, () => this.#hotKeys.tick())
    return () => {
      unwatch()
      stop()
    }
  }

  #assign(): void {
    const before = [...this.counts.names]
    this.counts.assign(this.#service?.rules.limitNames ?? [])
    this.#hotKeys.assign(this.counts.names, before)
    for (const name of this.ignoredCosts.keys()) if (!this.counts.names.includes(name)) this.ignoredCosts.delete(name)
  }

  /** Tells of how it is doing. */
  knowStore(store: Store): void {
    this.#store = store
  }

  /** A store that answers at once stays as it is: it takes less time than to look at the clock. */
  wrapStore(store: Store, name: string): Store {
    if ('takeOne' in store) return store
    this.knowStore(store)
    const durations = this.#durationsOf(name)
    return 'takeNow' in store ? new PromptTimedStore(store as PromptStore, durations) : new TimedStore(store, durations)
  }

  onDecision(decision: Decided): void {
    this.#degraded = decision.degraded !== false
    visitLimits(decision, this)
  }

  onLimit(name: string, key: string | undefined, ok: boolean, observed: boolean): void {
    const slot = this.counts.slotOf(name)
    this.counts.add(slot, ok ? (this.#degraded ? DEGRADED : ALLOWED) : observed ? OBSERVED : DENIED)
    if (key !== undefined) this.#hotKeys.add(slot, key, !ok)
  }

  onTimed(ms: number): void {
    this.decisionDurations.observe(ms)
  }

  onEvent({ type }: ServiceEvent): void {
    if (type === 'rules') this.#assign()
  }

  onShed(priority: Priority, reason: ShedReason, observed: boolean): void {
    this.shed(priority, reason, observed)
  }

  onCostIgnored(limit: string): void {
    this.#addIgnored(limit, 1)
  }

  #addIgnored(limit: string, times: number): void {
    const name = this.counts.names[this.counts.slotOf(limit)] ?? OTHER
    this.ignoredCosts.set(name, (this.ignoredCosts.get(name) ?? 0) + times)
  }

  #drainIgnored(): Record<string, number> {
    const fresh = [...this.ignoredCosts].map(([name, count]) => [name, count - (this.#reportedCosts.get(name) ?? 0)])
    this.#reportedCosts = new Map(this.ignoredCosts)
    return Object.fromEntries(fresh)
  }

  /** A request was refused for lack of capacity; `observed`: it would have been. */
  shed(priority: Priority, reason: string, observed = false): void {
    const known = this.#shed.get(`${priority} ${reason} ${observed}`)
    if (known !== undefined) known.count++
    else {
      const others = this.shedSamples(observed).filter(([labels]) => labels.priority === priority)
      this.#addShed({ priority, reason: others.length < MOST_REASONS ? reason : OTHER }, observed, 1)
    }
  }

  #addShed(labels: ShedLabels, observed: boolean, times: number): void {
    const name = `${labels.priority} ${labels.reason} ${observed}`
    const known = this.#shed.get(name) ?? { labels, observed, count: 0, reported: 0 }
    this.#shed.set(name, known)
    known.count += times
  }

  shedSamples(observed: boolean): [labels: ShedLabels, count: number][] {
    return [...this.#shed.values()]
      .filter((each) => each.observed === observed)
      .map(({ labels, count }) => [labels, count])
  }

  /** Of all processes together; undefined: nothing protects from overload. */
  get overload(): OverloadState | undefined {
    const own = this.#service?.protectionAtWork?.state()
    const others = [...this.#others.values()].flatMap(({ overload }) => (overload === undefined ? [] : [overload]))
    return sumOf(own === undefined ? others : [own, ...others])
  }

  get generation(): number {
    return this.#service?.rules.generation ?? 0
  }

  get degraded(): boolean {
    const own = this.#service?.rules.gate.health().state === 'down'
    return own || [...this.#others.values()].some((other) => other.degraded)
  }

  /** How the ways to hold limits are doing, in all processes together. */
  get storeStats(): StoreStats {
    return statsOfAll([this.#ownStats, this.#past, ...[...this.#others.values()].map(({ store }) => store)])
  }

  get #ownStats(): StoreStats {
    return this.#store?.stats?.() ?? {}
  }

  get inflightOfAll(): number {
    return [...this.#others.values()].reduce((sum, other) => sum + other.inflight, this.inflight)
  }

  /** Of all processes, each breaker as often as it is not closed. */
  get breakersOfAll(): readonly Breaker[] {
    return [...this.breakers(), ...[...this.#others.values()].flatMap(({ breakers }) => breakers)]
  }

  report(): Report {
    const tallies = since(this.counts, this.#reported)
    this.#reported = this.counts.snapshot()
    const now = this.storeFailures
    const failures = Object.entries(now).map(([kind, count]) => [kind, count - (this.#reportedFailures[kind] ?? 0)])
    this.#reportedFailures = { ...now }
    return {
      tallies,
      decisions: this.decisionDurations.drain(),
      stores: [...this.storeDurations].map(([name, durations]) => [name, durations.drain()] as const),
      failures: Object.fromEntries(failures),
      inflight: this.inflight,
      degraded: this.degraded,
      store: this.#ownStats,
      shed: this.#drainShed(),
      breakers: this.breakers(),
      ignoredCosts: this.#drainIgnored(),
      ...(this.#service?.protectionAtWork && { overload: this.#service.protectionAtWork.state() }),
      hot: this.#hotKeys.drain().map((keys, slot) => [this.counts.names[slot] as string, keys] as const),
    }
  }

  #drainShed(): ShedCount[] {
    return [...this.#shed.values()].flatMap((each): ShedCount[] => {
      const count = each.count - each.reported
      each.reported = each.count
      return count === 0 ? [] : [[each.labels, each.observed, count]]
    })
  }

  absorb(pid: number, report: Report): void {
    const { tallies, decisions, stores, failures, hot, shed, ignoredCosts } = report
    this.#others.set(pid, report)
    for (const [labels, observed, count] of shed) this.#addShed(labels, observed, count)
    for (const [limit, count] of Object.entries(ignoredCosts)) this.#addIgnored(limit, count)
    for (const [limit, { allowed, denied, observed, degraded }] of Object.entries(tallies)) {
      const slot = this.counts.slotOf(limit)
      for (const [outcome, times] of [allowed, denied, observed, degraded].entries())
        this.counts.add(slot, outcome, times)
    }
    this.decisionDurations.absorb(decisions)
    for (const [name, durations] of stores) this.#durationsOf(name).absorb(durations)
    for (const [kind, count] of Object.entries(failures))
      this.#otherFailures[kind] = (this.#otherFailures[kind] ?? 0) + count
    for (const [limit, keys] of hot) for (const key of keys) this.#hotKeys.absorb(this.counts.slotOf(limit), key)
  }

  /** A process that reported is gone. */
  forget(pid: number): void {
    const { lease } = this.#others.get(pid)?.store ?? {}
    if (lease !== undefined) this.#past = statsOfAll([this.#past, { lease: { ...lease, heldUnits: 0 } }])
    this.#others.delete(pid)
  }

  #durationsOf(name: string): Histogram {
    const durations = this.storeDurations.get(name) ?? new Histogram()
    this.storeDurations.set(name, durations)
    return durations
  }

  /** By reason. The guard of the store counts them: it also knows of answers that never came. */
  get storeFailures(): Readonly<Record<string, number>> {
    const failures: Record<string, number> = { ...this.#service?.rules.gate.health().failures }
    for (const [kind, count] of Object.entries(this.#otherFailures)) failures[kind] = (failures[kind] ?? 0) + count
    return failures
  }

  top(limit: string, n: number): TopKey[] {
    return this.#hotKeys.top(this.counts.slotOf(limit), n)
  }

  /** For Prometheus. */
  get contentType(): string {
    return this.#collector.contentType
  }

  metrics(): Promise<string> {
    return this.#collector.metrics()
  }
}
