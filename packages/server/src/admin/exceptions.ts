import { randomUUID } from 'node:crypto'
import type { KeptBlock, KeptOverride } from '../service.ts'
import { readJson } from './body.ts'
import type { Desk } from './desk.ts'
import { countIn, key, limit, numberIn, optional, readFields, text } from './fields.ts'
import { AdminError } from './problem.ts'
import type { Call, Reply, Route } from './route.ts'
import { shown } from './show.ts'
import { checkTarget } from './target.ts'

const TEN_YEARS_MS = 315_360_000_000
const MOST_BLOCKS = 100_000

const common = {
  limit: text('the name of a limit', 100),
  key: optional(key),
  forMs: numberIn(1, TEN_YEARS_MS, true),
  reason: optional(text('why', 500)),
}

/** What holds for one key and a time: another limit, or none of its requests. */
export function exceptionRoutes(desk: Desk): Route[] {
  return [
    { method: 'GET', path: '/admin/v1/overrides', scope: 'read', run: (call) => list(desk, call, 'overrides') },
    { method: 'POST', path: '/admin/v1/overrides', scope: 'write', run: (call) => override(desk, call) },
    { method: 'DELETE', path: '/admin/v1/overrides/:', scope: 'write', run: (call) => lift(desk, call, 'overrides') },
    { method: 'GET', path: '/admin/v1/blocks', scope: 'read', run: (call) => list(desk, call, 'blocks') },
    { method: 'POST', path: '/admin/v1/blocks', scope: 'write', run: (call) => block(desk, call) },
    { method: 'DELETE', path: '/admin/v1/blocks/:', scope: 'write', run: (call) => lift(desk, call, 'blocks') },
  ]
}

type Kind = 'overrides' | 'blocks'

function list({ service, mask, audit }: Desk, call: Call, kind: Kind): Reply {
  const { query, reveal } = call
  const n = countIn(query, 'n', { otherwise: 1_000, most: 100_000 })
  const limit = query.get('limit')
  const all: readonly (KeptOverride | KeptBlock)[] = service[kind]
  const found = all.filter((each) => limit === null || each.limit === limit)
  if (reveal) audit.record(call, 'reveal', limit === null ? {} : { limit })
  return { json: { total: found.length, [kind]: found.slice(-n).map((each) => shown(each, mask, reveal)) } }
}

async function override({ service, audit, mask, nowMs }: Desk, call: Call): Promise<Reply> {
  const { to, ...fields } = readFields(await readJson(call.req), { ...common, to: limit })
  const kept = { ...keptOf(fields, call, nowMs()), to }
  checkTarget(service, kept.limit, kept.key)
  const { override: before } = service.exceptionsOf(kept.limit, kept.key)
  service.override(kept)
  const { limit: name, key, id, reason, untilMs } = kept
  const ended = before && { to: before.to, untilMs: before.untilMs }
  audit.record(call, 'override', { limit: name, key, id, reason, before: ended, after: { to, untilMs } })
  return created(`/admin/v1/overrides/${id}`, shown(kept, mask, call.reveal))
}

async function block({ service, audit, mask, nowMs }: Desk, call: Call): Promise<Reply> {
  const kept = keptOf(readFields(await readJson(call.req), common), call, nowMs())
  checkTarget(service, kept.limit, kept.key)
  if (service.blocks.length >= MOST_BLOCKS)
    throw new AdminError('too_many', `There are ${MOST_BLOCKS} blocks: lift some.`)
  const { block: before } = service.exceptionsOf(kept.limit, kept.key)
  await service.block(kept)
  const { limit: name, key, id, reason, untilMs } = kept
  audit.record(call, 'block', {
    limit: name,
    key,
    id,
    reason,
    before: before && { untilMs: before.untilMs },
    after: { untilMs },
  })
  return created(`/admin/v1/blocks/${id}`, shown(kept, mask, call.reveal))
}

interface Fields extends Pick<KeptBlock, 'limit'> {
  readonly key?: KeptBlock['key'] | undefined
  readonly forMs: number
  readonly reason?: string | undefined
}

function keptOf({ limit, key, forMs, reason = '' }: Fields, { who }: Call, nowMs: number): KeptBlock {
  return { id: randomUUID(), limit, ...(key !== undefined && { key }), untilMs: nowMs + forMs, reason, by: who }
}

function created(location: string, json: object): Reply {
  return { status: 201, headers: { Location: location }, json }
}

async function lift({ service, audit }: Desk, call: Call, kind: Kind): Promise<Reply> {
  const [id = ''] = call.params
  const all: readonly (KeptOverride | KeptBlock)[] = service[kind]
  const kept = all.find((each) => each.id === id)
  const lifted = kept !== undefined && (kind === 'blocks' ? await service.liftBlock(id) : service.liftOverride(id))
  if (!lifted) throw new AdminError('id_unknown', `None of the ${kind} has this id; it may have ended.`)
  const { limit, key, untilMs } = kept
  const before = 'to' in kept ? { to: kept.to, untilMs } : { untilMs }
  audit.record(call, kind === 'blocks' ? 'unblock' : 'lift-override', { limit, key, id, before })
  return { status: 204 }
}
