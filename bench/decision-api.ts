// Question: how many decisions does the service make over HTTP, one by one and in batches?
// Run: npm run bench -- decision-api [--rounds 5] [--json file]
// The service in a process of its own, in memory; 32 requests in flight from another process over loopback. A batch is 100.
import {
  type Bench,
  median,
  printTable,
  type Rounds,
  refuseUnknown,
  runScenarios,
  type Scenario,
  spreadPercent,
  valuesOf,
} from './harness.ts'

const worker = new URL('./decision-api/worker.ts', import.meta.url)
const scenarios: Record<string, Scenario> = { 'decision-api': { variants: ['single', 'batch of 100'], judge } }

export const bench: Bench = async (options) => {
  refuseUnknown(scenarios, options.only)
  return runScenarios(scenarios, { worker, ...options })
}

function judge(name: string, rounds: Rounds): [] {
  const rows = [...rounds.keys()].map((variant) => {
    const values = (figure: string) => valuesOf(rounds, variant, figure)
    return [
      variant,
      (median(values('perSecond')) / 1000).toFixed(1),
      `±${spreadPercent(values('perSecond')).toFixed(0)}%`,
      median(values('p50')).toFixed(2),
      median(values('p99')).toFixed(2),
      median(values('cpuUs')).toFixed(1),
    ]
  })
  printTable(name, ['', 'k decisions/s', 'spread', 'p50 ms', 'p99 ms', 'CPU us each'], rows)
  return []
}
