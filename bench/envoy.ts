// Question: how many requests of an Envoy does the service decide, next to the same decisions behind grpc-js?
// Run: npm run bench -- envoy [--rounds 5] [--json file]
// Two descriptors a request, decided in memory; 100 calls in flight on 4 connections from another process over loopback.
// Not answered here: what Redis adds (redis), decisions over HTTP (decision-api).
import { type Bench, printLoads, type Rounds, refuseUnknown, runScenarios, type Scenario } from './harness.ts'

const worker = new URL('./envoy/worker.js', import.meta.url)
const scenarios: Record<string, Scenario> = { envoy: { variants: ['headgate', 'grpc-js'], judge } }

export const bench: Bench = async (options) => {
  refuseUnknown(scenarios, options.only)
  return runScenarios(scenarios, { worker, ...options })
}

function judge(name: string, rounds: Rounds): [] {
  printLoads(name, 'k requests/s', rounds)
  return []
}
