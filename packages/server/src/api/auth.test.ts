import { describe, expect, test } from 'vitest'
import { startApi } from '../../test/api.ts'

const rules = `
identify: { trustedProxies: [127.0.0.0/8] }
limits:
  per-ip: { limit: 2/min, by: [ip] }
  writes: { limit: 1/min, by: [ip], when: { path: /write/**, method: POST, host: api.example } }
`
const nginx = (path: string, ip: string, more = {}) => ({
  'X-Original-URI': path,
  'X-Original-Method': 'POST',
  'X-Original-Host': 'api.example',
  'X-Forwarded-For': ip,
  ...more,
})

describe('forward-auth', () => {
  test('lets pass with 204 and the header fields of the limits, and refuses with 429', async () => {
    const { get } = await startApi(rules)
    const first = await get('/v1/auth', nginx('/read', '192.0.2.1'))
    expect([first.status, first.headers.get('ratelimit')]).toEqual([204, '"per-ip";r=1;t=30'])
    expect(first.headers.get('x-ratelimit-limit')).toBe('2')
    expect((await get('/v1/auth', nginx('/read', '192.0.2.2'))).status).toBe(204)
    await get('/v1/auth', nginx('/read', '192.0.2.1'))
    const denied = await get('/v1/auth', nginx('/read', '192.0.2.1'))
    expect([denied.status, denied.headers.get('retry-after')]).toEqual([429, '30'])
    expect(denied.headers.get('content-type')).toBe('application/problem+json')
    expect(denied.body).toMatchObject({ code: 'rate_limited', limit: 'per-ip', status: 429 })
  })

  test.each([
    ['nginx', nginx('/write/1', '192.0.2.1')],
    [
      'ingress-nginx',
      nginx('', '192.0.2.1', { 'X-Original-URI': undefined, 'X-Original-URL': 'https://api.example/write/1' }),
    ],
    [
      'Traefik or Caddy',
      {
        'X-Forwarded-Uri': '/write/1',
        'X-Forwarded-Method': 'POST',
        'X-Forwarded-Host': 'api.example',
        'X-Forwarded-For': '192.0.2.1',
      },
    ],
  ])('judges the request that %s asks about', async (_name, headers) => {
    const { get } = await startApi(rules)
    const fields = Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== undefined))
    expect((await get('/v1/auth', fields as Record<string, string>)).status).toBe(204)
    expect((await get('/v1/auth', fields as Record<string, string>)).body).toMatchObject({ limit: 'writes' })
  })

  test('believes nobody how much a request matters: proxies hand on all that a client sends', async () => {
    const fleet = 'overload: { header: x-priority, fleet: { limit: 2/day, reserve: 50 } }'
    const { get } = await startApi(`identify: { trustedProxies: loopback }\n${fleet}\nlimits: {}`)
    const critical = nginx('/read', '192.0.2.1', { 'X-Priority': 'critical' })
    const statuses = [await get('/v1/auth', critical), await get('/v1/auth', critical)].map(({ status }) => status)
    expect(statuses).toEqual([204, 503])
  })

  test('believes nobody who is not trusted', async () => {
    const { get } = await startApi(rules.replace('127.0.0.0/8', '10.0.0.0/8'))
    const statuses = []
    for (const ip of ['192.0.2.1', '192.0.2.2', '192.0.2.3'])
      statuses.push((await get('/v1/auth', nginx(`/${ip}`, ip))).status)
    expect(statuses).toEqual([204, 204, 429])
  })

  test('lets no client choose what is judged by fields that its proxy does not write', async () => {
    const { get } = await startApi(rules)
    const { status, body } = await get('/v1/auth', nginx('/write/1', '192.0.2.1', { 'X-Forwarded-Uri': '/free' }))
    expect([status, body.code]).toEqual([400, 'ambiguous_request'])
  })

  test('refuses with the status that nginx understands', async () => {
    const { get } = await startApi(rules)
    for (let i = 0; i < 2; i++) await get('/v1/auth?denied=403', nginx('/', '192.0.2.1'))
    const denied = await get('/v1/auth?denied=403', nginx('/', '192.0.2.1'))
    expect([denied.status, denied.headers.get('retry-after')]).toEqual([403, '30'])
    expect(denied.body).toMatchObject({ code: 'rate_limited', status: 403 })
    expect((await get('/v1/auth?denied=200', nginx('/', '192.0.2.9'))).status).toBe(400)
  })

  test('answers 400 who does not say who it is, or the status that nginx understands', async () => {
    const { get } = await startApi('limits: { per-key: { limit: 1/min, by: [api-key] } }')
    const { status, body } = await get('/v1/auth')
    expect([status, body.code]).toEqual([400, 'HG_KEY_MISSING'])
    expect((await get('/v1/auth?denied=403')).status).toBe(403)
  })

  test('judges in-flight limits without holding their slots', async () => {
    const { get, post } = await startApi('limits: { busy: { atOnce: 1 } }')
    for (let i = 0; i < 3; i++) expect((await get('/v1/auth')).status).toBe(204)
    const { reservation } = (await post('/v1/take', { request: {} })).body
    expect((await get('/v1/auth')).status).toBe(503)
    await post('/v1/release', { reservation })
    expect((await get('/v1/auth')).status).toBe(204)
  })

  test('works with any method', async () => {
    const { url } = await startApi(rules)
    const { status } = await fetch(`${url}/v1/auth`, { method: 'PUT', body: 'x', headers: nginx('/', '192.0.2.1') })
    expect(status).toBe(204)
  })

  test('is for trusted proxies and holders of the token, where there is one', async () => {
    const trusting = await startApi(rules, { open: false, token: 't' })
    expect((await trusting.get('/v1/auth', nginx('/', '192.0.2.1', { Authorization: 'Bearer client' }))).status).toBe(
      204,
    )
    const other = await startApi('limits: { per-key: { limit: 1/min, by: [api-key] } }', { open: false, token: 't' })
    expect((await other.get('/v1/auth', { 'X-Api-Key': 'k' })).status).toBe(401)
    const told = await other.get('/v1/auth', { 'X-Api-Key': 'k', Authorization: 'Bearer t' })
    expect([told.status, told.headers.get('x-ratelimit-resource')]).toEqual([204, 'per-key'])
  })
})

describe('GET /rate_limit', () => {
  test("tells the caller's limits without spending", async () => {
    const { get } = await startApi(rules)
    const headers = { 'X-Forwarded-For': '192.0.2.1' }
    for (let i = 0; i < 3; i++) {
      const { status, body } = await get('/rate_limit', headers)
      const perIp = { limit: 2, remaining: 2, used: 0, reset: expect.any(Number) }
      expect([status, body]).toEqual([200, { resources: { 'per-ip': perIp }, rate: perIp }])
    }
    await get('/v1/auth', nginx('/', '192.0.2.1'))
    expect((await get('/rate_limit', headers)).body.rate).toMatchObject({ remaining: 1, used: 1 })
  })

  test('tells those of another path and method when asked', async () => {
    const { get } = await startApi(rules.replace(', host: api.example', ''))
    const { body } = await get('/rate_limit?path=/write/1&method=POST')
    expect(Object.keys(body.resources)).toEqual(['per-ip', 'writes'])
  })

  test('is open where decisions are not', async () => {
    const { get } = await startApi(rules, { open: false })
    expect((await get('/rate_limit')).status).toBe(200)
    expect((await get('/openapi.json')).status).toBe(200)
  })
})
