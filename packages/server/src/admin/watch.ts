import { HALF_LIFE_S } from '../telemetry/index.ts'
import type { Desk } from './desk.ts'
import { countIn } from './fields.ts'
import type { Call, Reply, Route } from './route.ts'
import { checkLimit } from './target.ts'

/** For machines that look after this one, and for those who look on. */
export function watchRoutes(desk: Desk): Route[] {
  return [
    { method: 'GET', path: '/healthz', scope: 'open', run: () => ({ json: { status: 'ok' } }) },
    { method: 'GET', path: '/readyz', scope: 'open', run: () => readiness(desk) },
    { method: 'GET', path: '/metrics', scope: 'open', run: () => metrics(desk) },
    { method: 'GET', path: '/admin/v1/whoami', scope: 'read', run: ({ scope }) => ({ json: { scope } }) },
    { method: 'GET', path: '/admin/v1/events', scope: 'read', run: (call) => events(desk, call) },
    { method: 'GET', path: '/admin/v1/top', scope: 'read', run: (call) => top(desk, call) },
    { method: 'GET', path: '/admin/v1/audit', scope: 'read', run: (call) => audit(desk, call) },
  ]
}

/** Decisions are made without the store too, so a service whose store is down is ready, and says so. */
function readiness({ options, telemetry, service }: Desk): Reply {
  const { state } = options.ready?.() ?? { state: 'ready' }
  const { degraded } = telemetry
  const status = state === 'ready' && degraded ? 'degraded' : state
  const json = { status, store: degraded ? 'down' : 'up', generation: service.rules.generation }
  return { status: state === 'ready' ? 200 : 503, json }
}

async function metrics({ telemetry }: Desk): Promise<Reply> {
  return { text: await telemetry.metrics(), type: telemetry.contentType }
}

function events({ events }: Desk, { req, res }: Call): undefined {
  events.open(req, res)
}

/** The keys that ask most, of one limit or of each. */
function top({ service, telemetry, mask, audit }: Desk, call: Call): Reply {
  const { query, reveal } = call
  const limit = query.get('limit')
  const n = countIn(query, 'n', { otherwise: 10, most: 100 })
  if (limit !== null) checkLimit(service, limit)
  const names = limit === null ? service.rules.limitNames : [limit]
  if (reveal) audit.record(call, 'reveal', limit === null ? {} : { limit })
  const limits = names.map((name) => ({
    name,
    keys: telemetry.top(name, n).map(({ key, count, error, denied }) => ({
      key: mask.encoded(key, reveal),
      count: Math.round(count),
      error: Math.round(error),
      denied: Math.round(denied),
    })),
  }))
  return { json: { halfLifeMs: HALF_LIFE_S * 1000, limits } }
}

function audit({ audit }: Desk, { query }: Call): Reply {
  return { json: { entries: audit.last(countIn(query, 'n', { otherwise: 100, most: 1_000 })) } }
}
