import type { Store } from 'headgate'
import { describe, expect, test } from 'vitest'
import { canStartRedis } from '../../../headgate/test/redis-server.ts'
import { rig } from '../../../headgate/test/redis-store.ts'
import { READ, startAdmin } from '../../test/admin.ts'

const minute = { forMs: 60_000, reason: 'a test' }

describe('a key', () => {
  test('is looked at without spending', async () => {
    const { ask, take } = await startAdmin()
    await take('k1')
    for (const _ of [1, 2]) {
      const { status, json } = await ask('GET', '/admin/v1/keys/per-key/k1', { token: READ })
      expect(status).toBe(200)
      expect(json).toMatchObject({ name: 'per-key', ok: true, limit: 10, used: 1, remaining: 9, windowMs: 60_000 })
      expect(json).toMatchObject({ mode: 'enforce', degraded: false, override: null, block: null })
      expect(json.reset).toBeGreaterThan(Date.now() / 1000 - 1)
    }
  })

  test('of several parts has a segment for each, percent-encoded', async () => {
    const { ask, take } = await startAdmin()
    await take('a/b', '/export/x')
    const route = encodeURIComponent('/export/**')
    const { json } = await ask('GET', `/admin/v1/keys/exports/a%2Fb/${route}`)
    expect(json).toMatchObject({ limit: 4, used: 1, key: [expect.any(String), expect.any(String)] })
    const revealed = await ask('GET', `/admin/v1/keys/exports/a%2Fb/${route}?reveal=true`)
    expect(revealed.json.key).toEqual(['a/b', '/export/**'])
  })

  test('has none where the limit is one counter for everybody', async () => {
    const { ask, take } = await startAdmin()
    await take('k1')
    expect((await ask('GET', '/admin/v1/keys/busy')).json).toMatchObject({ limit: 1000, used: 1 })
    expect((await ask('GET', '/admin/v1/keys/busy/k1')).json.code).toBe('bad_key')
  })

  test('is shown under every tier, or the one in question', async () => {
    const { ask, take } = await startAdmin()
    await take('k1', '/plan', { 'x-plan': 'free' })
    const all = await ask('GET', '/admin/v1/keys/plan/k1')
    expect(all.json.tiers).toMatchObject({ free: { remaining: 4 }, pro: { remaining: 49 } })
    const one = await ask('GET', '/admin/v1/keys/plan/k1?tier=pro')
    expect(Object.keys(one.json.tiers)).toEqual(['pro'])
    expect((await ask('GET', '/admin/v1/keys/plan/k1?tier=gold')).json.code).toBe('bad_query')
    expect((await ask('GET', '/admin/v1/keys/per-key/k1?tier=pro')).json.code).toBe('bad_query')
  })

  test('is as new after a reset, and nobody else is', async () => {
    const { ask, take } = await startAdmin()
    for (const key of ['k1', 'k2']) for (let i = 0; i < 11; i++) await take(key)
    expect((await ask('DELETE', '/admin/v1/keys/per-key/k1')).status).toBe(204)
    expect((await take('k1')).ok).toBe(true)
    expect((await take('k2')).ok).toBe(false)
  })
})

