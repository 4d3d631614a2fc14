// Question: how many decisions does the service make over HTTP, one by one and in batches?
// Run: npm run bench -- decision-api [--rounds 5] [--json file]
// The service in a process of its own, in memory; 32 requests in flight from another process over loopback. A batch is 100.
import { type Bench, printLoads, type Rounds, refuseUnknown, runScenarios, type Scenario } from './harness.ts'

const worker = new URL('./decision-api/worker.js', import.meta.url)
const scenarios: Record<string, Scenario> = { 'decision-api': { variants: ['single', 'batch of 100'], judge } }

export const bench: Bench = async (options) => {
  refuseUnknown(scenarios, options.only)
  return runScenarios(scenarios, { worker, ...options })
}

function judge(name: string, rounds: Rounds): [] {
  printLoads(name, 'k decisions/s', rounds)
  return []
}
