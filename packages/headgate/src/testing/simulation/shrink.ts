import type { Report } from './report.ts'
import type { Scenario } from './scenario.ts'
import { simulate } from './world.ts'

/** A violation with nothing in it that it does not need. */
export interface Shrunk {
  readonly scenario: Scenario
  readonly report: Report
  /** How many runs it took. */
  readonly runs: number
}

const MOST_RUNS = 1000

/** Leaves out faults, then requests, then faults again, in halves, quarters and so on, as long as the same kind of violation remains. */
export async function shrink(scenario: Scenario, mostRuns = MOST_RUNS): Promise<Shrunk> {
  let best = { scenario, report: await simulate(scenario) }
  const what = best.report.violations[0]?.what
  let runs = 1
  const tries = async (smaller: Scenario): Promise<boolean> => {
    if (runs >= mostRuns) return false
    runs++
    const report = await simulate(smaller)
    if (!report.violations.some((each) => each.what === what)) return false
    best = { scenario: smaller, report }
    return true
  }
  if (what === undefined) return { ...best, runs }
  await fewest(scenario.faults, (faults) => tries({ ...best.scenario, faults }))
  await fewest(scenario.requests, (requests) => tries({ ...best.scenario, requests }))
  // Among fewer requests some faults do nothing any more.
  await fewest(best.scenario.faults, (faults) => tries({ ...best.scenario, faults }))
  return { ...best, runs }
}

/** Tries shorter lists, and returns the shortest that still fails. */
async function fewest<T>(all: readonly T[], fails: (fewer: readonly T[]) => Promise<boolean>): Promise<readonly T[]> {
  if (all.length === 0 || (await fails([]))) return []
  let list = all
  for (let size = Math.ceil(list.length / 2); ; size = Math.ceil(size / 2)) {
    for (let i = 0; i < list.length; ) {
      const fewer = [...list.slice(0, i), ...list.slice(i + size)]
      if (await fails(fewer)) list = fewer
      else i += size
    }
    if (size === 1) return list
  }
}