function exceptions(make: () => Promise<{ store?: Store }>) {
  test('an override holds for its key until it is lifted, and what was used stays used', async () => {
    const { ask, take } = await startAdmin(await make())
    for (let i = 0; i < 11; i++) await take('k1')
    const body = { limit: 'per-key', key: 'k1', to: '100/min', ...minute }
    const made = await ask('POST', '/admin/v1/overrides', { body })
    expect([made.status, made.json.to, made.json.by]).toEqual([201, '100/min', 'write 127.0.0.1'])
    expect((await take('k1')).ok).toBe(true)
    const seen = await ask('GET', '/admin/v1/keys/per-key/k1')
    expect(seen.json).toMatchObject({ limit: 100, override: { id: made.json.id, to: '100/min', reason: 'a test' } })
    expect((await ask('GET', '/admin/v1/overrides', { token: READ })).json).toMatchObject({
      total: 1,
      overrides: [{ id: made.json.id, limit: 'per-key' }],
    })
    expect((await ask('DELETE', made.headers.location as string)).status).toBe(204)
    expect((await take('k1')).ok).toBe(false)
    expect((await ask('DELETE', made.headers.location as string)).json.code).toBe('id_unknown')
  })

  test('a block refuses its key until it is lifted', async () => {
    const { ask, take } = await startAdmin(await make())
    const made = await ask('POST', '/admin/v1/blocks', { body: { limit: 'per-key', key: 'k1', ...minute } })
    expect(made.status).toBe(201)
    expect((await take('k1')).ok).toBe(false)
    expect((await take('k2')).ok).toBe(true)
    const seen = await ask('GET', '/admin/v1/keys/per-key/k1')
    expect(seen.json).toMatchObject({ ok: false, block: { id: made.json.id } })
    expect((await ask('DELETE', made.headers.location as string)).status).toBe(204)
    expect((await take('k1')).ok).toBe(true)
    expect((await ask('GET', '/admin/v1/blocks')).json).toEqual({ total: 0, blocks: [] })
  })

  test('keys of several parts, and counters for everybody, can be blocked too', async () => {
    const { ask, take } = await startAdmin(await make())
    const body = { limit: 'exports', key: ['k1', '/export/**'], ...minute }
    expect((await ask('POST', '/admin/v1/blocks', { body })).status).toBe(201)
    expect((await take('k1', '/export/x')).violated).toEqual(['exports'])
    expect((await take('k2', '/export/x')).ok).toBe(true)
    expect((await ask('POST', '/admin/v1/blocks', { body: { limit: 'busy', ...minute } })).status).toBe(201)
    expect((await take('k2', '/export/x')).violated).toEqual(['busy'])
    expect((await ask('DELETE', '/admin/v1/keys/busy')).status).toBe(204)
    expect((await ask('GET', '/admin/v1/blocks')).json.total).toBe(1)
  })
}

describe('exceptions in memory', () => exceptions(async () => ({})))

describe.skipIf(!canStartRedis)('exceptions in Redis', () => {
  const own = rig()
  exceptions(async () => ({ store: await own.store() }))
})

test('a later exception for a key takes the place of the earlier one', async () => {
  const { ask, take } = await startAdmin()
  const override = (to: string, key: unknown) =>
    ask('POST', '/admin/v1/overrides', { body: { limit: 'per-key', key, to, ...minute } })
  const first = await override('0/min', 'k1')
  expect((await take('k1')).ok).toBe(false)
  await override('50/min', ['k1'])
  expect((await ask('GET', '/admin/v1/overrides')).json.total).toBe(1)
  expect((await ask('DELETE', first.headers.location as string)).status).toBe(404)
  expect((await take('k1')).limits[0]?.limit).toBe(50)
})

test('exceptions outlive new rules', async () => {
  const { ask, take, service } = await startAdmin()
  await ask('POST', '/admin/v1/overrides', { body: { limit: 'per-key', key: 'k1', to: '0/min', ...minute } })
  service.replace(service.rules.rules, 'test')
  expect((await take('k1')).violated).toEqual(['per-key'])
})

test('what a store that is down cannot do is not said to be done', async () => {
  const store = { run: () => Promise.reject(new Error('gone')) }
  const { ask, lines } = await startAdmin({ store })
  for (const [method, path, body] of [
    ['POST', '/admin/v1/blocks', { limit: 'per-key', key: 'k1', ...minute }],
    ['DELETE', '/admin/v1/keys/per-key/k1', undefined],
  ] as const) {
    const { status, json, headers } = await ask(method, path, { body })
    expect([status, json.code, headers['retry-after']]).toEqual([503, 'store_failed', '1'])
  }
  expect((await ask('GET', '/admin/v1/blocks')).json.total).toBe(0)
  expect((await ask('GET', '/admin/v1/keys/per-key/k1')).json).toMatchObject({ degraded: 'local', remaining: 10 })
  expect(lines).toEqual([])
})
