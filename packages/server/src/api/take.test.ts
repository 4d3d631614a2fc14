import { once } from 'node:events'
import { createServer } from 'node:http'
import { memory, type Store } from 'headgate'
import { describe, expect, onTestFinished, test } from 'vitest'
import { rig } from '../../../headgate/test/redis-store.ts'
import { type Body, startApi } from '../../test/api.ts'
import { sha256 } from '../rules/caller.ts'

const redis = rig()
const rules = `
identify: { trustedProxies: [10.0.0.0/8], tier: header:x-plan }
limits:
  per-key: { limit: 3/min, by: [api-key], when: { path: { not: [/plain/**, /plans/**] } } }
  per-ip: { limit: 5/min, by: [ip], when: { host: { not: free.example } } }
  heavy: { limit: 100/h, by: [api-key], when: { path: /export/**, method: POST }, cost: 10 }
  plan: { limit: { free: 10/day, pro: unlimited }, by: [api-key], when: { path: /plans/** } }
`
const of = (key: string, more = {}) => ({
  request: { method: 'GET', path: '/', ip: '192.0.2.1', headers: { 'X-Api-Key': key }, ...more },
})

describe.each([
  ['memory', async (): Promise<Store> => memory()],
  ['Redis', async (): Promise<Store> => redis.store()],
])('decisions on %s', (_name, store) => {
  const start = async () => startApi(rules, { store: await store() })

  test('a name that is too long to keep is refused', async () => {
    const { post } = await start()
    const { status, body } = await post('/v1/take', { limits: { ['a'.repeat(101)]: { limit: '1/min', key: 'k' } } })
    expect([status, body]).toMatchObject([400, { pointer: '/limits' }])
  })

  test('a key that is told twice, and not alike, is none', async () => {
    const { post } = await start()
    const twice = (...keys: string[]) => ({ request: { ip: '192.0.2.1', headers: { 'x-api-key': keys } } })
    const { body } = await post('/v1/take', [twice('a', 'b'), twice('a', 'a')])
    expect(body).toMatchObject([{ error: { code: 'HG_KEY_MISSING' } }, { ok: true }])
  })

  test('answer with what was decided, and a reservation when it was admitted', async () => {
    const { post } = await start()
    const { status, body, headers } = await post('/v1/take', of('a'))
    expect([status, headers.get('content-type')]).toEqual([200, 'application/json'])
    expect(body).toEqual({
      ok: true,
      limit: 'per-key',
      violated: [],
      remaining: 2,
      retryAfterMs: 0,
      resetAfterMs: expect.any(Number),
      degraded: false,
      limits: [
        expect.objectContaining({ name: 'per-key', ok: true, limit: 3, remaining: 2, windowMs: 60_000, key: 'a' }),
        expect.objectContaining({ name: 'per-ip', ok: true, limit: 5, remaining: 4, key: '192.0.2.1' }),
      ],
      reservation: expect.any(String),
    })
  })

  test('are 200 also when refused, say why and for how long, and charge nothing', async () => {
    const { post } = await start()
    const { body } = await post('/v1/take', { ...of('a'), cost: 4 })
    expect(body).toMatchObject({ ok: false, limit: 'per-key', violated: ['per-key'], retryAfterMs: null })
    expect(body).not.toHaveProperty('reservation')
    await post('/v1/take', { ...of('a'), cost: 3 })
    const refused = await post('/v1/take', of('a'))
    expect(refused.status).toBe(200)
    expect(refused.body.retryAfterMs).toBeGreaterThan(0)
    expect((await post('/v1/peek', of('b'))).body.limits[1]?.remaining).toBe(2)
  })

  test('look without spending when asked to', async () => {
    const { post } = await start()
    for (let i = 0; i < 5; i++) {
      const { body } = await post('/v1/peek', { ...of('a'), id: 'x' })
      expect(body).toMatchObject({ ok: true, remaining: 3 })
      expect(body).not.toHaveProperty('reservation')
    }
  })

  test('are not charged twice for one id', async () => {
    const { post } = await start()
    const one = await post('/v1/take', { ...of('a'), id: 'x', cost: 2 })
    const two = await post('/v1/take', { ...of('a'), id: 'x', cost: 2 })
    expect([two.body.ok, two.body.remaining]).toEqual([true, one.body.remaining])
    expect((await post('/v1/peek', of('a'))).body.remaining).toBe(1)
  })

  test('take the address as it is given, whatever the headers say of proxies', async () => {
    const { post } = await start()
    const headers = { 'x-forwarded-for': '203.0.113.9', Forwarded: 'for=203.0.113.9' }
    const { body } = await post('/v1/take', { request: { path: '/plain/x', ip: '10.0.0.1', headers } })
    expect(body.limits.map(({ key }) => key)).toEqual(['10.0.0.1'])
  })

  test('know method, path, host and header values', async () => {
    const { post } = await start()
    const post1 = await post(
      '/v1/take',
      of('a', { method: 'POST', path: '/export/../export//x?y=1', host: 'Free.Example' }),
    )
    expect(post1.body.limits.map(({ name, remaining }) => [name, remaining])).toEqual([
      ['per-key', 2],
      ['heavy', 90],
    ])
  })

  test('say nothing against a request that no limit concerns', async () => {
    const { post } = await startApi('limits: {}', { store: await store() })
    const { body } = await post('/v1/take', { request: { path: '/' } })
    expect(body).toMatchObject({ ok: true, limit: '', remaining: null, limits: [], reservation: expect.any(String) })
  })

  test('are made by limits that the call brings along, by name and key', async () => {
    const { post } = await start()
    const limits = {
      user: { limit: '2/day', key: 'u1' },
      tokens: { limit: { limit: 100, per: '1h' }, key: ['org', 7], cost: 30, algorithm: 'sliding-window' },
    }
    const { body } = await post('/v1/take', { limits })
    expect(body.limits.map(({ remaining }) => remaining)).toEqual([1, 70])
    expect((await post('/v1/take', { limits, cost: 2 })).body.violated).toEqual(['user'])
    const wider = { user: { limit: '10/day', key: 'u1' } }
    expect((await post('/v1/peek', { limits: wider })).body.remaining).toBe(9)
    expect((await post('/v1/peek', { limits: { user: { limit: '2/day', key: 'u2' } } })).body.remaining).toBe(2)
  })

  test('of such limits never meet those of the rules', async () => {
    const { post } = await start()
    await post('/v1/take', { limits: { 'per-key': { limit: '3/min', key: 'a' } }, cost: 3 })
    await post('/v1/take', { limits: { _: { limit: '3/min', key: 'a' } } })
    expect((await post('/v1/peek', of('a'))).body.remaining).toBe(3)
  })

  test('in a batch come in order, each with its own error in place', async () => {
    const { post } = await start()
    const { status, body } = await post<Body[]>('/v1/take', [
      of('a', { ip: '192.0.2.1' }),
      { ...of('a', { ip: '192.0.2.2' }), cost: 2 },
      { request: { path: '/', ip: '192.0.2.3', headers: {} } },
      of('a', { ip: '192.0.2.4' }),
      { limits: { x: { limit: 'often', key: 1 } } },
      { limit: {} },
      17,
      of('a', { path: '/plans/1', headers: { 'x-api-key': 'a', 'x-plan': 'gold' } }),
      { limits: { x: { limit: '1/min', key: '' } } },
    ])
    expect(status).toBe(200)
    expect(body.map(({ ok, error }) => ok ?? error.code)).toEqual([
      true,
      true,
      'HG_KEY_MISSING',
      false,
      'HG_LIMIT_TEXT',
      'unknown_field',
      'wrong_type',
      'HG_TIER_UNKNOWN',
      'HG_KEY_MISSING',
    ])
    expect(body[2]?.error).toMatchObject({ status: 400, pointer: '/2/request', title: 'Bad request' })
    expect(body[4]?.error.pointer).toBe('/4/limits/x')
    expect(body[5]?.error).toMatchObject({
      pointer: '/5/limit',
      detail: expect.stringContaining('did you mean "limits"?'),
    })
  })

  test('in a batch of a thousand are exact', async () => {
    const { post } = await startApi('limits: { all: { limit: 640/year } }', { store: await store() })
    const { body } = await post<Body[]>('/v1/take', Array(1000).fill({ request: {} }))
    const ok = body.map(({ ok }) => ok)
    expect(ok.indexOf(false)).toBe(640)
    expect(ok.filter(Boolean)).toHaveLength(640)
  })
})

