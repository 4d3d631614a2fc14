import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { startRedis } from '../../headgate/test/redis-server.ts'
import { until } from '../../headgate/test/until.ts'
import { startUpstream, type Upstream } from '../test/upstream.ts'
import { type Running, serve } from './serve.ts'

interface Status {
  readonly rate: { readonly reset: number }
}

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

async function upstream(...args: Parameters<typeof startUpstream>): Promise<Upstream> {
  const started = await startUpstream(...args)
  closing.push(() => started.close())
  return started
}

async function start(
  limits: string,
  more = '',
  env: Record<string, string> = {},
): Promise<Running & { url: string; file: string }> {
  const file = join(mkdtempSync(join(tmpdir(), 'headgate-')), 'headgate.yaml')
  writeFileSync(file, rulesOf(limits, more))
  const running = await serve({ file, env })
  closing.push(() => running.stop())
  return Object.assign(running, { file, url: `http://127.0.0.1:${running.port}` })
}

function rulesOf(limits: string, more = ''): string {
  return `${more}\nserver: { port: 0, adminPort: 0, grpcPort: false, host: 127.0.0.1, drainMs: 5000 }\nlimits:\n${limits}\n`
}

describe('the gateway', () => {
  test('lets through what the limits let, and tells callers on every response', async () => {
    const behind = await upstream()
    const { url } = await start('  per-ip: { limit: 2/min, by: [ip] }', `upstream: ${behind.url}`)
    const responses = [await fetch(url), await fetch(url), await fetch(url)]
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 429])
    expect(responses.map(({ headers }) => headers.get('x-ratelimit-remaining'))).toEqual(['1', '0', '0'])
    expect(await responses[0]?.text()).toBe('hello')
    // Of 30 seconds some may have passed since.
    expect(responses[2]?.headers.get('retry-after')).toMatch(/^(2[5-9]|30)$/)
    expect(await responses[2]?.json()).toMatchObject({ code: 'rate_limited', limit: 'per-ip' })
    expect(behind.got).toHaveLength(2)
  })

  test('goes on when rules come that say nothing of its upstream, and says that they need a restart', async () => {
    const behind = await upstream()
    const limits = '  per-ip: { limit: 100/min, by: [ip] }'
    const { url, file, adminPort, adminToken, service } = await start(limits, `upstream: ${behind.url}`)
    const put = await fetch(`http://127.0.0.1:${adminPort}/admin/v1/rules`, {
      method: 'PUT',
      body: rulesOf(limits),
      headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/yaml' },
    })
    expect([put.status, ((await put.json()) as { needsRestart: string[] }).needsRestart]).toEqual([200, ['upstream']])
    expect((await fetch(url)).status).toBe(200)
    const reload = await fetch(`http://127.0.0.1:${adminPort}/admin/v1/reload`, {
      method: 'POST',
      headers: { authorization: `Bearer ${adminToken}` },
    })
    expect(reload.status).toBe(200)
    const { generation } = service.rules
    writeFileSync(file, rulesOf(limits))
    await until('the file', () => service.rules.generation > generation || undefined)
    expect((await fetch(url)).status).toBe(200)
  })

  test('keeps every field of the upstream that comes more than once', async () => {
    const behind = await upstream((_req, res) => {
      res.writeHead(200, { 'Set-Cookie': ['a=1', 'b=2'], Link: ['</a>', '</b>'], 'X-Powered-By': 'E' }).end()
    })
    const { url } = await start('  per-ip: { limit: 2/min, by: [ip] }', `upstream: ${behind.url}`)
    const { headers } = await fetch(url)
    expect(headers.getSetCookie()).toEqual(['a=1', 'b=2'])
    expect(headers.get('link')).toBe('</a>, </b>')
    expect([headers.get('x-powered-by'), headers.get('x-ratelimit-remaining')]).toEqual(['E', '1'])
  })

  test('counts by key and route, where a rule matches', async () => {
    const behind = await upstream()
    const { url } = await start(
      '  exports: { limit: 1/min, by: [api-key, route], when: { path: /export/**, method: [GET] } }',
      `upstream: ${behind.url}`,
    )
    const ask = async (path: string, key: string, method = 'GET') =>
      (await fetch(url + path, { method, headers: { 'x-api-key': key } })).status
    expect(await ask('/export/a', 'one')).toBe(200)
    expect(await ask('/export/b', 'one')).toBe(429)
    expect(await ask('//export/./c/', 'one')).toBe(429)
    expect(await ask('/export/a', 'two')).toBe(200)
    expect(await ask('/export/a', 'one', 'POST')).toBe(200)
    expect(await ask('/other', 'one')).toBe(200)
  })

  test('holds back a request over a limit with a delay, and refuses what would be held longer', async () => {
    const behind = await upstream()
    const { url } = await start(
      `  pace: { limit: 20/s burst 1, algorithm: leaky-bucket, delayMs: 60000, when: { path: /pace } }
  hour: { limit: 1/h burst 1, algorithm: leaky-bucket, delayMs: 2000, when: { path: /hour } }`,
      `upstream: ${behind.url}`,
    )
    const startMs = performance.now()
    const paced = await Promise.all(Array.from({ length: 10 }, () => fetch(`${url}/pace`)))
    expect(performance.now() - startMs).toBeGreaterThanOrEqual(9 * 50 - 1)
    expect(paced.map(({ status }) => status)).toEqual(Array(10).fill(200))
    for (const { headers } of paced) expect(headers.get('x-ratelimit-limit')).toBe('1')
    expect((await fetch(`${url}/hour`)).status).toBe(200)
    const refused = await fetch(`${url}/hour`)
    expect([refused.status, Number(refused.headers.get('retry-after')) > 3500]).toEqual([429, true])
  })

  test('holds nobody back for longer than the time in which a request has to be done', async () => {
    const behind = await upstream()
    const { url } = await start(
      '  pace: { limit: 1/min burst 1, algorithm: leaky-bucket, delayMs: 60000 }',
      `upstream: ${behind.url}\noverload: { deadlineMs: 20000, utilisation: false }`,
    )
    expect([(await fetch(url)).status, (await fetch(url)).status]).toEqual([200, 429])
  })

  test('holds nobody back whom a limit without a delay refuses', async () => {
    const behind = await upstream()
    const { url } = await start(
      '  pace: { limit: 1/min burst 1, algorithm: leaky-bucket, delayMs: 60000, when: { path: /slow } }\n  all: { limit: 2/90s }',
      `upstream: ${behind.url}`,
    )
    expect([(await fetch(url)).status, (await fetch(url)).status, (await fetch(url)).status]).toEqual([200, 200, 429])
    const refused = await fetch(`${url}/slow`)
    expect([refused.status, await refused.json()]).toMatchObject([429, { limit: 'all' }])
  })

  test('whoever leaves while held back leaves no trace, and the upstream never hears of it', async () => {
    const behind = await upstream()
    const { url } = await start(
      '  pace: { limit: 1/min burst 1, algorithm: leaky-bucket, delayMs: 60000 }',
      `upstream: ${behind.url}`,
    )
    const reset = async () => ((await (await fetch(`${url}/rate_limit`)).json()) as Status).rate.reset
    await fetch(url)
    const before = await reset()
    const leaving = new AbortController()
    const held = fetch(url, { signal: leaving.signal })
    await until('a place in line', async () => (await reset()) > before + 50 || undefined)
    leaving.abort()
    await expect(held).rejects.toThrow()
    await until('it is taken back', async () => (await reset()) <= before + 1 || undefined)
    expect(behind.got).toHaveLength(1)
  })

  test('a request without the key that a rule asks for gets 400 with the code', async () => {
    const behind = await upstream()
    const { url } = await start('  per-key: { limit: 1/min, by: [api-key] }', `upstream: ${behind.url}`)
    const response = await fetch(url)
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ code: 'HG_KEY_MISSING' })
    expect(behind.got).toHaveLength(0)
  })

  test('counts only failed logins, and slots only while a request is in flight', async () => {
    const behind = await upstream((req, res) => {
      res.statusCode = req.url === '/login?wrong' ? 401 : 200
      res.end()
    })
    const { url } = await start(
      '  login: { limit: 2/min, by: [ip], when: { path: /login }, countWhen: { status: [401] } }\n  busy: { atOnce: 1 }',
      `upstream: ${behind.url}`,
    )
    const ask = async (path: string) => (await fetch(url + path)).status
    for (let i = 0; i < 5; i++) expect(await ask('/login')).toBe(200)
    expect([await ask('/login?wrong'), await ask('/login?wrong')]).toEqual([401, 401])
    await until('a refusal', async () => (await ask('/login')) === 429 || undefined)
  })

  test("an upstream's own limits are not mistaken for ours", async () => {
    const behind = await upstream((_req, res) => {
      res.setHeader('X-RateLimit-Limit', '7')
      res.setHeader('RateLimit', '"theirs";r=1')
      res.end()
    })
    const { url } = await start('  per-ip: { limit: 5/min, by: [ip] }', `upstream: ${behind.url}`)
    const { headers } = await fetch(url)
    expect(headers.get('x-ratelimit-limit')).toBe('5')
    expect(headers.get('ratelimit')).toBe('"per-ip";r=4;t=12')
  })

  test('tiers come from a header, from a table of hashed keys, or from a service', async () => {
    const behind = await upstream()
    const tiers = await upstream((_req, res) => void res.end('{"tier":"pro"}'))
    const limits = '  plan: { limit: { free: 1/min, pro: 3/min }, by: [api-key] }'
    const { createHash } = await import('node:crypto')
    const digest = createHash('sha256').update('secret').digest('hex')
    for (const [source, headers] of [
      ['header:x-plan', { 'x-api-key': 'secret', 'x-plan': 'pro' }],
      [`{ byKey: { ${digest}: pro } }`, { 'x-api-key': 'secret' }],
      [`{ url: ${tiers.url}/tiers }`, { 'x-api-key': 'secret' }],
    ] as const) {
      const { url } = await start(limits, `upstream: ${behind.url}\nidentify: { tier: ${source} }`)
      expect((await fetch(url, { headers })).headers.get('x-ratelimit-limit'), source).toBe('3')
    }
  })
})

