import { compileLimit } from '../../limit.ts'
import type { Forgotten, Lending } from './authority.ts'
import { excess } from './meter.ts'
import { type FleetFacts, type KeyFacts, type Mode, modes } from './modes.ts'
import type { KeyRecord, Line, Records } from './records.ts'
import type { Scenario } from './scenario.ts'

/** Something that must not be, in words. */
export interface Violation {
  readonly what:
    | 'over-admission'
    | 'more than its part'
    | 'stranded'
    | 'lent beyond the limit'
    | 'spent beyond what was lent'
    | 'never came back'
  readonly key: string | undefined
  readonly value: number
  readonly bound: number
}

/** How a run went. Plain data: JSON says all of it. */
export interface Report {
  readonly seed: number
  readonly mode: string
  readonly gateways: number
  readonly virtualSeconds: number
  readonly keys: number
  readonly faults: number
  readonly decisions: {
    readonly asked: number
    readonly admitted: number
    readonly admittedUnits: number
    /** Made without asking anybody. */
    readonly local: number
    readonly degraded: number
  }
  /** Of the key where it is worst: units let through beyond the limit, and how many may be. */
  readonly overAdmission: { readonly worst: number; readonly bound: number; readonly rule: string }
  /** Units of one key that were lent at once, and how many may be. */
  readonly stranded: { readonly most: number; readonly bound: number }
  readonly store: {
    readonly calls: number
    readonly callsPerSecond: number
    readonly callsPerDecision: number
    readonly questions: number
  }
  readonly latencyMs: { readonly p50: number; readonly p99: number; readonly most: number }
  readonly violations: readonly Violation[]
  /** What happened, for those who look for the reason of a violation. Not in JSON. */
  readonly lines: readonly Line[]
}

interface Facts {
  readonly calls: number
  readonly groups: number
  readonly forgotten: Forgotten
  readonly lending: Lending
  readonly jumpsUs: readonly number[]
  readonly restarts: number
  readonly pastUs: number
  readonly records: Records
  readonly left: ReadonlyMap<string, number>
}

export function reportOf(scenario: Scenario, facts: Facts): Report {
  const { seed, mode, gateways, faults, forUs } = scenario
  const { records, calls, groups } = facts
  const { asked, admitted, admittedUnits, local, degraded } = records
  const fleet = fleetFacts(scenario, facts)
  const over = overAdmission(scenario, facts, fleet)
  const stranded = { most: facts.lending.mostOut, bound: modes[mode].strandedBound(fleet) }
  const report: Report = {
    seed,
    mode,
    gateways,
    virtualSeconds: forUs / 1_000_000,
    keys: records.keys.size,
    faults: faults.length,
    decisions: { asked, admitted, admittedUnits, local, degraded },
    overAdmission: { ...over.worst, rule: modes[mode].over },
    stranded,
    store: {
      calls,
      callsPerSecond: Math.round(calls / (forUs / 1_000_000)),
      callsPerDecision: Number((calls / Math.max(1, asked)).toFixed(4)),
      questions: groups,
    },
    latencyMs: latencyOf(records.latenciesUs),
    violations: [...over.violations, ...lendingViolations(facts, stranded, fleet)],
    lines: records.lines,
  }
  // Too much to print, and nothing to compare runs by.
  Object.defineProperty(report, 'lines', { enumerable: false })
  return report
}

function fleetFacts({ limit, gateways, lease }: Scenario, { restarts, pastUs, jumpsUs }: Facts): FleetFacts {
  const policy = compileLimit({ limit: limit.perSecond, per: '1s', burst: limit.burst })
  const ratePerUs = limit.perSecond / 1_000_000
  const part = policy.share(gateways)
  return { policy, part, ratePerUs, gateways, restarts, pastUs, jumpsUs, leaseShare: lease.share }
}

function overAdmission({ mode }: Scenario, facts: Facts, fleet: FleetFacts) {
  const violations: Violation[] = []
  let worst = { worst: 0, bound: 0 }
  for (const [key, record] of facts.records.keys) {
    const value = excess(fleet.policy, inOrder(record.admitted))
    const bound = modes[mode].overBound(keyFacts(key, record, facts), fleet)
    if (value > bound) violations.push({ what: 'over-admission', key, value, bound })
    violations.push(...partViolations(key, record, modes[mode], fleet))
    if (value > worst.worst || (value === worst.worst && bound > worst.bound)) worst = { worst: value, bound }
  }
  return { worst, violations }
}

/** Each process by itself must keep to its part. */
function partViolations(key: string, { degraded }: KeyRecord, { partBound }: Mode, fleet: FleetFacts): Violation[] {
  if (partBound === undefined || degraded === undefined) return []
  return [...degraded.values()].flatMap((own): Violation[] => {
    const [value, bound] = [excess(fleet.part, inOrder(own)), partBound(spanUs(own), fleet)]
    return value > bound ? [{ what: 'more than its part', key, value, bound }] : []
  })
}

/** From the first of these pairs to the last. */
function spanUs(pairs: readonly number[]): number {
  return (pairs.at(-2) as number) - (pairs[0] as number)
}

function keyFacts(key: string, record: KeyRecord, { forgotten }: Facts): KeyFacts {
  return {
    forgottenTaken: forgotten.taken.get(key) ?? 0,
    forgottenLent: forgotten.lent.get(key) ?? 0,
    degradedUnits: record.degradedUnits,
    degradedSpansUs: [...(record.degraded?.values() ?? [])].map(spanUs),
  }
}

function lendingViolations(facts: Facts, stranded: Report['stranded'], { policy }: FleetFacts): Violation[] {
  const violations: Violation[] = []
  if (stranded.most > stranded.bound)
    violations.push({ what: 'stranded', key: undefined, value: stranded.most, bound: stranded.bound })
  if (facts.lending.worst > 0)
    violations.push({ what: 'lent beyond the limit', key: undefined, value: facts.lending.worst, bound: 0 })
  if (facts.lending.unknown > 0)
    violations.push({ what: 'spent beyond what was lent', key: undefined, value: facts.lending.unknown, bound: 0 })
  for (const [key, left] of facts.left)
    if (left < policy.limit) violations.push({ what: 'never came back', key, value: policy.limit - left, bound: 0 })
  return violations
}

/** What the store decided is known here later than what a gateway decided by itself. */
function inOrder(pairs: readonly number[]): { readonly atUs: number; readonly cost: number }[] {
  const admitted = []
  for (let i = 0; i < pairs.length; i += 2) admitted.push({ atUs: pairs[i] as number, cost: pairs[i + 1] as number })
  return admitted.sort((a, b) => a.atUs - b.atUs)
}

function latencyOf(us: readonly number[]): Report['latencyMs'] {
  const sorted = Float64Array.from(us).sort()
  const at = (share: number) => Number(((sorted[Math.floor(share * (sorted.length - 1))] ?? 0) / 1000).toFixed(3))
  return { p50: at(0.5), p99: at(0.99), most: at(1) }
}
