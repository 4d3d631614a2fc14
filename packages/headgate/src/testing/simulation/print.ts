import type { Line } from './records.ts'
import type { Report, Violation } from './report.ts'
import { BEGIN_US, type Scenario } from './scenario.ts'
import type { Shrunk } from './shrink.ts'

const MOST_LINES = 60

/** A report as people read it. */
export function printReport(report: Report): string {
  const { decisions, overAdmission, stranded, store, latencyMs } = report
  const share = (part: number) => `${((100 * part) / Math.max(1, decisions.asked)).toFixed(1)}%`
  const rows = [
    ['mode', report.mode],
    [
      'fleet',
      `${report.gateways} gateways, ${count(report.keys)} keys, ${report.virtualSeconds} s, seed ${report.seed}`,
    ],
    ['asked', `${count(decisions.asked)} decisions, ${count(Math.round(decisions.asked / report.virtualSeconds))}/s`],
    ['admitted', `${count(decisions.admitted)} (${share(decisions.admitted)})`],
    ['decided here', `${count(decisions.local)} (${share(decisions.local)})`],
    ['without store', `${count(decisions.degraded)} (${share(decisions.degraded)})`],
    ['over the limit', `${overAdmission.worst} units, at most ${overAdmission.bound} (${overAdmission.rule})`],
    ['lent at once', `${stranded.most} units of a key, at most ${stranded.bound}`],
    ['store calls', `${count(store.calls)}, ${count(store.callsPerSecond)}/s, ${store.callsPerDecision} per decision`],
    ['latency', `p50 ${latencyMs.p50} ms, p99 ${latencyMs.p99} ms, most ${latencyMs.most} ms`],
    ['faults', String(report.faults)],
  ]
  const told = report.violations.map((each) => `VIOLATION  ${printViolation(each)}\n`).join('')
  return rows.map(([name = '', value]) => `${name.padEnd(14)}  ${value}\n`).join('') + told
}

export function printViolation({ what, key, value, bound }: Violation): string {
  return `${what}${key === undefined ? '' : ` of ${key}`}: ${value} units, where at most ${bound} may be`
}

/** The steps that lead to a violation, the last ones if there are many. */
export function printTrace({ scenario, report, runs }: Shrunk): string {
  const [violation] = report.violations
  if (violation === undefined) return 'no violation\n'
  const isMeant = ({ answer }: Line) =>
    violation.key === undefined || answer === undefined || answer.key === violation.key
  const steps = report.lines.filter(isMeant).sort((a, b) => a.atUs - b.atUs)
  const shown = steps.slice(-MOST_LINES).map((line) => `  ${ms(line.atUs - BEGIN_US)}  ${textOf(line)}\n`)
  const left = steps.length > MOST_LINES ? `  … ${steps.length - MOST_LINES} steps before\n` : ''
  return `${headOf(scenario)}, ${printViolation(violation)}\nshortest trace found, in ${runs} runs:\n${left}${shown.join('')}`
}

function headOf({ seed, mode, protocol, limit, faults, requests }: Scenario): string {
  const kind = protocol === 'right' ? '' : `, protocol ${protocol}`
  const size = `${requests.length} requests, ${faults.length} faults`
  return `seed ${seed}, mode ${mode}${kind}, ${limit.perSecond}/s burst ${limit.burst}, ${size}`
}

function textOf({ text, answer }: Line): string {
  if (answer === undefined) return text
  const { gateway, cost, key, degraded, isLocal } = answer
  const by = degraded !== false ? `without the store (${degraded})` : isLocal ? 'by itself' : 'by the store'
  return `gateway ${gateway} lets ${cost} of ${key} through, ${by}`
}

function ms(us: number): string {
  return `${(us / 1000).toFixed(3).padStart(10)} ms`
}

function count(value: number): string {
  return value.toLocaleString('en')
}
