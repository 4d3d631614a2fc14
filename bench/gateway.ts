// Question: what does the gateway cost a request, next to a proxy without limits and to the usual proxy?
// Run: npm run bench -- gateway [throughput half-load] [--rounds 5] [--json file]
// A hello-world upstream in a process of its own; the proxy in another, loaded over loopback. `throughput` by wrk with 64
// connections; `half-load` by 1,500 requests a second (HEADGATE_BENCH_RATE: about half of what the machine takes), sent at a steady
// rate, with latencies from when a request should have been sent. Everything shares the machine: ratios and differences count.
// Not answered here: decisions without a proxy (decision-api), a middleware in an app (http).

import { NO_RULES, PEER, REDIS, THREE } from './gateway/variants.ts'
import {
  atLeast,
  type Bench,
  median,
  printLoads,
  type Rounds,
  ratioPerRound,
  refuseUnknown,
  runScenarios,
  type Scenario,
  type Target,
  valuesOf,
} from './harness.ts'
import { findWrk } from './http/wrk.ts'

const worker = new URL('./gateway/worker.ts', import.meta.url)

const scenarios: Record<string, Scenario> = {
  throughput: { variants: [NO_RULES, THREE, REDIS, PEER], judge: judgeThroughput },
  'half-load': { variants: [NO_RULES, THREE, REDIS], judge: judgeHalfLoad },
}

export const bench: Bench = async (options) => {
  refuseUnknown(scenarios, options.only)
  console.log(findWrk())
  process.env.NODE_ENV = 'production'
  return runScenarios(scenarios, { worker, ...options })
}

function judgeThroughput(name: string, rounds: Rounds): Target[] {
  printLoads(name, 'k requests/s', rounds)
  const ratio = (ours: string, other: string) =>
    ratioPerRound(valuesOf(rounds, ours, 'perSecond'), valuesOf(rounds, other, 'perSecond'))
  return [
    atLeast(`${name}: requests/s, ${THREE} / ${PEER}`, ratio(THREE, PEER), 1.3),
    atLeast(`${name}: requests/s, ${THREE} / ${NO_RULES}`, ratio(THREE, NO_RULES), 0.9),
  ]
}

function judgeHalfLoad(name: string, rounds: Rounds): Target[] {
  printLoads(name, 'k requests/s', rounds)
  const bare = valuesOf(rounds, NO_RULES, 'p99')
  return [THREE, REDIS].map((variant) => {
    const added = median(valuesOf(rounds, variant, 'p99').map((p99, round) => p99 - (bare[round] as number)))
    return { what: `${name}: added p99, ms, ${variant}`, goal: '< 1', value: added, met: added < 1 }
  })
}
