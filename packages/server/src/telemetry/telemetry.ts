import type { Clock, Store } from 'headgate'
import { type LimitVisitor, visitLimits } from 'headgate/http'
import type { Decided } from '../rules/rule-set.ts'
import type { Service, ServiceEvent, Watcher } from '../service.ts'
import { ALLOWED, DEGRADED, DENIED, DecisionCounts, OBSERVED, OTHER } from './decision-counts.ts'
import { Histogram } from './histogram.ts'
import { HotKeys } from './hot-keys.ts'
import { registryOf } from './metrics.ts'
import { everySecond } from './pulse.ts'
import { TimedStore } from './timed-store.ts'
import type { TopKey } from './top-keys.ts'

export interface TelemetryOptions {
  /** How many limits are told apart in metrics; the rest are `other`. 200 unless said otherwise. */
  readonly mostLimits?: number
  readonly clock?: Clock
}

export type Priority = 'critical' | 'high' | 'normal' | 'low'

const MOST_REASONS = 20

/** Counts what the service decides. Make it first, so that it can wrap the store; then `attach` it to the service. */
export class Telemetry implements Watcher, LimitVisitor {
  readonly counts: DecisionCounts
  readonly decisionDurations = new Histogram()
  /** By store. */
  readonly storeDurations = new Map<string, Histogram>()
  /** For whoever holds requests: added to when one comes, taken from when it is done. */
  inflight = 0
  readonly #hotKeys = new HotKeys()
  readonly #shed = new Map<Priority, Map<string, number>>()
  readonly #registry = registryOf(this)
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
  }

  /** A store that answers at once stays as it is: it takes less time than to look at the clock. */
  wrapStore(store: Store, name: string): Store {
    if ('takeOne' in store) return store
    const durations = this.storeDurations.get(name) ?? new Histogram()
    this.storeDurations.set(name, durations)
    return new TimedStore(store, durations)
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

  /** A request was refused for lack of capacity. */
  shed(priority: Priority, reason: string): void {
    const reasons = this.#shed.get(priority) ?? new Map<string, number>()
    this.#shed.set(priority, reasons)
    const known = reasons.has(reason) || reasons.size < MOST_REASONS ? reason : OTHER
    reasons.set(known, (reasons.get(known) ?? 0) + 1)
  }

  shedSamples(): [labels: { priority: string; reason: string }, count: number][] {
    return [...this.#shed].flatMap(([priority, reasons]) =>
      [...reasons].map(([reason, count]): [{ priority: string; reason: string }, number] => [
        { priority, reason },
        count,
      ]),
    )
  }

  get generation(): number {
    return this.#service?.rules.generation ?? 0
  }

  get degraded(): boolean {
    return this.#service?.rules.gate.health().state === 'down'
  }

  /** By reason. The guard of the store counts them: it also knows of answers that never came. */
  get storeFailures(): Readonly<Record<string, number>> {
    return this.#service?.rules.gate.health().failures ?? {}
  }

  top(limit: string, n: number): TopKey[] {
    return this.#hotKeys.top(this.counts.slotOf(limit), n)
  }

  /** For Prometheus. */
  get contentType(): string {
    return this.#registry.contentType
  }

  metrics(): Promise<string> {
    return this.#registry.metrics()
  }
}
