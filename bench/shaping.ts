// Question: how evenly do departures of a leaky bucket leave at 100/s, in one process and by Redis?
// Run: npm run bench -- shaping [--rounds 5] [--json file]
// A thousand callers wait at once, and each notes when it goes; a gap should be 10 ms, and the figures say by how much it is not.
// Starts its own redis-server. `bare timers` is what the runtime can do with a timer for each instant; with 3 connections the
// departures of three gates, which know of each other by Redis alone, are looked at together.
// Not answered here: how long those who wait are in line, and what many lines at once cost.
import {
  atMost,
  type Bench,
  median,
  printTable,
  type Rounds,
  refuseUnknown,
  runScenarios,
  type Scenario,
  type Target,
  valuesOf,
} from './harness.ts'
import { startRedis } from './redis/server.ts'

const worker = new URL('./shaping/worker.js', import.meta.url)
const scenarios: Record<string, Scenario> = {
  spacing: { variants: ['bare timers', 'memory', 'redis', 'redis, 3 connections'], judge },
}

export const bench: Bench = async (options) => {
  refuseUnknown(scenarios, options.only)
  const redis = await startRedis()
  try {
    console.log(`Redis ${redis.version}, its own server on port ${redis.port}`)
    const { figures, targets } = await runScenarios(scenarios, { worker, port: redis.port, ...options })
    return { figures: { redis: redis.version, ...figures }, targets }
  } finally {
    await redis.stop()
  }
}

function judge(scenario: string, rounds: Rounds): Target[] {
  const names = ['medianMs', 'p99Ms', 'worstMs', 'driftMs'] as const
  const figure = (variant: string, name: (typeof names)[number]) => median(valuesOf(rounds, variant, name))
  const rows = [...rounds.keys()].map((variant) => [variant, ...names.map((name) => figure(variant, name).toFixed(2))])
  printTable(`${scenario}: ms off a gap of 10 ms`, ['variant', 'median', 'p99', 'worst', 'drift at the end'], rows)
  return [...rounds.keys()]
    .slice(1)
    .map((variant) => atMost(`${variant}: p99 off the gap, ms`, figure(variant, 'p99Ms'), 2))
}
