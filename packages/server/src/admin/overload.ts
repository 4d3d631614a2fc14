import type { OverloadTuning } from 'headgate/overload'
import { tuningFault } from '../overload/tuning.ts'
import { readJson } from './body.ts'
import type { Desk } from './desk.ts'
import { numberIn, oneOf, optional, part, readFields } from './fields.ts'
import { AdminError } from './problem.ts'
import type { Call, Reply, Route } from './route.ts'

export function overloadRoutes(desk: Desk): Route[] {
  return [
    { method: 'GET', path: '/admin/v1/overload', scope: 'read', run: () => show(desk) },
    { method: 'PUT', path: '/admin/v1/overload', scope: 'write', run: (call) => tune(desk, call) },
  ]
}

/** What holds now, what was said in place of the rules, and what is going on, in all processes of this instance together. */
function show({ service, telemetry }: Desk): Reply {
  const { overload } = service.rules.rules
  if (overload === undefined) return { json: { protected: false } }
  const { settings, tuning } = service.overloadSettings
  return { json: { protected: true, settings, tuned: tuning, inRules: overload, state: telemetry.overload ?? null } }
}

const mode = oneOf(['enforce', 'observe', 'off'])
const slots = numberIn(1, 1_000_000, true)
const fields = {
  mode: optional(mode),
  concurrency: optional(part({ mode: optional(mode), min: optional(slots), max: optional(slots) })),
  utilisation: optional(
    part({ mode: optional(mode), good: optional(numberIn(0.01, 1, false)), bad: optional(numberIn(0.01, 1, false)) }),
  ),
  queue: optional(
    part({ size: optional(numberIn(1, 10_000, true)), targetMs: optional(numberIn(1, 3_600_000, false)) }),
  ),
}

/** On top of what was said before. */
async function tune({ service, audit, ...desk }: Desk, call: Call): Promise<Reply> {
  const wanted = readFields(await readJson(call.req), fields) as OverloadTuning
  const { overload } = service.rules.rules
  if (overload === undefined)
    throw new AdminError('not_protected', 'The rules say nothing of overload: put some that do.')
  const { tuning: before } = service.overloadSettings
  const fault = tuningFault(overload, before, wanted)
  if (fault !== undefined) throw new AdminError('bad_fields', fault)
  service.tuneOverload(wanted)
  audit.record(call, 'overload', { before, after: service.overloadSettings.tuning })
  return show({ service, audit, ...desk })
}
