// Question: what do 60 calls to a server that takes 10 a second cost: how many refusals, how many failures, how long?
// Run: npm run bench -- client [express-rate-limit fastify-rate-limit headgate express-silent only-retry-after strict] [--rounds 5] [--json file]
// A client and a server per process, over loopback; all 60 calls are made at once. Clients that repeat have their defaults, and the same with ten
// repeats; those that only pace are told the limit. Ideal is 5 s: ten at once, then ten a second.
// `express-silent` is express-rate-limit that sends no fields; `only-retry-after` refuses with that alone; `strict` is ours, and never
// takes more than ten in any second.
// Not answered here: what a call costs in CPU, and servers that are far away.
import { CLIENTS, OURS } from './client/clients.ts'
import {
  atMost,
  type Bench,
  median,
  printTable,
  type Rounds,
  refuseUnknown,
  runScenarios,
  type Scenario,
  valuesOf,
} from './harness.ts'

const worker = new URL('./client/worker.js', import.meta.url)

const IDEAL_MS = 5_000
const scenarios: Record<string, Scenario> = {
  'express-rate-limit': compare(),
  'fastify-rate-limit': compare(),
  headgate: compare(),
  'express-silent': compare(),
  'only-retry-after': compare(),
  strict: compare(),
}

export const bench: Bench = async (options) => {
  refuseUnknown(scenarios, options.only)
  return runScenarios(scenarios, { worker, ...options })
}

function compare(): Scenario {
  return {
    variants: CLIENTS,
    judge(server, rounds) {
      table(server, rounds)
      const worst = (figure: string) => Math.max(...valuesOf(rounds, OURS, figure))
      return [
        atMost(`${server}: failures of ours, worst round`, worst('failed'), 0),
        atMost(`${server}: refusals of ours, worst round`, worst('refused'), 3),
        atMost(`${server}: time of ours / ideal`, median(valuesOf(rounds, OURS, 'ms')) / IDEAL_MS, 1.1),
      ]
    },
  }
}

function table(server: string, rounds: Rounds): void {
  const rows = [...rounds.keys()].map((variant) => {
    const of = (figure: string) => median(valuesOf(rounds, variant, figure))
    return [
      variant,
      of('sent').toFixed(0),
      of('refused').toFixed(0),
      of('failed').toFixed(0),
      (of('ms') / 1000).toFixed(2),
    ]
  })
  printTable(`60 calls to ${server}, 10 a second`, ['', 'sent', 'answers of 429', 'failed', 's'], rows)
}
