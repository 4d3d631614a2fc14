// Question: what does one decision cost in process, next to the peers?
// Run: npm run bench -- memory [hot denied uniform-100k fresh-100k zipf-1m multi bytes latency flat] [--rounds 5] [--json file]
// Ours answers with the whole decision on the default memory store; of the peers that are middlewares the store alone is
// measured, which favours them. Peers count in fixed windows (limiter: token bucket), ours is GCRA, the default.
// Not answered here: what a middleware adds to a request, and anything with Redis.
import {
  alternate,
  type Bench,
  type BenchOptions,
  median,
  printTable,
  type Rounds,
  ratioPerRound,
  runChild,
  spreadPercent,
  type Target,
  valuesOf,
} from './harness.ts'
import { algorithms, checkpoints } from './memory/checkpoints.ts'

const worker = new URL('./memory/worker.ts', import.meta.url)
const OURS = 'headgate'
const AWAITED = 'headgate, awaited' // shown where it may matter: see createAwaited
const FOUR = 'headgate, 4 limits'
const PEERS = ['rate-limiter-flexible', 'express-rate-limit', 'hono-rate-limiter', '@fastify/rate-limit', 'limiter']
const EVERYONE = [OURS, ...PEERS]

interface Scenario {
  readonly variants: readonly string[]
  /** The scenario whose processes also measure this one. */
  readonly measuredBy?: string
  /** Enough where rounds hardly differ. */
  readonly maxRounds?: number
  /** Prints what was measured and says which targets it meets. */
  readonly judge: (name: string, rounds: Rounds) => Target[]
}

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

export const bench: Bench = async ({ only, rounds, quick }: BenchOptions) => {
  const unknown = only.find((name) => scenarios[name] === undefined)
  if (unknown !== undefined) throw new Error(`no scenario ${unknown}: one of ${Object.keys(scenarios).join(', ')}`)
  for (const variant of [...EVERYONE, AWAITED, FOUR]) {
    await runChild(worker, { scenario: 'verify', variant, round: 0, quick })
  }
  console.log('Verified: every variant allows up to its limit and then denies, key by key.')
  const measured = new Map<string, Rounds>()
  const targets: Target[] = []
  for (const [name, { variants, judge, ...scenario }] of Object.entries(scenarios)) {
    if (only.length > 0 && !only.includes(name)) continue
    const measuredBy = scenario.measuredBy ?? name
    const job = { scenario: measuredBy, variants, rounds: Math.min(rounds, scenario.maxRounds ?? rounds), quick }
    const found = measured.get(measuredBy) ?? (await alternate(worker, job))
    measured.set(measuredBy, found)
    targets.push(...judge(name, found))
  }
  const figures = [...measured].map(([scenario, found]) => [scenario, Object.fromEntries(found)])
  return { figures: Object.fromEntries(figures), targets }
}

/** The best peer is chosen anew in each round, which is the stricter comparison. */
function bestPeer(rounds: Rounds, figure: string): readonly number[] {
  const peers = PEERS.map((peer) => valuesOf(rounds, peer, figure))
  return peers[0].map((_, round) => Math.max(...peers.map((values) => values[round])))
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
  const ratio = ratioPerRound(ours, bestPeer(rounds, 'perSecond'))
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

function atLeast(what: string, value: number, goal: number): Target {
  return { what, goal: `>= ${Number(goal.toFixed(2))}`, value, met: value >= goal }
}

function atMost(what: string, value: number, goal: number): Target {
  return { what, goal: `<= ${goal}`, value, met: value <= goal }
}