describe('rules that change', () => {
  test('hold at once, keep what was counted, and raise the generation', async () => {
    const behind = await upstream()
    const running = await start('  per-ip: { limit: 10/day, by: [ip] }', `upstream: ${behind.url}`)
    for (let i = 0; i < 4; i++) await fetch(running.url)
    const { gate, generation } = running.service.rules
    expect(generation).toBe(1)
    expect(gate).toBeDefined()
    const file = running.file
    writeFileSync(file, rulesOf('  per-ip: { limit: 5/day, by: [ip] }', `upstream: ${behind.url}`))
    await until('new rules', () => running.service.rules.generation === 2 || undefined)
    const response = await fetch(running.url)
    expect(response.headers.get('x-ratelimit-limit')).toBe('5')
    expect(response.headers.get('x-ratelimit-remaining')).toBe('0')
  })

  test('may include files that were not there at the start, which are then watched too', async () => {
    const running = await start('  per-ip: { limit: 10/day, by: [ip] }')
    const more = join(dirname(running.file), 'more')
    mkdirSync(more)
    const extra = join(more, 'extra.yaml')
    writeFileSync(extra, 'limits: { extra: { limit: 5/day } }')
    writeFileSync(running.file, rulesOf('  per-ip: { limit: 10/day, by: [ip] }', 'include: [more]'))
    const extraIs = (limit: string) => () => running.service.rules.rules.limits.extra?.limit === limit || undefined
    await until('the included limit', extraIs('5/day'))
    writeFileSync(extra, 'limits: { extra: { limit: 6/day } }')
    await until('its change', extraIs('6/day'))
  })

  test('and are wrong, or empty, leave the last good ones in place', async () => {
    const running = await start('  per-ip: { limit: 10/day, by: [ip] }')
    const file = running.file
    for (const text of ['limits: { per-ip: { limt: 5/day } }', '', '{', 'limits: [1]']) {
      writeFileSync(file, text)
      expect(running.reload().length).toBeGreaterThan(0)
      expect(running.service.rules.rules.limits['per-ip']?.limit).toBe('10/day')
    }
    expect(running.service.rules.generation).toBe(1)
  })
})

