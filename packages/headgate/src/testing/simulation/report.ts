import { compileLimit } from '../../limit.ts'
import type { Forgotten, Lending } from './authority.ts'
import { Hearing, type Passed } from './hearing.ts'
import { excess } from './meter.ts'
import { type FleetFacts, type KeyFacts, type Mode, modes, placeOf } from './modes.ts'
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
    | 'told and not counted'
    | 'counted and not told'
    | 'processes that are not there'
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

/** What one who was told counts of a key at the end, beside what passed there. */
export interface Heard {
  readonly key: string
  readonly place: number
  readonly units: number
}

interface Facts {
  readonly beginUs: number
  readonly calls: number
  readonly groups: number
  readonly forgotten: Forgotten
  readonly lending: Lending
  readonly jumpsUs: readonly number[]
  readonly stepsUs: number
  /** When processes were killed. */
  readonly endsUs: ReadonlyMap<number, number>
  readonly pastUs: number
  readonly parts: readonly number[]
  readonly beyondUs: number
  readonly records: Records
  /** When nobody has asked for long enough: what has not come back, what was heard, and how many too few or many are believed in. */
  readonly missing: ReadonlyMap<string, number>
  readonly heard: readonly Heard[]
  readonly miscounted: number
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
    violations: [
      ...over.violations,
      ...lendingViolations(facts, stranded),
      ...tellingViolations(scenario, facts),
      ...(facts.miscounted > 0
        ? [{ what: 'processes that are not there', ...nowhere(facts.miscounted) } as const]
        : []),
    ],
    lines: records.lines,
  }
  // Too much to print, and nothing to compare runs by.
  Object.defineProperty(report, 'lines', { enumerable: false })
  return report
}

function nowhere(value: number) {
  return { key: undefined, value, bound: 0 }
}

function fleetFacts({ limit, gateways, lease, drifts }: Scenario, facts: Facts): FleetFacts {
  const policy = compileLimit({ limit: limit.perSecond, per: '1s', burst: limit.burst })
  const ratePerUs = limit.perSecond / 1_000_000
  const { pastUs, jumpsUs, stepsUs, parts, beyondUs } = facts
  const part = policy.share(gateways)
  const fastest = Math.max(0, ...drifts)
  const all = { policy, part, ratePerUs, gateways, pastUs, fastest, jumpsUs, stepsUs, parts, beyondUs }
  return { ...all, leaseShare: lease.share }
}

function overAdmission(scenario: Scenario, facts: Facts, fleet: FleetFacts) {
  const mode = modes[scenario.mode]
  const violations: Violation[] = []
  let worst = { worst: 0, bound: 0 }
  const unheard = unheardBy(scenario, facts, fleet)
  for (const [key, record] of facts.records.keys) {
    const admitted = inOrder(record.admitted)
    const value = excess(fleet.policy, admitted)
    const bound = mode.overBound(keyFacts(key, record, facts, unheard(admitted)), fleet)
    if (value > bound) violations.push({ what: 'over-admission', key, value, bound })
    violations.push(...partViolations(key, record, mode, fleet))
    if (value > worst.worst || (value === worst.worst && bound > worst.bound)) worst = { worst: value, bound }
  }
  return { worst, violations }
}

function hearingOf({ mode, faults }: Scenario, { beginUs, endsUs }: Facts): Hearing | undefined {
  const { hearing } = modes[mode]
  const shifted = faults.map((fault) => ({ ...fault, atUs: fault.atUs + beginUs }))
  return hearing === undefined ? undefined : new Hearing(shifted, hearing, endsUs)
}

