import {
  BEGIN_US,
  describeFault,
  type ModeName,
  type Protocol,
  printViolation,
  type Report,
  type Scenario,
  scenarioOf,
  simulate,
} from 'headgate/testing'

export interface ChaosOptions {
  readonly seed: number
  readonly mode: ModeName
  readonly protocol: Protocol
}

export interface ShownFault {
  readonly atMs: number
  /** 0: it is over at once. */
  readonly forMs: number
  readonly text: string
}

/** A run as it is shown. Plain data, as it comes from a worker. */
export interface ChaosRun extends ChaosOptions {
  readonly limit: Scenario['limit']
  readonly regions: number
  readonly forMs: number
  readonly report: Report
  readonly violations: readonly string[]
  readonly faults: readonly ShownFault[]
  /** Of the key that went furthest. */
  readonly key: string
  /** The most units that its bucket held, column by column: beyond `burst` is beyond the limit. */
  readonly levels: readonly number[]
  /** The most of all. */
  readonly most: number
}

const COLUMNS = 240

export async function runChaos({ seed, mode, protocol }: ChaosOptions): Promise<ChaosRun> {
  const scenario = scenarioOf(seed, mode, protocol)
  const report = await simulate(scenario)
  const { limit, regions, forUs, faults } = scenario
  const byKey = levelsOf(report, scenario)
  const [key, levels] = [...byKey].sort(([, a], [, b]) => Math.max(...b) - Math.max(...a))[0] ?? ['', []]
  return {
    ...{ seed, mode, protocol, limit, regions },
    forMs: forUs / 1000,
    report: JSON.parse(JSON.stringify(report)) as Report,
    violations: report.violations.map(printViolation),
    faults: faults.map((fault) => ({
      atMs: fault.atUs / 1000,
      forMs: 'us' in fault && !/clock/.test(fault.kind) ? Math.abs(fault.us) / 1000 : 0,
      text: describeFault(fault),
    })),
    key,
    levels,
    most: Math.max(0, ...levels),
  }
}

/** What a bucket of the limit would hold, had it been asked each time: it leaks at the rate, and all that passed is poured in. */
function levelsOf(report: Report, { limit, forUs }: Scenario): Map<string, number[]> {
  const passed = new Map<string, { atUs: number; cost: number }[]>()
  for (const { atUs, answer } of report.lines) {
    if (answer === undefined) continue
    const own = passed.get(answer.key) ?? []
    own.push({ atUs: atUs - BEGIN_US, cost: answer.cost })
    passed.set(answer.key, own)
  }
  const perUs = limit.perSecond / 1_000_000
  return new Map(
    [...passed].map(([key, all]) => {
      const levels = Array.from({ length: COLUMNS }, () => 0)
      let [level, lastUs] = [0, 0]
      for (const { atUs, cost } of all.sort((a, b) => a.atUs - b.atUs)) {
        level = Math.max(0, level - (atUs - lastUs) * perUs) + cost
        lastUs = atUs
        const column = Math.min(COLUMNS - 1, Math.floor((atUs / forUs) * COLUMNS))
        levels[column] = Math.max(levels[column] as number, level)
      }
      return [key, filled(levels, perUs * (forUs / COLUMNS))]
    }),
  )
}

/** Where nothing passed the bucket leaks. */
function filled(levels: readonly number[], leak: number): number[] {
  let before = 0
  return levels.map((level) => {
    before = level === 0 ? Math.max(0, before - leak) : level
    return before
  })
}
