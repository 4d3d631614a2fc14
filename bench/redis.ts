// Question: what does one decision in Redis cost, next to the peers and to what Redis itself can do?
// Run: npm run bench -- redis [one-limit one-limit-512 four-limits latency abuser ceiling] [--rounds 5] [--json file]
// Starts its own redis-server. One Node process, one ioredis connection with its defaults, 10,000 keys, all allowed, except
// abuser. Ours runs with its defaults; of the peers that are middlewares the store alone is measured, which favours them. Peers
// count in fixed windows, ours is GCRA, the default. Client and server share the machine, so rates are low and ratios count.
// Not answered here: other clients, Cluster, leases, and what happens when Redis is slow or gone.
import { createRequire } from 'node:module'
import {
  atLeast,
  atMost,
  type Bench,
  bestOf,
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
  verifyAll,
} from './harness.ts'
import { ceilings } from './redis/ceiling.ts'
import { startRedis } from './redis/server.ts'

const worker = new URL('./redis/worker.js', import.meta.url)
const OURS = 'headgate'
const FOUR = 'headgate, 4 limits'
const UNION = 'rate-limiter-flexible, Union of 4'
const BLOCKING = 'rate-limiter-flexible, blocking'
const BARE = 'bare EVALSHA'
const PEERS = ['rate-limiter-flexible', 'rate-limit-redis', '@fastify/rate-limit', '@upstash/ratelimit']
/** The two that can remember a denial, and one that always asks: the others do too. */
const ABUSED = [BLOCKING, '@upstash/ratelimit', 'rate-limit-redis']

const built = isBuilt()
const ours = (...variants: string[]) => (built ? variants : [])
const everyone = [...ours(OURS), ...PEERS]

const scenarios: Record<string, Scenario> = {
  'one-limit': { variants: [...everyone, BARE], judge: judgeOneLimit },
  'one-limit-512': { variants: [...everyone, BARE], measuredBy: 'one-limit', judge: judge512 },
  'four-limits': { variants: [...ours(FOUR), UNION], judge: judgeFourLimits },
  latency: { variants: everyone, judge: judgeLatency },
  abuser: { variants: [...ours(OURS, `${OURS} x 64`), ...ABUSED], maxRounds: 3, judge: judgeAbuser },
  ceiling: { variants: Object.keys(ceilings), maxRounds: 3, judge: judgeCeiling },
}

export const bench: Bench = async (options) => {
  refuseUnknown(scenarios, options.only)
  const redis = await startRedis()
  try {
    console.log(`Redis ${redis.version}, its own server on port ${redis.port}`)
    if (!built) console.log('headgate/redis is NOT BUILT YET: only the peers are measured, and no target.')
    const run = { worker, port: redis.port, ...options }
    await verifyAll([...ours(OURS, FOUR), BARE, UNION, BLOCKING, ...PEERS], run)
    const { figures, targets } = await runScenarios(scenarios, run)
    return { figures: { redis: redis.version, ...figures }, targets }
  } finally {
    await redis.stop()
  }
}

function isBuilt(): boolean {
  try {
    createRequire(import.meta.url).resolve('headgate/redis')
    return true
  } catch {
    return false
  }
}

function judgeOneLimit(scenario: string, rounds: Rounds): Target[] {
  costTable(`${scenario}: 64 in flight`, rounds, { first: OURS })
  return [
    atLeast(`${scenario}: decisions/s, ours / fastest peer`, toBest(rounds, 'perSecond', 'highest'), 1.7),
    atMost(`${scenario}: Redis CPU each, ours / lowest peer`, toBest(rounds, 'redisUs', 'lowest'), 0.65),
  ]
}

function judge512(scenario: string, rounds: Rounds): Target[] {
  costTable(`${scenario}: 512 in flight`, rounds, { first: OURS, suffix: '512' })
  return []
}

function judgeFourLimits(scenario: string, rounds: Rounds): Target[] {
  costTable(`${scenario}: 64 in flight, four limits decided as one`, rounds, { first: FOUR })
  const ratio = ratioPerRound(valuesOf(rounds, FOUR, 'perSecond'), valuesOf(rounds, UNION, 'perSecond'))
  return [atLeast(`${scenario}: decisions/s, ours / Union of 4`, ratio, 2.5)]
}

function toBest(rounds: Rounds, figure: string, best: 'highest' | 'lowest'): number {
  return ratioPerRound(valuesOf(rounds, OURS, figure), bestOf(rounds, { variants: PEERS, figure, best }))
}