/** How much of what passed somebody could not have heard of. All of it, where units count no more before they are heard of. */
function unheardBy(scenario: Scenario, facts: Facts, { policy }: FleetFacts): (passed: readonly Passed[]) => number {
  const { hearing: options, tells } = modes[scenario.mode]
  const hearing = hearingOf(scenario, facts)
  if (hearing === undefined || options === undefined) return () => 0
  if (options.lagUs > policy.windowUs(0)) return (passed) => passed.reduce((sum, { cost }) => sum + cost, 0)
  const bornUs = (process: number) => (tells === 'processes' ? facts.endsUs.get(process - 1) : undefined)
  return (passed) => hearing.mostUnheard(passed, placeOf(modes[scenario.mode], scenario), bornUs)
}

/** All count the same in the end, but for what was lost with those that were killed, or with a stream. */
function tellingViolations(scenario: Scenario, facts: Facts): Violation[] {
  const hearing = hearingOf(scenario, facts)
  if (hearing === undefined || scenario.faults.some(({ kind }) => kind === 'failover')) return []
  const place = placeOf(modes[scenario.mode], scenario)
  return facts.heard.flatMap(({ key, place: own, units }): Violation[] => {
    const others = (facts.records.keys.get(key)?.told ?? []).filter(({ process }) => place(process) !== own)
    const sum = (passed: readonly Passed[]) => passed.reduce((all, each) => all + each.cost, 0)
    const lost = sum(others.filter((each) => hearing.heardUs(each) === Infinity && facts.endsUs.has(each.process)))
    const missed = sum(others) - units
    if (missed > lost) return [{ what: 'told and not counted', key, value: missed, bound: lost }]
    return missed < 0 ? [{ what: 'counted and not told', key, value: -missed, bound: 0 }] : []
  })
}

/** Each process by itself must keep to its part. */
function partViolations(key: string, { degraded }: KeyRecord, { partBound }: Mode, fleet: FleetFacts): Violation[] {
  if (partBound === undefined || degraded === undefined) return []
  return [...degraded.values()].flatMap((own): Violation[] => {
    const [value, bound] = [excess(fleet.part, inOrder(own)), partBound(spanUs(own), fleet)]
    return value > bound ? [{ what: 'more than its part', key, value, bound }] : []
  })
}

/** From the first to the last. */
function spanUs(passed: readonly Passed[]): number {
  return (passed.at(-1)?.atUs ?? 0) - (passed[0]?.atUs ?? 0)
}

function keyFacts(key: string, record: KeyRecord, { forgotten }: Facts, unheard: number): KeyFacts {
  return {
    forgottenTaken: forgotten.taken.get(key) ?? 0,
    forgottenLent: forgotten.lent.get(key) ?? 0,
    degradedUnits: record.degradedUnits,
    degradedSpansUs: [...(record.degraded?.values() ?? [])].map(spanUs),
    unheard,
  }
}

function lendingViolations(facts: Facts, stranded: Report['stranded']): Violation[] {
  const violations: Violation[] = []
  if (stranded.most > stranded.bound)
    violations.push({ what: 'stranded', key: undefined, value: stranded.most, bound: stranded.bound })
  if (facts.lending.worst > 0)
    violations.push({ what: 'lent beyond the limit', key: undefined, value: facts.lending.worst, bound: 0 })
  if (facts.lending.unknown > 0)
    violations.push({ what: 'spent beyond what was lent', key: undefined, value: facts.lending.unknown, bound: 0 })
  for (const [key, units] of facts.missing)
    if (units > 0) violations.push({ what: 'never came back', key, value: units, bound: 0 })
  return violations
}

/** What the store decided is known here later than what a gateway decided by itself. */
function inOrder(passed: readonly Passed[]): readonly Passed[] {
  return [...passed].sort((a, b) => a.atUs - b.atUs)
}

function latencyOf(us: readonly number[]): Report['latencyMs'] {
  const sorted = Float64Array.from(us).sort()
  const at = (share: number) => Number(((sorted[Math.floor(share * (sorted.length - 1))] ?? 0) / 1000).toFixed(3))
  return { p50: at(0.5), p99: at(0.99), most: at(1) }
}
