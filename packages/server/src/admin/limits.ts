import type { LimitMode } from '../rules/rule-set.ts'
import { readJson } from './body.ts'
import type { Desk } from './desk.ts'
import { numberIn, oneOf, optional, readFields } from './fields.ts'
import type { Call, Reply, Route } from './route.ts'
import { checkLimit } from './target.ts'

export function limitRoutes(desk: Desk): Route[] {
  return [
    { method: 'GET', path: '/admin/v1/limits', scope: 'read', run: () => list(desk) },
    { method: 'PUT', path: '/admin/v1/limits/:/mode', scope: 'write', run: (call) => setMode(desk, call) },
  ]
}

/** What the rules say of each limit, and the mode it is in now, whoever said so. */
function list({ service }: Desk): Reply {
  const { rules, limits: all, generation } = service.rules
  const limits = Object.entries(all).map(([name, { mode, enforcePercent, ...definition }]) => {
    const now = service.modeOf(name) ?? { mode, enforcePercent }
    // Rules that only watch refuse nobody, whatever their limits say.
    const effective = rules.mode === 'observe' && now.mode === 'enforce' ? 'observe' : now.mode
    return { name, ...now, effective, inRules: { mode, enforcePercent }, definition }
  })
  return { json: { generation, limits } }
}

const fields = { mode: oneOf(['enforce', 'observe', 'off']), enforcePercent: optional(numberIn(0, 100, false)) }

async function setMode({ service, audit }: Desk, call: Call): Promise<Reply> {
  const [limit = ''] = call.params
  const { mode, enforcePercent = 100 } = readFields(await readJson(call.req), fields)
  checkLimit(service, limit)
  const before = service.modeOf(limit)
  const after: LimitMode = { mode, enforcePercent }
  service.setMode(limit, after)
  audit.record(call, 'mode', { limit, before, after })
  return { json: { limit, ...after } }
}