/** Of the scenarios that are about rates. The figures of a second part of a scenario end in `suffix`. */
function costTable(title: string, rounds: Rounds, { first, suffix = '' }: { first: string; suffix?: string }): void {
  const rows = [...rounds.keys()].map((variant) => {
    const values = (figure: string) => valuesOf(rounds, variant, figure + suffix)
    const times = ratioPerRound(valuesOf(rounds, first, `perSecond${suffix}`), values('perSecond'))
    return [
      variant,
      (median(values('perSecond')) / 1000).toFixed(1),
      spread(values('perSecond')),
      median(values('redisUs')).toFixed(2),
      spread(values('redisUs')),
      median(values('clientUs')).toFixed(1),
      variant === first || Number.isNaN(times) ? '' : times.toFixed(2),
    ]
  })
  const head = ['', 'k decisions/s', 'spread', 'Redis us each', 'spread', 'client us each', 'ours is x times']
  printTable(title, head, rows)
  noteUndecided(valuesOf(rounds, first, `undecidedPercent${suffix}`), 'and not counted')
}

/** The gate answers by itself where Redis is too slow. That is no decision of Redis, however fast it comes. */
function noteUndecided(percents: readonly number[], consequence: string): void {
  const most = Math.max(0, ...percents)
  if (most > 0)
    console.log(`  ours: up to ${most.toFixed(3)}% a round answered without Redis, which was slow, ${consequence}`)
}

function judgeLatency(scenario: string, rounds: Rounds): Target[] {
  const toBare = (variant: string) =>
    ratioPerRound(valuesOf(rounds, variant, 'p50'), valuesOf(rounds, variant, 'bareP50'))
  const rows = [...rounds.keys()].map((variant) => {
    const figures = ['p50', 'p99', 'bareP50', 'bareP99'].map((figure) => valuesOf(rounds, variant, figure))
    const [p50] = figures
    return [variant, ...figures.map((values) => median(values).toFixed(0)), spread(p50), toBare(variant).toFixed(2)]
  })
  const head = ['', 'p50', 'p99', 'bare p50', 'bare p99', 'spread of p50', 'p50 / bare p50']
  printTable(`${scenario}, us, one at a time, in turns with a ${BARE} on the same connection`, head, rows)
  noteUndecided(valuesOf(rounds, OURS, 'undecidedPercent'), 'and counted')
  return [atMost(`${scenario}: p50, ours / ${BARE}`, toBare(OURS), 1.15)]
}

function judgeAbuser(scenario: string, rounds: Rounds): Target[] {
  const figure = (variant: string, name: string) => median(valuesOf(rounds, variant, name))
  const rows = [...rounds.keys()].map((variant) => [
    variant,
    (figure(variant, 'perSecond') / 1000).toFixed(1),
    figure(variant, 'allowedPerSecond').toFixed(1),
    figure(variant, 'callsPerPeriod').toFixed(2),
    figure(variant, 'p50').toFixed(2),
    figure(variant, 'p99').toFixed(2),
  ])
  const head = ['', 'k decisions/s', 'allowed/s', 'Redis calls per 100 ms', 'denial us p50', 'p99']
  printTable(`${scenario}: one key, 10/s, asks again at once`, head, rows)
  noteUndecided(valuesOf(rounds, OURS, 'undecidedPercent'), 'and counted')
  const denialUs = figure(OURS, 'p50')
  return [
    atMost(`${scenario}: Redis calls per retry period`, figure(OURS, 'callsPerPeriod'), 2),
    { what: `${scenario}: denial p50, us`, goal: '< 2', value: denialUs, met: denialUs < 2 },
  ]
}

function judgeCeiling(scenario: string, rounds: Rounds): Target[] {
  const rows = [...rounds.keys()].map((variant) => {
    const perSecond = valuesOf(rounds, variant, 'perSecond')
    const redisUs = median(valuesOf(rounds, variant, 'redisUs'))
    return [variant, (median(perSecond) / 1000).toFixed(0), spread(perSecond), redisUs.toFixed(2)]
  })
  const title = `${scenario}: redis-benchmark, 50 connections, 10,000 keys; P = commands in a pipeline`
  printTable(title, ['', 'k commands/s', 'spread', 'Redis us each'], rows)
  return []
}

function spread(values: readonly number[]): string {
  return `±${spreadPercent(values).toFixed(0)}%`
}