test('a batch shares its way to Redis', async () => {
  const { post } = await startApi(rules, { store: await redis.store() })
  await post('/v1/take', of('warm'))
  const batch = Array.from({ length: 96 }, (_, i) => of(`k${i}`, { ip: `198.51.100.${i}` }))
  const calls = await redis.calls(() => post('/v1/take', batch))
  expect(calls.evalsha).toBeLessThanOrEqual(4)
})

test('more than a thousand items are refused', async () => {
  const { post } = await startApi(rules)
  const { status, body } = await post('/v1/take', Array(1001).fill(of('a')))
  expect([status, body.code]).toEqual([400, 'too_many_items'])
  expect((await post('/v1/take', [])).body).toEqual([])
})

test('ever new limits take no more memory than a thousand do', async () => {
  const { post } = await startApi('limits: {}')
  const batch = (from: number) =>
    Array.from({ length: 1000 }, (_, i) => ({ limits: { x: { limit: `${from + i + 1}/year`, key: 'same' } } }))
  for (const from of [0, 1000, 2000]) await post('/v1/take', batch(from))
  // The counts are those of name and key: all of them met.
  expect((await post('/v1/peek', { limits: { x: { limit: '10000/year', key: 'same' } } })).body.remaining).toBe(7000)
})

test('items wait for a tier that somebody else tells, and stay in order', async () => {
  const tiers = await startTiers()
  const { post } = await startApi(`
identify: { tier: { url: '${tiers}/{key}', cacheMs: 0 } }
limits: { plan: { limit: { slow: 2/min, fast: 2/min }, by: [ip] } }
`)
  const from = (key: string) => of(key, { ip: '192.0.2.7' })
  const { body } = await post<Body[]>('/v1/take', [from('slow'), from('fast'), from('fast')])
  expect(body.map(({ ok }) => ok)).toEqual([true, true, false])
})

/** Tells tiers by the hash of a key, that of the first one last. */
async function startTiers(): Promise<string> {
  const waiting: (() => void)[] = []
  const server = createServer((req, res) => {
    const isSlow = req.url === `/${sha256('slow')}`
    if (isSlow) waiting.push(() => res.end('slow'))
    else {
      res.end('fast')
      for (const each of waiting.splice(0)) each()
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`
}
