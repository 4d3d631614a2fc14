// Question: what does a middleware cost a hello-world server?
// Run: npm run bench -- http [node fastify hono express] [--rounds 5] [--json file]
// One server per process, loaded over loopback by wrk, a second each by turns: 1 thread, 64 connections, all allowed, in memory,
// keyed by the client's address. Ours sends its default header fields, six; the peers send two to four, as their documentation
// has it, so ours is also measured with their fields, or the nearest to them that we have. Server and load share the machine, so
// ratios count, and CPU per request moves less than requests/s.
// Not answered here: a decision without a server (memory), Redis, and requests that are denied.
import {
  atLeast,
  type Bench,
  median,
  printTable,
  type Rounds,
  ratioPerRound,
  refuseUnknown,
  runChild,
  runScenarios,
  type Scenario,
  spreadPercent,
  type Target,
  valuesOf,
} from './harness.ts'
import { ALIKE, BARE, CONSTANT, OURS } from './http/server.ts'
import { findWrk } from './http/wrk.ts'

const worker = new URL('./http/worker.js', import.meta.url)

const scenarios: Record<string, Scenario> = {
  node: compare('rate-limiter-flexible'),
  fastify: compare('@fastify/rate-limit'),
  hono: compare('hono-rate-limiter'),
  express: compare('express-rate-limit'),
}

export const bench: Bench = async (options) => {
  refuseUnknown(scenarios, options.only)
  const wrk = findWrk()
  process.env.NODE_ENV = 'production' // of the servers, which inherit it
  for (const variant of Object.keys(scenarios)) {
    await runChild(worker, { scenario: 'verify', variant, round: 0, quick: options.quick })
  }
  console.log(`Verified: every limiter allows up to its limit and then answers 429, and sends header fields. ${wrk}`)
  return runScenarios(scenarios, { worker, ...options })
}

function compare(peer: string): Scenario {
  return {
    variants: [BARE, CONSTANT, OURS, ALIKE, peer],
    turns: 8,
    judge(framework, rounds) {
      costTable(framework, rounds)
      return [
        atLeast(`${framework}: requests/s, ours / ${CONSTANT}`, times(rounds, CONSTANT), 0.95),
        atLeast(`${framework}: requests/s, ours / ${peer}`, times(rounds, peer), 1.15),
        atLeast(`${framework}: requests/s, ours with its fields / ${peer}`, times(rounds, peer, ALIKE), 1.15),
      ] satisfies Target[]
    },
  }
}

function times(rounds: Rounds, other: string, ours = OURS, figure = 'perSecond'): number {
  return ratioPerRound(valuesOf(rounds, ours, figure), valuesOf(rounds, other, figure))
}

function costTable(framework: string, rounds: Rounds): void {
  const rows = [...rounds.keys()].map((variant) => {
    const values = (figure: string) => valuesOf(rounds, variant, figure)
    const ratio = (figure: string) => (variant === OURS ? '' : times(rounds, variant, OURS, figure).toFixed(2))
    return [
      variant,
      (median(values('perSecond')) / 1000).toFixed(1),
      spread(values('perSecond')),
      median(values('p50')).toFixed(2),
      median(values('p99')).toFixed(2),
      median(values('cpuUs')).toFixed(1),
      spread(values('cpuUs')),
      Math.min(...values('cpuUs')).toFixed(1),
      ratio('perSecond'),
      ratio('cpuUs'),
    ]
  })
  const head = ['', 'k requests/s', 'spread', 'p50 ms', 'p99', 'CPU us each', 'spread', 'least']
  printTable(framework, [...head, 'ours: x requests/s', 'x CPU'], rows)
}

function spread(values: readonly number[]): string {
  return `±${spreadPercent(values).toFixed(0)}%`
}
