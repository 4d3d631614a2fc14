// Simulates small fleets in bad weather, one per seed, and judges each by the bound of its mode; modes take turns.
// Run: npm run simulate [-- --seeds 10000] [--first 1] [--seed n] [--mode lease] [--protocol debit-only]
// It ends with 1 at the first violation, after printing the shortest trace it can find. --seed prints the report of one run.
import { parseArgs } from 'node:util'
import {
  type ModeName,
  modeNames,
  type Protocol,
  printReport,
  printTrace,
  protocols,
  type Report,
  scenarioOf,
  shrink,
  simulate,
} from 'headgate/testing'

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '10000' },
    first: { type: 'string', default: '1' },
    seed: { type: 'string' },
    mode: { type: 'string' },
    protocol: { type: 'string', default: 'right' },
  },
})

function whole(name: string, text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new Error(`--${name} is "${text}": give a whole number`)
}

function oneOf<T extends string>(name: string, text: string, all: readonly T[]): T {
  const found = all.find((each) => each === text)
  if (found === undefined) throw new Error(`--${name} is "${text}": give one of ${all.join(', ')}`)
  return found
}

/** What many runs of a mode came to. */
interface Sums {
  runs: number
  asked: number
  local: number
  degraded: number
  over: number
}

async function runOne(seed: number, mode: ModeName, protocol: Protocol): Promise<Report> {
  const scenario = scenarioOf(seed, mode, protocol)
  const report = await simulate(scenario)
  if (report.violations.length === 0) return report
  process.stdout.write(`${printTrace(await shrink(scenario))}again: npm run simulate -- --seed ${seed} --mode ${mode}`)
  process.stdout.write(protocol === 'right' ? '\n' : ` --protocol ${protocol}\n`)
  process.exit(1)
}

function add(sums: Sums, { decisions, overAdmission }: Report): void {
  sums.runs++
  sums.asked += decisions.asked
  sums.local += decisions.local
  sums.degraded += decisions.degraded
  sums.over = Math.max(sums.over, overAdmission.worst)
}

const protocol = oneOf('protocol', values.protocol, protocols)
const lenders: readonly ModeName[] = ['lease', 'lease-strict']
const every = protocol === 'right' ? modeNames : lenders
const chosen = values.mode === undefined ? every : [oneOf('mode', values.mode, modeNames)]

if (values.seed !== undefined) {
  for (const mode of chosen)
    process.stdout.write(`${printReport(await runOne(whole('seed', values.seed), mode, protocol))}\n`)
} else {
  const [first, seeds] = [whole('first', values.first), whole('seeds', values.seeds)]
  const sums = new Map<ModeName, Sums>()
  for (let seed = first; seed < first + seeds; seed++) {
    const mode = chosen[seed % chosen.length] as ModeName
    const own = sums.get(mode) ?? { runs: 0, asked: 0, local: 0, degraded: 0, over: 0 }
    sums.set(mode, own)
    add(own, await runOne(seed, mode, protocol))
  }
  for (const [mode, { runs, asked, local, degraded, over }] of sums) {
    const counts = `${asked} decisions, ${local} made without asking, ${degraded} without the store`
    process.stdout.write(
      `${mode.padEnd(14)}  ${runs} runs within their bounds; ${counts}; most over the limit: ${over}\n`,
    )
  }
}