describe('several instances', () => {
  test('on one Redis admit exactly the limit', async () => {
    const server = await startRedis()
    closing.push(() => server.stop())
    const behind = await upstream()
    const more = `upstream: ${behind.url}\nstore: redis://127.0.0.1:${server.port}/0\ntimeoutMs: 2000`
    const limits = '  per-ip: { limit: 50/h, by: [ip] }'
    const [one, two] = [await start(limits, more), await start(limits, more)]
    const asks = Array.from({ length: 120 }, (_, i) => fetch((i % 2 ? one : two).url))
    const statuses = (await Promise.all(asks)).map(({ status }) => status)
    expect(statuses.filter((status) => status === 200)).toHaveLength(50)
    expect(behind.got).toHaveLength(50)
  })
})

describe('an end', () => {
  test('waits for requests that were accepted', async () => {
    let answer = () => {}
    const behind = await upstream((_req, res) => {
      answer = () => void res.end('late')
    })
    const running = await start('  per-ip: { limit: 10/day, by: [ip] }', `upstream: ${behind.url}`)
    const response = fetch(running.url)
    await until('the request at the upstream', () => behind.got.length === 1 || undefined)
    const stopped = running.stop()
    await expect(fetch(running.url)).rejects.toThrow()
    answer()
    expect(await (await response).text()).toBe('late')
    await stopped
  })
})

