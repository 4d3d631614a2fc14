import { type FleetOptions, fleetOf, modeNames, printReport, simulate } from 'headgate/testing'
import type { Terminal } from './index.ts'
import { Misuse } from './misuse.ts'
import { json } from './text.ts'

/** What the command line says, or would if it said nothing. */
export const fleetDefaults = {
  mode: 'lease',
  gateways: '20',
  regions: '1',
  rate: '50000',
  keys: '100000',
  seconds: '1',
  limit: '1000/s',
  seed: '1',
  faults: 'none',
} as const

type Options = { readonly [name in keyof typeof fleetDefaults]: string } & {
  readonly fleet?: boolean
  readonly json?: boolean
}

/** What is simulated is kept in memory until its end. */
const MOST_REQUESTS = 50_000_000

/** Exit code 1 if a bound was broken. */
export async function simulateCommand(
  file: string | undefined,
  options: Options,
  { out }: Pick<Terminal, 'out'>,
): Promise<number> {
  if (file !== undefined)
    throw new Misuse(
      `rules cannot be simulated yet by a fleet, so "${file}" is of no use: give --log <access.log>, or leave it out and give --fleet and --limit.`,
    )
  if (!options.fleet) throw new Misuse('what is to be simulated? Give --fleet, or rules and --log.')
  const report = await simulate(fleetOf(read(options)))
  out.write(options.json ? json(report) : printReport(report))
  return report.violations.length === 0 ? 0 : 1
}

function read(options: Options): FleetOptions {
  const mode = modeNames.find((each) => each === options.mode)
  if (mode === undefined) throw new Misuse(`--mode is "${options.mode}": give one of ${modeNames.join(', ')}.`)
  const { faults } = options
  if (faults !== 'none' && faults !== 'some') throw new Misuse(`--faults is "${faults}": give none or some.`)
  const fleet: FleetOptions = {
    mode,
    faults,
    gateways: whole('gateways', options.gateways, 1, 200),
    regions: whole('regions', options.regions, 1, 20),
    rate: whole('rate', options.rate, 1, 1_000_000),
    keys: whole('keys', options.keys, 1, 1_000_000),
    seed: whole('seed', options.seed, 0, Number.MAX_SAFE_INTEGER),
    seconds: seconds(options.seconds),
    limit: limitOf(options.limit),
  }
  const requests = fleet.gateways * fleet.rate * fleet.seconds
  if (requests > MOST_REQUESTS)
    throw new Misuse(`that is ${requests} requests, and at most ${MOST_REQUESTS} fit: lower --rate or --seconds.`)
  return fleet
}

function whole(name: string, text: string, least: number, most: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (value >= least && value <= most) return value
  throw new Misuse(`--${name} is "${text}": give a whole number from ${least} to ${most}.`)
}

function seconds(text: string): number {
  const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN
  if (value >= 0.01 && value <= 3600) return value
  throw new Misuse(`--seconds is "${text}": give 0.01 to 3600.`)
}

/** Modes have bounds for buckets, so it is one: `100/s`, or `100/s burst 200`. */
function limitOf(text: string): FleetOptions['limit'] {
  const [, rate = '', burst = rate] = /^(\d+)\/s(?: burst (\d+))?$/.exec(text) ?? []
  const isGood = (count: string) => Number(count) >= 1 && Number(count) <= 10_000_000
  if (isGood(rate) && isGood(burst)) return { perSecond: Number(rate), burst: Number(burst) }
  throw new Misuse(`--limit is "${text}": give units per second such as 100/s, or "100/s burst 200".`)
}
