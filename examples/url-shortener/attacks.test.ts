import { once } from 'node:events'
import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterEach, expect, test, vi } from 'vitest'
import { until } from '../../packages/headgate/test/until.ts'
import type { Links } from './links.ts'
import { address, HERE, onEachStore, raw, type Shortener, spend, statuses, usage } from './rig.ts'

afterEach(() => vi.restoreAllMocks())

onEachStore((start) => {
  test('an invented X-Forwarded-For makes no new caller where no proxy is trusted', async () => {
    const app = await start({ trustProxy: undefined })
    expect(await statuses(130, (i) => app.create({ from: address(i) }))).toEqual({ 201: 100, 429: 30 })
  })

  test('behind a trusted proxy only the entry that it wrote counts', async () => {
    const app = await start()
    const forged = (i: number) => app.create({ from: `${address(i)}, 198.51.100.7` })
    expect(await statuses(130, forged)).toEqual({ 201: 100, 429: 30 })
    expect((await app.create({ from: '198.51.100.8' })).status).toBe(201)
  })

  test('one home with IPv6 is one caller, whichever of its addresses it uses', async () => {
    const app = await start()
    const roaming = (i: number) => app.create({ from: `2001:db8:1:2::${(i + 1).toString(16)}` })
    expect(await statuses(110, roaming)).toEqual({ 201: 100, 429: 10 })
    expect((await app.create({ from: '2001:db8:1:3::1' })).status).toBe(201)
  })

  test('no spelling of a path leads to a link without being counted', async () => {
    const app = await start()
    const { code } = (await (await app.create()).json()) as { code: string }
    const spellings = spellingsOf(code)
    let found = 0
    for (const path of spellings) {
      const before = await lookups(app)
      const { status } = await raw(app.port, 'GET', path)
      expect([302, 400, 404], path).toContain(status)
      if (status !== 302) continue
      found++
      expect((await lookups(app)) - before, path).toBe(1)
    }
    expect(found).toBeGreaterThanOrEqual(4)
    const { remaining = 0 } = (await usage(app)).lookup ?? {}
    await spend(app, 'lookup', HERE, remaining)
    for (const path of [...spellings, `/${code}/stats`, `/${code}/stats/`]) {
      const { status, location } = await raw(app.port, 'GET', path)
      expect([400, 404, 429], path).toContain(status)
      expect(location, path).toBeUndefined()
    }
  })

  test('HEAD, stats and codes that do not exist count as lookups', async () => {
    const app = await start()
    for (const [method, path] of [
      ['HEAD', '/unknown0'],
      ['GET', '/unknown0'],
      ['GET', '/unknown0/stats'],
      ['GET', '/%00%00'],
    ] as const)
      expect((await raw(app.port, method, path)).status).toBe(404)
    expect(await lookups(app)).toBe(4)
  })

  test.each<[what: string, status: number, body: string | Uint8Array | undefined, headers?: Record<string, string>]>([
    ['no body', 400, undefined],
    ['no JSON', 400, '{"url":'],
    ['another kind of JSON', 400, '["https://example.com/"]'],
    ['null', 400, 'null'],
    ['text', 400, 'https://example.com/', { 'Content-Type': 'text/plain' }],
    ['bytes', 400, new Uint8Array(256).fill(255)],
    ['no address', 400, '{}'],
    ['a number', 400, '{"url":5}'],
    ['an object with a prototype', 400, '{"__proto__":{"url":"https://example.com/"}}'],
    ['no URL', 400, '{"url":"example"}'],
    ['an empty URL', 400, '{"url":""}'],
    ['a script', 400, '{"url":"javascript:alert(1)"}'],
    ['a file', 400, '{"url":"file:///etc/passwd"}'],
    ['a URL that is too long', 400, JSON.stringify({ url: `https://example.com/${'x'.repeat(2_030)}` })],
    ['a URL that is too long once encoded', 400, JSON.stringify({ url: `https://example.com/${'é'.repeat(1_000)}` })],
    ['a huge body', 413, JSON.stringify({ url: `https://example.com/${'x'.repeat(1_000_000)}` })],
    ['a small body that unpacks to a huge one', 413, gzipSync('x'.repeat(1_000_000)), { 'Content-Encoding': 'gzip' }],
    ['a charset from nowhere', 415, '{}', { 'Content-Type': 'application/json; charset=klingon' }],
    ['an unknown API key', 401, '{"url":"https://example.com/"}', { Authorization: 'Bearer wrong' }],
    ['another kind of credentials', 401, '{"url":"https://example.com/"}', { Authorization: 'Basic ZnJlZQ==' }],
  ])('%s is answered with a problem and costs nothing', async (_what, status, body, headers = {}) => {
    const app = await start()
    const usual = { Authorization: 'Bearer free', 'Content-Type': 'application/json' }
    const response = await fetch(`${app.url}/shorten`, { method: 'POST', headers: { ...usual, ...headers }, body })
    expect(response.status).toBe(status)
    expect(response.headers.get('content-type')).toMatch(/^application\/problem\+json/)
    expect(await response.json()).toMatchObject({ status, title: expect.any(String), detail: expect.any(String) })
    await expectNothingSpent(app)
    expect((await app.create()).status).toBe(201)
  })

  test('creating takes an account', async () => {
    const app = await start()
    const response = await app.create({ key: '' })
    expect(response.status).toBe(401)
    expect(response.headers.get('www-authenticate')).toBe('Bearer')
    await expectNothingSpent(app)
  })

  test.each([
    ['GET', '/shorten', 'POST'],
    ['PUT', '/shorten', 'POST'],
    ['OPTIONS', '/shorten', 'POST'],
    ['POST', '/unknown0', 'GET, HEAD'],
    ['DELETE', '/unknown0', 'GET, HEAD'],
    ['PATCH', '/unknown0/stats', 'GET, HEAD'],
    ['POST', '/rate_limit', 'GET, HEAD'],
  ])('%s %s is told the methods that there are, and costs nothing', async (method, path, allow) => {
    const app = await start()
    const response = await fetch(app.url + path, { method, headers: { Authorization: 'Bearer free' } })
    expect([response.status, response.headers.get('allow')]).toEqual([405, allow])
    await expectNothingSpent(app)
  })

  test('what is no HTTP, or half of it, disturbs nobody else', async () => {
    const app = await start()
    const nonsense = ['\0\0\0', 'GET', 'GET /\n\n', 'POST /shorten HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{']
    for (const bytes of nonsense) {
      const socket = connect(app.port, '127.0.0.1')
      await once(socket, 'connect')
      socket.on('error', () => {}).end(bytes)
      socket.resume()
      await once(socket, 'close')
    }
    await expectNothingSpent(app)
    expect((await app.create()).status).toBe(201)
  })

  test('a create or lookup that fails by our fault is given back', async () => {
    vi.spyOn(console, 'error').mockImplementation(() => {})
    const broken = () => Promise.reject(new Error('disk full'))
    const links: Links = { add: broken, find: broken, visit: broken, visits: broken }
    const app = await start({ links })
    for (const response of [await app.create(), await app.get('/unknown0')]) {
      expect(response.status).toBe(500)
      expect(await response.text()).not.toContain('disk')
    }
    await until('all given back', async () => (await spent(app)) === 0 || undefined)
  })

  test('a code that is taken is not given twice', async () => {
    vi.spyOn(console, 'error').mockImplementation(() => {})
    let taken = 2
    const stored = new Set<string>()
    const add = async (code: string) => (taken-- > 0 ? false : Boolean(stored.add(code)))
    const nothing = async () => undefined
    const app = await start({ links: { add, find: nothing, visit: nothing, visits: async () => 0 } })
    const response = await app.create()
    expect(stored).toContain(((await response.json()) as { code: string }).code)
    taken = 3
    expect((await app.create()).status).toBe(500)
  })
})

function spellingsOf(code: string): string[] {
  const encoded = `%${code.charCodeAt(0).toString(16)}${code.slice(1)}`
  const all = [...code].map((each) => `%${each.charCodeAt(0).toString(16)}`).join('')
  const paths = [code, `/${code}`, `//${code}`, `./${code}`, `x/../${code}`, `%2F${code}`, encoded, all, `${code}/`]
  const more = [
    `${code}//`,
    `${code}/.`,
    `${code};a=1`,
    `${code}?a=1`,
    `${code}#a`,
    `${code}%20`,
    `${code}%`,
    `%ff${code}`,
  ]
  return [...paths, ...more, `\\${code}`].map((path) => `/${path}`).concat(`http://elsewhere/${code}`)
}

async function lookups(app: Shortener): Promise<number> {
  return (await usage(app)).lookup?.used ?? Number.NaN
}

async function spent(app: Shortener): Promise<number> {
  const all = Object.values(await usage(app, { key: 'free' }))
  return all.reduce((sum, { used }) => sum + used, 0)
}

async function expectNothingSpent(app: Shortener): Promise<void> {
  expect(await spent(app)).toBe(0)
  expect(await app.stored()).toBe(0)
}
