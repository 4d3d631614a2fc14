import { expect, test } from 'vitest'
import { HERE, HOUR, NOON, onEachStore, raw, spend, statuses } from './rig.ts'

const PROBLEM = {
  type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
  title: 'Too many requests',
  status: 429,
  code: 'rate_limited',
  docs: 'https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/',
}

onEachStore((start) => {
  test('a link is created, followed and counted', async () => {
    const app = await start()
    const url = 'https://example.com/a?b=ü&c=%20#d'
    const created = await app.create({ url })
    expect(created.status).toBe(201)
    const { code, ...body } = (await created.json()) as { code: string; url: string }
    expect(code).toMatch(/^[0-9A-Za-z]{8}$/)
    expect(body).toEqual({ url: new URL(url).href })
    expect(created.headers.get('location')).toBe(`/${code}`)
    for (let visits = 0; visits < 3; visits++) {
      const stats = (await (await app.get(`/${code}/stats`)).json()) as { createdAt: string }
      expect(stats).toEqual({ code, url: new URL(url).href, visits, createdAt: expect.any(String) })
      expect(new Date(stats.createdAt).toISOString()).toBe(stats.createdAt)
      const followed = await app.get(`/${code}`)
      expect([followed.status, followed.headers.get('location')]).toEqual([302, new URL(url).href])
      expect(followed.headers.get('cache-control')).toBe('no-store')
    }
  })

  test.each(['/unknown0', '/unknown0/stats', '/', '/a/b/c', '/x', '/favicon.ico'])('%s is not found', async (path) => {
    const app = await start()
    const response = await app.get(path)
    expect(response.status).toBe(404)
    expect(response.headers.get('content-type')).toMatch(/^application\/problem\+json/)
    expect(await response.json()).toMatchObject({ type: 'about:blank', title: 'Not Found', status: 404 })
  })

  test('every answer says what is left', async () => {
    const app = await start()
    const created = await app.create()
    expect(limitFields(created)).toEqual({
      ratelimit: '"create-ip";r=99;t=3960, "create-account";r=999;t=43200',
      'ratelimit-policy': '"create-ip";q=100;w=3600, "create-account";q=1000;w=86400',
      'x-ratelimit-limit': '100',
      'x-ratelimit-remaining': '99',
      'x-ratelimit-reset': String((NOON + 1.1 * HOUR) / 1000),
      'x-ratelimit-resource': 'create-ip',
    })
    expect(limitFields(await app.get('/unknown0'))).toEqual({
      ratelimit: '"lookup";r=999;t=1',
      'ratelimit-policy': '"lookup";q=1000;w=60',
      'x-ratelimit-limit': '1000',
      'x-ratelimit-remaining': '999',
      'x-ratelimit-reset': String(NOON / 1000 + 1),
      'x-ratelimit-resource': 'lookup',
    })
  })

  test('a refused create is told by which limit, what is left, when to come back and where to read', async () => {
    const app = await start()
    await statuses(100, () => app.create())
    const denied = await app.create()
    expect(denied.status).toBe(429)
    expect(limitFields(denied)).toEqual({
      'retry-after': '3960',
      ratelimit: '"create-ip";r=0;t=3960, "create-account";r=900;t=43200',
      'ratelimit-policy': '"create-ip";q=100;w=3600, "create-account";q=1000;w=86400',
      'x-ratelimit-limit': '100',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': String((NOON + 1.1 * HOUR) / 1000),
      'x-ratelimit-resource': 'create-ip',
    })
    expect(denied.headers.get('content-type')).toMatch(/^application\/problem\+json/)
    expect(await denied.json()).toEqual({
      ...PROBLEM,
      detail: 'Limit "create-ip" is used up. Try again in 3960 s.',
      limit: 'create-ip',
      'violated-policies': ['create-ip'],
      retryAfterMs: 3_960_000,
    })
  })

  test('a refused lookup is told as much, and HEAD the same without a body', async () => {
    const app = await start()
    await spend(app, 'lookup', HERE, 1_000)
    const denied = await app.get('/unknown0')
    expect(denied.status).toBe(429)
    expect(limitFields(denied)).toEqual({
      'retry-after': '1',
      ratelimit: '"lookup";r=0;t=1',
      'ratelimit-policy': '"lookup";q=1000;w=60',
      'x-ratelimit-limit': '1000',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': String(NOON / 1000 + 60),
      'x-ratelimit-resource': 'lookup',
    })
    expect(await denied.json()).toEqual({
      ...PROBLEM,
      detail: 'Limit "lookup" is used up. Try again in 60 ms.',
      limit: 'lookup',
      'violated-policies': ['lookup'],
      retryAfterMs: 60,
    })
    expect((await raw(app.port, 'HEAD', '/unknown0')).status).toBe(429)
  })

  test('GET /rate_limit tells all limits of the caller, spends nothing, and is never refused', async () => {
    const app = await start()
    await app.create()
    await spend(app, 'lookup', HERE, 1_000)
    const lookup = { limit: 1_000, remaining: 0, used: 1_000, reset: NOON / 1000 + 60 }
    const ip = { limit: 100, remaining: 99, used: 1, reset: (NOON + 1.1 * HOUR) / 1000 }
    const account = { limit: 1_000, remaining: 999, used: 1, reset: (NOON + 12 * HOUR) / 1000 }
    for (let i = 0; i < 3; i++) {
      const known = await app.get('/rate_limit', { key: 'free' })
      expect(known.status).toBe(200)
      const resources = { 'create-ip': ip, 'create-account': account, lookup }
      expect(await known.json()).toEqual({ resources, rate: lookup })
      const nobody = await app.get('/rate_limit')
      expect(await nobody.json()).toEqual({ resources: { 'create-ip': ip, lookup }, rate: lookup })
    }
    expect((await app.get('/rate_limit', { key: 'wrong' })).status).toBe(401)
  })
})

/** The fields about limits, as they came. */
function limitFields({ headers }: Response): Record<string, string> {
  return Object.fromEntries([...headers].filter(([name]) => /ratelimit|retry-after/.test(name)))
}
