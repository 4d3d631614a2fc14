// Question: what is left of a service that is offered three times what it can do?
// Run: npm run bench -- overload [--rounds 5] [--json file]
// A service of one process that asks another, which takes ten milliseconds to answer, and then computes for one or two; callers in a
// third process, who come at a rate of their own and leave after half a second. One in ten is critical, three are low. Goodput is what
// was answered in time, as a share of what the service does with enough to do and nobody in line. The fixed limit was found by
// trying; ours finds its own. (Not a timer in place of the other: Node reads nothing while timers are due, so a busy service would hear
// of its callers only once it has nothing left to do.)
// p99 is that of the median second, and beside it stands that of all. Where a machine is shared with others, its processor is half as
// fast for some hundredths of the time, and whatever is busy then takes twice as long, with any limiter or none.
// Not answered here: a service whose capacity changes, retry storms (packages/headgate/src/overload/simulation.test.ts).
import {
  atLeast,
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
import { findWrk } from './http/wrk.ts'
import { FIXED, OURS, UNPROTECTED } from './overload/variants.ts'

const scenarios: Record<string, Scenario> = {
  'three-times': { variants: [UNPROTECTED, FIXED, OURS], judge },
}

export const bench: Bench = async (options) => {
  refuseUnknown(scenarios, options.only)
  console.log(findWrk())
  return runScenarios(scenarios, { worker: new URL('./overload/worker.js', import.meta.url), ...options })
}

function judge(name: string, rounds: Rounds): Target[] {
  const value = (variant: string, figure: string) => median(valuesOf(rounds, variant, figure))
  const percent = (variant: string, figure: string) => `${(100 * value(variant, figure)).toFixed(1)} %`
  const rows = [...rounds.keys()].map((variant) => [
    variant,
    value(variant, 'capacity').toFixed(0),
    percent(variant, 'goodput'),
    percent(variant, 'critical'),
    value(variant, 'calmP99').toFixed(1),
    value(variant, 'p50').toFixed(1),
    value(variant, 'secondP99').toFixed(1),
    value(variant, 'secondTimes').toFixed(1),
    `${value(variant, 'p99').toFixed(1)} (${value(variant, 'times').toFixed(1)} x)`,
    percent(variant, 'recovered'),
  ])
  const head = [
    '',
    'capacity/s',
    'goodput',
    'critical in time',
    'p99 ms at half load',
    'p50 at 3x',
    'p99 at 3x',
    'x',
    'p99 of all',
    'afterwards',
  ]
  printTable(name, head, rows)
  return [
    atLeast(`${name}: goodput / capacity`, value(OURS, 'goodput'), 0.9),
    atLeast(`${name}: critical requests in time`, value(OURS, 'critical'), 0.999),
    atMost(`${name}: p99 at three times / at half`, value(OURS, 'secondTimes'), 2),
    atLeast(`${name}: goodput once the load has fallen`, value(OURS, 'recovered'), 0.99),
  ]
}
