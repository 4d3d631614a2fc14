import type { StoreStats } from 'headgate'
import type { OverloadState } from 'headgate/overload'
import client, { type Metric } from 'prom-client'
import { OTHER, outcomes } from './decision-counts.ts'
import type { Histogram } from './histogram.ts'
import type { Telemetry } from './telemetry.ts'

type Labels = Readonly<Record<string, string>>
type Sample = readonly [labels: Labels, value: number]

/** Reads what was counted when somebody asks; until then it costs nothing. */
export function collectorOf(telemetry: Telemetry): client.Registry {
  const collector = new client.Registry()
  const add = (type: 'counter' | 'gauge', name: string, help: string, read: () => readonly Sample[]) =>
    collector.registerMetric(metric(type, name, help, () => read().map(([labels, value]) => ({ labels, value }))))
  add('counter', 'headgate_decisions_total', 'What each limit said of requests', () => decisions(telemetry))
  add('counter', 'headgate_store_errors_total', 'Questions that the store did not answer', () => errors(telemetry))
  add('counter', 'headgate_shed_total', 'Requests refused under overload', () => telemetry.shedSamples(false))
  add('counter', 'headgate_shed_observed_total', 'Requests that would have been refused', () =>
    telemetry.shedSamples(true),
  )
  add('counter', 'headgate_cost_ignored_total', 'Responses that told a cost that is no number', () =>
    [...telemetry.ignoredCosts].map(([limit, count]) => [{ limit }, count]),
  )
  add('gauge', 'headgate_degraded', '1 while decisions are made without the store', () => [
    [{}, telemetry.degraded ? 1 : 0],
  ])
  add('gauge', 'headgate_rules_generation', 'Number of the rules in force', () => [[{}, telemetry.generation]])
  add('gauge', 'headgate_inflight', 'Requests in flight', () => [[{}, telemetry.inflightOfAll]])
  add('gauge', 'headgate_breaker_open', 'How many processes spare a server behind the gateway', () => open(telemetry))
  for (const [type, name, help, read] of storeSeries)
    add(type, `headgate_${name}`, help, () => read(telemetry.storeStats))
  for (const [name, help, read] of overloadGauges)
    add('gauge', `headgate_overload_${name}`, help, () => (telemetry.overload ? read(telemetry.overload) : []))
  histogram(collector, 'headgate_decision_duration_seconds', 'How long decisions took', () => [
    [{}, telemetry.decisionDurations],
  ])
  histogram(collector, 'headgate_store_duration_seconds', 'How long the store took to answer', () =>
    [...telemetry.storeDurations].map(([store, durations]) => [{ store }, durations] as const),
  )
  return collector
}

function decisions({ counts }: Telemetry): Sample[] {
  return counts.names.flatMap((limit, slot) => {
    const samples = outcomes.map((outcome, i): Sample => [{ limit, outcome }, counts.at(slot, i)])
    return limit === OTHER && samples.every(([, value]) => value === 0) ? [] : samples
  })
}

function open({ breakersOfAll }: Telemetry): Sample[] {
  const counts = new Map<string, Sample>()
  for (const { upstream, url } of breakersOfAll) {
    const name = `${upstream} ${url}`
    counts.set(name, [{ upstream, url }, (counts.get(name)?.[1] ?? 0) + 1])
  }
  return [...counts.values()]
}

type OverloadGauge = readonly [name: string, help: string, read: (state: OverloadState) => readonly Sample[]]

/** Of all processes together; there are none where rules say nothing of overload. */
const overloadGauges: readonly OverloadGauge[] = [
  ['limit', 'How many requests are worked on at once', ({ limit }) => [[{}, limit]]],
  ['inflight', 'Requests that are worked on', ({ inFlight }) => [[{}, inFlight]]],
  ['queued', 'Requests that wait for their turn', ({ queued }) => [[{}, queued]]],
  ['sojourn_seconds', 'How long who left the queue last had stood in it', ({ sojournMs }) => [[{}, sojournMs / 1000]]],
  ['utilisation', 'How busy the busiest process is: 1 is all there is', ({ utilisation }) => [[{}, utilisation]]],
  [
    'shedding',
    'Which share of requests is refused as a process is too busy',
    ({ shedding }) => Object.entries(shedding).map(([priority, share]): Sample => [{ priority }, share]),
  ],
]

type StoreSeries = readonly [
  'counter' | 'gauge',
  name: string,
  help: string,
  read: (stats: StoreStats) => readonly Sample[],
]

/** Of all processes together; there are none of ways to hold limits that the store does not have. */
const storeSeries: readonly StoreSeries[] = [
  ['gauge', 'lease_held_units', 'Units that are borrowed and not spent', ({ lease }) => one(lease?.heldUnits)],
  [
    'counter',
    'lease_decided_total',
    'Requests decided by units that were borrowed',
    ({ lease }) => one(lease?.decided),
  ],
  [
    'counter',
    'lease_messages_total',
    'Calls that borrowed units or gave some back',
    ({ lease }) => one(lease?.messages),
  ],
  ['gauge', 'share_nodes', 'Among how many processes limits are divided', ({ nodes }) => one(nodes)],
  [
    'gauge',
    'store_lag_seconds',
    'How old what is known of other processes or regions may be',
    ({ lagMs = {} }) => Object.entries(lagMs).map(([hold, ms]): Sample => [{ hold }, ms / 1000]),
  ],
]

function one(value: number | undefined): Sample[] {
  return value === undefined ? [] : [[{}, value]]
}

/** Words of a server become series, so only so many of them. */
const MOST_KINDS = 20

function errors({ storeFailures }: Telemetry): Sample[] {
  const kinds: Record<string, number> = { connection: 0, timeout: 0 }
  for (const [kind, count] of Object.entries(storeFailures)) {
    const known = Object.hasOwn(kinds, kind) || Object.keys(kinds).length < MOST_KINDS ? kind : OTHER
    kinds[known] = (kinds[known] ?? 0) + count
  }
  return Object.entries(kinds).map(([kind, count]) => [{ kind }, count])
}

function histogram(
  collector: client.Registry,
  name: string,
  help: string,
  read: () => readonly (readonly [Labels, Histogram])[],
): void {
  const samples = () =>
    read().flatMap(([labels, { cumulative, sum }]) => [
      ...cumulative.map(([le, value]) => ({ metricName: `${name}_bucket`, labels: { ...labels, le }, value })),
      { metricName: `${name}_sum`, labels, value: sum },
      { metricName: `${name}_count`, labels, value: cumulative.at(-1)?.[1] ?? 0 },
    ])
  collector.registerMetric(metric('histogram', name, help, samples))
}

interface Value {
  readonly metricName?: string
  readonly labels: Labels
  readonly value: number
}

/** A metric that keeps nothing itself: all that the collector asks of one is its values. */
function metric(type: string, name: string, help: string, read: () => readonly Value[]): Metric {
  return { name, help, type, get: async () => ({ name, help, type, values: read() }) } as unknown as Metric
}
