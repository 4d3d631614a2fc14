// Question: what does it take to work out the cost of a GraphQL query, next to graphql-query-complexity?
// Run: npm run bench -- graphql [three-levels|fragments] [--rounds 5] [--json file]
// Both get the same parsed query of three levels and its variables, and price a list by its argument `first`. Ours also looks for
// cycles and bounds the depth, the fields and the aliases meanwhile.
// Not answered here: parsing, which both need, and what plugins do around it.
import {
  atMost,
  type Bench,
  median,
  printTable,
  type Rounds,
  ratioPerRound,
  refuseUnknown,
  runScenarios,
  type Scenario,
  type Target,
  valuesOf,
} from './harness.ts'

const OURS = 'headgate'
const PEER = 'graphql-query-complexity'
const worker = new URL('./graphql/worker.js', import.meta.url)
const variants = [OURS, PEER]
const scenarios: Record<string, Scenario> = {
  'three-levels': { variants, judge },
  fragments: { variants, judge },
}

export const bench: Bench = (options) => {
  refuseUnknown(scenarios, options.only)
  return runScenarios(scenarios, { worker, ...options })
}

function judge(scenario: string, rounds: Rounds): Target[] {
  const rows = variants.map((variant) => {
    const us = valuesOf(rounds, variant, 'us')
    return [variant, median(us).toFixed(2), Math.min(...us).toFixed(2)]
  })
  printTable(`${scenario}: one query, us`, ['variant', 'median', 'lowest round'], rows)
  return [
    atMost(
      `${scenario}: times the peer`,
      ratioPerRound(valuesOf(rounds, OURS, 'us'), valuesOf(rounds, PEER, 'us')),
      1.2,
    ),
  ]
}