describe('rules that were put', () => {
  test('hold until somebody reads the file again, in all instances', async () => {
    const server = await startRedis()
    closing.push(() => server.stop())
    const more = `store: redis://127.0.0.1:${server.port}/0\ntimeoutMs: 2000`
    const limits = '  per-ip: { limit: 50/h, by: [ip] }'
    const env = { HEADGATE_ADMIN_TOKEN: 'token' }
    const [one, two] = [await start(limits, more, env), await start(limits, more, env)]
    const ask = (path: string, method: string, body?: string) =>
      fetch(`http://127.0.0.1:${one.adminPort}${path}`, {
        method,
        headers: { authorization: 'Bearer token', 'content-type': 'application/yaml' },
        ...(body !== undefined && { body }),
      })
    const put = await ask('/admin/v1/rules', 'PUT', rulesOf('  per-ip: { limit: 7/h, by: [ip] }', more))
    expect(put.status).toBe(200)
    const limitOf = ({ service }: Running) => service.rules.rules.limits['per-ip']?.limit
    await until('both', () => (limitOf(one) === '7/h' && limitOf(two) === '7/h') || undefined)
    expect((await ask('/admin/v1/reload', 'POST')).status).toBe(200)
    await until('both back', () => (limitOf(one) === '50/h' && limitOf(two) === '50/h') || undefined)
  })
})

test('SIGHUP at one instance brings the whole fleet back to the files', async () => {
  const server = await startRedis()
  closing.push(() => server.stop())
  const [limits, store] = ['  per-ip: { limit: 100/min, by: [ip] }', `store: redis://127.0.0.1:${server.port}`]
  const [one, two] = [await start(limits, store), await start(limits, store)]
  const limitOf = ({ service }: Running) => service.rules.rules.limits['per-ip']?.limit
  const put = await fetch(`http://127.0.0.1:${one.adminPort}/admin/v1/rules`, {
    method: 'PUT',
    body: rulesOf('  per-ip: { limit: 7/min, by: [ip] }', store),
    headers: { authorization: `Bearer ${one.adminToken}`, 'content-type': 'application/yaml' },
  })
  expect(put.status).toBe(200)
  await until('both', () => (limitOf(one) === '7/min' && limitOf(two) === '7/min') || undefined)
  expect(one.reload('SIGHUP')).toEqual([])
  await until('both back', () => (limitOf(one) === '100/min' && limitOf(two) === '100/min') || undefined)
})
