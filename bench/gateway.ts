// Question: what does the gateway cost a request, next to a proxy without limits and to the usual proxy?
// Run: npm run bench -- gateway [throughput half-load] [--rounds 5] [--json file]
// A hello-world upstream (nginx) in a process of its own; the proxy in another, loaded over loopback. `throughput` by wrk with 64
// connections, a second each by turns; `half-load` at a steady rate, half of what the slower of two just took from wrk, half a
// second by turns with the same proxy without rules, with latencies from when a request should have been sent. Everything shares
// the machine: ratios and differences count, and between slices those differ by what the machine did: the quartiles of slice by
// slice tell how much. The median slice alone would not do: it knows nothing of pauses that come less often.
// Not answered here: decisions without a proxy (decision-api), a middleware in an app (http).

import { findNginx } from './gateway/upstream.ts'
import { NO_RULES, PEER, REDIS, THREE } from './gateway/variants.ts'
import {
  atLeast,
  type Bench,
  median,
  printLoads,
  printTable,
  type Rounds,
  ratioPerRound,
  refuseUnknown,
  runScenarios,
  type Scenario,
  type Target,
  valuesOf,
} from './harness.ts'
import { findWrk } from './http/wrk.ts'

const worker = new URL('./gateway/worker.js', import.meta.url)

const scenarios: Record<string, Scenario> = {
  throughput: { variants: [NO_RULES, THREE, REDIS, PEER], turns: 8, judge: judgeThroughput },
  'half-load': { variants: [THREE, REDIS], judge: judgeHalfLoad },
}

export const bench: Bench = async (options) => {
  refuseUnknown(scenarios, options.only)
  console.log(`${findWrk()}, ${findNginx()}`)
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
  const added = (variant: string) => {
    const bare = valuesOf(rounds, variant, 'bareP99')
    return valuesOf(rounds, variant, 'p99').map((ms, round) => ms - (bare[round] as number))
  }
  const rows = [...rounds.keys()].map((variant) => {
    const value = (figure: string, digits = 2) => median(valuesOf(rounds, variant, figure)).toFixed(digits)
    return [
      variant,
      value('perSecond', 0),
      `${value('bareP50')} ${value('p50')}`,
      `${value('bareP99')} ${value('p99')}`,
      spread(added(variant)),
      `${value('addedLow')} ${value('addedMid')} ${value('addedHigh')}`,
      `${value('bareCpuUs', 1)} ${value('cpuUs', 1)}`,
    ]
  })
  const of = (what: string) => `${what} without, with`
  const heads = [of('p50 ms'), of('p99 ms'), 'p99 added, each round', 'slice by slice, quartiles', of('CPU us each')]
  printTable(name, ['', 'requests/s', ...heads], rows)
  return [THREE, REDIS].map((variant) => {
    const value = median(added(variant))
    return { what: `${name}: added p99, ms, ${variant}`, goal: '< 1', value, met: value < 1 }
  })
}

function spread(values: readonly number[]): string {
  return values.map((value) => value.toFixed(2)).join(' ')
}
