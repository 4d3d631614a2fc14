// #region run
import { printTrace, scenarioOf, shrink, simulate } from 'headgate/testing'

/** A small fleet whose machines, network and store fail in ways made up from a seed. */
const scenario = scenarioOf(4, 'lease')
const report = await simulate(scenario)
console.log(`${report.decisions.admitted} of ${report.decisions.asked} let through, ${report.faults} faults`)
console.log(`${report.overAdmission.worst} units over the limit, at most ${report.overAdmission.bound}`)
if (report.violations.length > 0) console.log(printTrace(await shrink(scenario)))

// #endregion

// #region fleet
import { fleetOf } from 'headgate/testing'

const size = { gateways: 4, regions: 1, rate: 5_000, keys: 100, seconds: 1, faults: 'none' } as const
const limit = { perSecond: 2_000, burst: 2_000 }
for (const mode of ['central', 'lease'] as const) {
  const { store, overAdmission } = await simulate(fleetOf({ ...size, mode, seed: 1, limit }))
  console.log(`${mode}: ${store.questions} questions in ${store.calls} calls, ${overAdmission.worst} over the limit`)
}
// #endregion
