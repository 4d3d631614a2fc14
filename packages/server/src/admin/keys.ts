import type { Decision, Key } from 'headgate'
import { tiersOf } from '../config/index.ts'
import type { Desk } from './desk.ts'
import { AdminError } from './problem.ts'
import type { Call, Reply, Route } from './route.ts'
import { shown } from './show.ts'
import { checkTarget } from './target.ts'

/** A key of several parts has a segment for each: `/admin/v1/keys/exports/k1/%2Fexport`. One counter for everybody has none. */
export function keyRoutes(desk: Desk): Route[] {
  const path = '/admin/v1/keys/:/*'
  return [
    { method: 'GET', path, scope: 'read', run: (call) => inspect(desk, call) },
    { method: 'DELETE', path, scope: 'write', run: (call) => reset(desk, call) },
  ]
}

function targetOf({ service }: Desk, { params: [limit = '', ...parts] }: Call): { limit: string; key?: Key } {
  const key = parts.length > 0 ? parts : undefined
  checkTarget(service, limit, key)
  return key === undefined ? { limit } : { limit, key }
}

async function inspect(desk: Desk, call: Call): Promise<Reply> {
  const { service, mask, audit } = desk
  const { limit, key } = targetOf(desk, call)
  const { override, block } = service.exceptionsOf(limit, key)
  const tiers = override === undefined ? tiersAsked(desk, call, limit) : undefined
  const state =
    tiers === undefined
      ? await stateOf(desk, limit, key)
      : {
          tiers: Object.fromEntries(
            await Promise.all(tiers.map(async (tier) => [tier, await stateOf(desk, limit, key, tier)])),
          ),
        }
  if (call.reveal) audit.record(call, 'reveal', { limit, key })
  return {
    json: {
      name: limit,
      key: mask.key(key, call.reveal),
      ...service.modeOf(limit),
      ...state,
      override: override === undefined ? null : shown(override, mask, call.reveal),
      block: block === undefined ? null : shown(block, mask, call.reveal),
    },
  }
}

/** The tier in question, or all of them: only a request would say which one. */
function tiersAsked({ service }: Desk, { query }: Call, limit: string): string[] | undefined {
  const tiers = tiersOf(service.rules.limits[limit]?.limit)
  const asked = query.get('tier')
  if (tiers === undefined && asked !== null) throw new AdminError('bad_query', `Limit "${limit}" has no tiers.`)
  return tiers === undefined ? undefined : asked === null ? Object.keys(tiers) : [asked]
}

async function stateOf({ service, nowMs }: Desk, limit: string, key: Key | undefined, tier?: string): Promise<object> {
  const decision: Decision<unknown> = await service.inspect(limit, key, tier)
  const [state] = decision.limits
  if (state === undefined) return {}
  const { ok, limit: most, remaining, retryAfterMs, resetAfterMs, windowMs } = state
  const used = Math.max(0, most - remaining)
  const reset = Math.ceil((nowMs() + resetAfterMs) / 1000)
  const { degraded } = decision
  return {
    ok,
    limit: most,
    used: Number.isFinite(used) ? used : 0,
    remaining,
    retryAfterMs,
    resetAfterMs,
    reset,
    windowMs,
    degraded,
  }
}

async function reset(desk: Desk, call: Call): Promise<Reply> {
  const { limit, key } = targetOf(desk, call)
  const before = tiersAsked(desk, call, limit) === undefined ? await stateOf(desk, limit, key) : undefined
  await desk.service.reset(limit, key)
  desk.audit.record(call, 'reset', { limit, key, before })
  return { status: 204 }
}
