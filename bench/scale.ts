// Question: what do leases save, on one hot key, on keys of all temperatures in four processes, and what do they cost where nothing is hot?
// Run: npm run bench -- scale [hot zipf cold] [--rounds 5] [--json file]
// Starts its own redis-server. Ours with and without `lease: true`, all else as it comes; all allowed. `hot` is one process and one
// key; `zipf` is four processes, each with a connection, on 10,000 keys; `cold` is one process and so many keys that none is hot.
// Which keys of `zipf` are hot depends on how often they come in a lease's life: 2 s unless said otherwise, and 10 s in one variant.
// The fewer cores, the fewer decisions, the fewer hot keys: targets are set for that variant.
// Clients and server share the machine: CPU of both each, and ratios, say more than rates.
// Not answered here: refusals (see redis.ts, abuser), long ways to Redis, Cluster.
import {
  atLeast,
  atMost,
  type Bench,
  median,
  printTable,
  type Rounds,
  ratioPerRound,
  refuseUnknown,
  runScenarios,
  type Scenario,
  spreadPercent,
  type Target,
  valuesOf,
} from './harness.ts'
import { startRedis } from './redis/server.ts'

const worker = new URL('./scale/worker.js', import.meta.url)
const LEASED = 'leased'
const LONG = 'leased for 10 s'
const EXACT = 'exact'
const scenarios: Record<string, Scenario> = {
  hot: { variants: [LEASED, EXACT], judge: judgeHot },
  zipf: { variants: [LONG, LEASED, EXACT], judge: judgeZipf },
  cold: { variants: [LEASED, EXACT], judge: judgeCold },
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

function judgeHot(scenario: string, rounds: Rounds): Target[] {
  table(`${scenario}: one process, one key`, rounds)
  const figure = (name: string) => median(valuesOf(rounds, LEASED, name))
  return [
    atLeast(`${scenario}: decisions/s, millions`, figure('perSecond') / 1e6, 1),
    atMost(`${scenario}: Redis calls per decision`, figure('callsEach'), 0.02),
  ]
}

function judgeZipf(scenario: string, rounds: Rounds): Target[] {
  table(`${scenario}: four processes, 10,000 keys, 64 in flight each`, rounds)
  return [
    atLeast(`${scenario}: decisions/s, ${LONG} / exact`, toExact(rounds, 'perSecond', LONG), 8),
    atMost(`${scenario}: CPU of clients and Redis each, ${LONG} / exact`, toExact(rounds, 'cpuUs', LONG), 0.125),
  ]
}

function judgeCold(scenario: string, rounds: Rounds): Target[] {
  table(`${scenario}: one process, 200,000 keys, 64 in flight`, rounds)
  return [
    atMost(`${scenario}: client CPU each, leased / exact`, toExact(rounds, 'clientUs'), 1.1),
    atMost(`${scenario}: Redis CPU each, leased / exact`, toExact(rounds, 'redisUs'), 1.1),
    atMost(`${scenario}: Redis calls each, leased / exact`, toExact(rounds, 'callsEach'), 1.1),
  ]
}

function toExact(rounds: Rounds, figure: string, variant = LEASED): number {
  return ratioPerRound(valuesOf(rounds, variant, figure), valuesOf(rounds, EXACT, figure))
}

function table(title: string, rounds: Rounds): void {
  const rows = [...rounds.keys()].map((variant) => {
    const figure = (name: string) => median(valuesOf(rounds, variant, name))
    return [
      variant,
      (figure('perSecond') / 1000).toFixed(1),
      `±${spreadPercent(valuesOf(rounds, variant, 'perSecond')).toFixed(0)}%`,
      figure('clientUs').toFixed(2),
      figure('redisUs').toFixed(3),
      figure('callsEach').toFixed(4),
      (figure('atOnce') * 100).toFixed(1),
      figure('undecidedPercent').toFixed(3),
    ]
  })
  const head = [
    '',
    'k decisions/s',
    'spread',
    'client us each',
    'Redis us each',
    'calls each',
    '% at once',
    '% undecided',
  ]
  printTable(title, head, rows)
}
