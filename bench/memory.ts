// Question: what does one decision cost in process, next to the peers?
// Run: npm run bench -- memory [hot denied uniform-100k fresh-100k zipf-1m multi bytes latency flat] [--rounds 5] [--json file]
// Ours answers with the whole decision on the default memory store; of the peers that are middlewares the store alone is
// measured, which favours them. Peers count in fixed windows (limiter: token bucket), ours is GCRA, the default.
// Not answered here: what a middleware adds to a request, and anything with Redis.
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
import { algorithms, checkpoints } from './memory/checkpoints.ts'

const worker = new URL('./memory/worker.js', import.meta.url)
const OURS = 'headgate'
const AWAITED = 'headgate, awaited' // shown where it may matter: see createAwaited
const FOUR = 'headgate, 4 limits'
const PEERS = ['rate-limiter-flexible', 'express-rate-limit', 'hono-rate-limiter', '@fastify/rate-limit', 'limiter']
const EVERYONE = [OURS, ...PEERS]

const scenarios: Record<string, Scenario> = {
  hot: { variants: [...EVERYONE, AWAITED, 'noop'], judge: judgeHot },
  denied: { variants: [...EVERYONE, 'noop'], judge: (name, rounds) => rateTable(name, rounds) },
  'uniform-100k': { variants: [...EVERYONE, 'noop'], judge: (name, rounds) => rateTable(name, rounds, 2) },
  'fresh-100k': { variants: [...EVERYONE, 'noop'], judge: (name, rounds) => rateTable(name, rounds) },
  'zipf-1m': { variants: [...EVERYONE, AWAITED, 'noop'], judge: (name, rounds) => rateTable(name, rounds, 2) },
  multi: { variants: [OURS, FOUR], judge: judgeMulti },
  bytes: { variants: EVERYONE, maxRounds: 2, judge: judgeBytes },
  latency: { variants: [...EVERYONE, AWAITED, 'noop'], measuredBy: 'zipf-1m', judge: judgeLatency },
  flat: { variants: algorithms, judge: judgeFlat },
}

export const bench: Bench = async (options) => {
  refuseUnknown(scenarios, options.only)
  await verifyAll([...EVERYONE, AWAITED, FOUR], { worker, ...options })
  return runScenarios(scenarios, { worker, ...options })
}

function rateTable(scenario: string, rounds: Rounds, goal?: number): Target[] {
  const ours = valuesOf(rounds, OURS, 'perSecond')
  const rows = [...rounds.keys()].map((variant) => {
    const values = valuesOf(rounds, variant, 'perSecond')
    const perSecond = median(values)
    return [
      variant,
      (perSecond / 1e6).toFixed(2),
      (1e9 / perSecond).toFixed(0),
      `±${spreadPercent(values).toFixed(0)}%`,
      variant === OURS ? '' : ratioPerRound(ours, values).toFixed(2),
    ]
  })
  printTable(scenario, ['', 'M decisions/s', 'ns each', 'spread', 'ours is x times'], rows)
  const ratio = ratioPerRound(ours, bestOf(rounds, { variants: PEERS, figure: 'perSecond', best: 'highest' }))
  console.log(`  ours / best peer of each round: ${ratio.toFixed(2)}`)
  return goal === undefined ? [] : [atLeast(`${scenario}: ours / fastest peer`, ratio, goal)]
}

function judgeHot(scenario: string, rounds: Rounds): Target[] {
  const flexible = valuesOf(rounds, 'rate-limiter-flexible', 'perSecond')
  const ratio = ratioPerRound(valuesOf(rounds, OURS, 'perSecond'), flexible)
  return [...rateTable(scenario, rounds, 1), atLeast(`${scenario}: ours / rate-limiter-flexible`, ratio, 5)]
}

function judgeMulti(scenario: string, rounds: Rounds): Target[] {
  const rows = [OURS, FOUR].map((variant) => {
    const values = valuesOf(rounds, variant, 'perSecond')
    return [variant, (median(values) / 1e6).toFixed(2), `±${spreadPercent(values).toFixed(0)}%`]
  })
  printTable(`${scenario}: 100k keys uniform`, ['', 'M decisions/s', 'spread'], rows)
  const ratio = ratioPerRound(valuesOf(rounds, FOUR, 'perSecond'), valuesOf(rounds, OURS, 'perSecond'))
  return [atLeast(`${scenario}: 4 limits / 1 limit`, ratio, 1 / 3)]
}

function judgeBytes(scenario: string, rounds: Rounds): Target[] {
  const rows = [...rounds.keys()].map((variant) => {
    const heap = valuesOf(rounds, variant, 'heap')
    const figure = (name: string) => median(valuesOf(rounds, variant, name))
    const forgot = `${figure('forgottenPercent').toFixed(1)}%`
    return [variant, median(heap).toFixed(1), `±${spreadPercent(heap).toFixed(0)}%`, figure('rss').toFixed(1), forgot]
  })
  const head = ['', 'heap + external', 'spread', 'resident', 'forgot']
  printTable(`${scenario} per key, 1M keys of 16 characters, the key included`, head, rows)
  const forgotten = median(valuesOf(rounds, OURS, 'forgottenPercent'))
  const heap = median(valuesOf(rounds, OURS, 'heap'))
  return [atMost(`${scenario}: per key`, heap, 48), atMost(`${scenario}: percent of keys forgotten`, forgotten, 0)]
}

function judgeLatency(scenario: string, rounds: Rounds): Target[] {
  const figure = (variant: string, name: string) => median(valuesOf(rounds, variant, name))
  const rows = [...rounds.keys()].map((variant) => {
    const spread = `±${spreadPercent(valuesOf(rounds, variant, 'p999')).toFixed(0)}%`
    return [variant, ...['p50', 'p99', 'p999'].map((name) => figure(variant, name).toFixed(0)), spread]
  })
  printTable(`${scenario}, ns on zipf-1m, clock reads included`, ['', 'p50', 'p99', 'p99.9', 'spread of p99.9'], rows)
  const p999 = figure(OURS, 'p999')
  return [{ what: `${scenario}: p99.9, us`, goal: '< 3', value: p999 / 1000, met: p999 < 3000 }]
}

function judgeFlat(scenario: string, rounds: Rounds): Target[] {
  const targets: Target[] = []
  const rows = algorithms.map((algorithm) => {
    const ns = checkpoints.map((hits) => valuesOf(rounds, algorithm, String(hits)))
    const worst = Math.max(...ns.map((values) => ratioPerRound(values, ns[0])))
    targets.push(atMost(`${scenario}: ${algorithm}, worst / after 1,000 hits`, worst, 1.5))
    return [algorithm, ...ns.map((values) => median(values).toFixed(0)), worst.toFixed(2)]
  })
  const head = ['', ...checkpoints.map((hits) => `10^${Math.log10(hits)}`), 'worst / first']
  printTable(`${scenario}, ns per decision after so many hits on one key`, head, rows)
  return targets
}
