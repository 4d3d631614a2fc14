import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { type AnyOptions, apps, type Running } from '../../test/apps.ts'
import { rig } from '../../test/redis-store.ts'
import { until } from '../../test/until.ts'
import { createGate, type HeaderState, memory, type Store } from '../index.ts'
import { fakeClock } from '../testing/index.ts'

const NOW = 1_800_000_000_000
const FIELDS = ['ratelimit', 'ratelimit-policy', 'x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset']

for (const app of apps) {
  describe(`on ${app.name}`, () => {
    const open: Running[] = []
    afterEach(async () => {
      for (const each of open.splice(0)) await each.close()
    })

    async function start(options: AnyOptions): Promise<Running> {
      const server = await app.start(options)
      open.push(server)
      return server
    }

    /** A clock that stands still makes every header predictable. */
    function still() {
      return { clock: fakeClock(NOW) }
    }

    test('every response says what is left', async () => {
      const { url } = await start({ limit: '10/min', ...still() })
      const response = await fetch(`${url}/ok`)
      expect(await response.text()).toBe('ok')
      expect(response.status).toBe(200)
      expect(Object.fromEntries(response.headers)).toMatchObject({
        'x-app': 'yes',
        ratelimit: '"default";r=9;t=6',
        'ratelimit-policy': '"default";q=10;w=60',
        'x-ratelimit-limit': '10',
        'x-ratelimit-remaining': '9',
        'x-ratelimit-reset': String(NOW / 1000 + 6),
        'x-ratelimit-resource': 'default',
      })
      expect(response.headers.has('retry-after')).toBe(false)
    })

    const kinds: [what: string, path: string, method: string, status: number][] = [
      ['a page that is not there', '/missing', 'GET', 404],
      ['304', '/not-modified', 'GET', 304],
      ['HEAD', '/ok', 'HEAD', 200],
      ['a stream', '/stream', 'GET', 200],
      ['POST', '/login', 'POST', 200],
    ]
    if (app.answersErrors) kinds.push(['an error of the app', '/throw', 'GET', 500])
    test.each(kinds)('%s has the headers too', async (_what, path, method, status) => {
      // Nest asks guards only about routes that there are.
      const unguarded = app.name.startsWith('nest') && status === 404
      const { url } = await start({ limit: '10/min', ...still() })
      const response = await fetch(url + path, { method })
      expect(response.status).toBe(status)
      for (const field of FIELDS) expect(response.headers.has(field), field).toBe(!unguarded)
      if (path === '/stream') expect(await response.text()).toBe('one two three')
    })

    test('a denied request gets 429, the wait, and a problem that says why', async () => {
      const { url } = await start({ limit: '2/min', ...still() })
      await fetch(`${url}/ok`)
      await fetch(`${url}/ok`)
      const denied = await fetch(`${url}/ok`)
      expect(denied.status).toBe(429)
      expect(denied.headers.get('retry-after')).toBe('30')
      expect(denied.headers.get('ratelimit')).toBe('"default";r=0;t=30')
      expect(denied.headers.get('content-type')).toMatch(/^application\/problem\+json/)
      expect(denied.headers.has('x-app')).toBe(false)
      expect(await denied.json()).toEqual({
        type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
        title: 'Too many requests',
        status: 429,
        detail: 'Limit "default" is used up. Try again in 30 s.',
        code: 'rate_limited',
        limit: 'default',
        'violated-policies': ['default'],
        retryAfterMs: 30_000,
        docs: 'https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/',
      })
    })

    test('a denied request is shown the page that the API has for it', async () => {
      const docs = 'https://example.com/docs/limits'
      const { url } = await start({ limit: '1/min', docs, ...still() })
      await fetch(`${url}/ok`)
      expect(await (await fetch(`${url}/ok`)).json()).toMatchObject({ code: 'rate_limited', docs })
    })

    test('a denied HEAD has no body and the next request on the connection is understood', async () => {
      const { port } = await start({ limit: '1/min', ...still() })
      const answers = await pipelined(port, ['GET /ok', 'HEAD /ok', 'GET /ok'])
      expect(answers.map((each) => each.status)).toEqual([200, 429, 429])
    })

    test('pipelined requests are decided one by one, in order', async () => {
      const { port } = await start({ limit: '2/min', ...still() })
      const answers = await pipelined(port, ['GET /ok', 'GET /ok', 'GET /ok', 'GET /ok'])
      expect(answers.map(({ status, remaining }) => [status, remaining])).toEqual([
        [200, '1'],
        [200, '0'],
        [429, '0'],
        [429, '0'],
      ])
    })

    test('a denied upload does not break its connection', async () => {
      const { url } = await start({ limit: '1/min', ...still() })
      await fetch(`${url}/ok`)
      const denied = await fetch(`${url}/login`, { method: 'POST', body: 'x'.repeat(200_000) })
      expect(denied.status).toBe(429)
      expect(await denied.json()).toMatchObject({ code: 'rate_limited' })
    })

    test('several limits are several items, the violated one first, and none is charged by a refusal', async () => {
      const { url } = await start({
        ...still(),
        limits: { day: { limit: '100/day' }, ip: { limit: '2/min', by: 'ip' }, all: { limit: '50/min' } },
      })
      await fetch(`${url}/ok`)
      await fetch(`${url}/ok`)
      const denied = await fetch(`${url}/ok`)
      expect(denied.status).toBe(429)
      expect(denied.headers.get('ratelimit')).toBe('"ip";r=0;t=30, "all";r=48;t=2, "day";r=98;t=864')
      expect(denied.headers.get('ratelimit-policy')).toBe('"ip";q=2;w=60, "all";q=50;w=60, "day";q=100;w=86400')
      expect(denied.headers.get('x-ratelimit-resource')).toBe('ip')
      expect(await denied.json()).toMatchObject({ 'violated-policies': ['ip'], limit: 'ip' })
    })

    test('a cost that can never fit says so and tells no wait', async () => {
      const { url } = await start({ ...still(), limit: '5/min', cost: () => 6 })
      const denied = await fetch(`${url}/ok`)
      expect(denied.status).toBe(429)
      expect(denied.headers.has('retry-after')).toBe(false)
      expect(await denied.json()).toMatchObject({ code: 'cost_never_fits', retryAfterMs: null })
    })

    test('of several limits the one that refuses is told with its own cost', async () => {
      const limits = { calls: { limit: '50/min' }, rows: { limit: '5/min', cost: () => 6 } }
      const { url } = await start({ ...still(), limits })
      const { detail } = (await (await fetch(`${url}/ok`)).json()) as { detail: string }
      expect(detail).toMatch(/^A cost of 6 never fits limit "rows"\./)
    })

    test('a jitter is only ever added to the wait', async () => {
      const { url } = await start({ ...still(), limit: '1/min', retryJitterMs: 30_000 })
      await fetch(`${url}/ok`)
      const waits = new Set<number>()
      for (let i = 0; i < 20; i++) {
        const denied = await fetch(`${url}/ok`)
        const { retryAfterMs } = (await denied.json()) as { retryAfterMs: number }
        expect(retryAfterMs).toBeGreaterThanOrEqual(60_000)
        expect(retryAfterMs).toBeLessThanOrEqual(90_000)
        expect(denied.headers.get('retry-after')).toBe(String(Math.ceil(retryAfterMs / 1000)))
        waits.add(retryAfterMs)
      }
      expect(waits.size).toBeGreaterThan(1)
    })

    test.each([
      ['text', 'slow down', 'text/plain', 'slow down'],
      ['an object', { error: 'slow' }, 'application/json', '{"error":"slow"}'],
      ['a function', ({ limit }: { limit: string }) => `${limit} is over`, 'text/plain', 'default is over'],
    ])('the message may be %s', async (_what, message, type, body) => {
      const { url } = await start({ ...still(), limit: '1/min', message, status: 420 })
      await fetch(`${url}/ok`)
      const denied = await fetch(`${url}/ok`)
      expect(denied.status).toBe(420)
      expect(denied.headers.get('content-type')).toContain(type)
      expect(await denied.text()).toBe(body)
    })

    test('onDenied that breaks is an error of the app, whether the store answers at once or not', async () => {
      const onDenied = () => {
        throw new Error('broken too')
      }
      for (const store of [undefined, slowMemory(true).store]) {
        const { url } = await start({
          limit: '1/min',
          onDenied: app.name.startsWith('node:http') ? undefined : onDenied,
          store,
        })
        await fetch(`${url}/ok`)
        // Some frameworks answer with the status that was set, some with 500.
        expect((await fetch(`${url}/ok`)).status).toBeGreaterThanOrEqual(429)
        expect((await fetch(`${url}/rate_limit`)).status).toBe(200)
      }
    })

    test('headers come in the style asked for, and none means none', async () => {
      const { url } = await start({ ...still(), limit: '1/min', headers: ['draft-6', 'draft-7'] })
      const { headers } = await fetch(`${url}/ok`)
      expect(headers.get('ratelimit')).toBe('limit=1, remaining=0, reset=60')
      expect(headers.get('ratelimit-limit')).toBe('1')
      expect(headers.has('x-ratelimit-limit')).toBe(false)
      const silent = await start({ ...still(), limit: '1/min', headers: 'none' })
      await fetch(`${silent.url}/ok`)
      const denied = await fetch(`${silent.url}/ok`)
      expect(denied.status).toBe(429)
      for (const field of [...FIELDS, 'retry-after']) expect(denied.headers.has(field), field).toBe(false)
    })

    test('headers can be your own, also where a request is denied; what cannot be sent breaks nothing', async () => {
      const own = ({ limit, remaining }: HeaderState) => ({ 'X-Call-Limit': `${limit - remaining}/${limit}` })
      const { url } = await start({ ...still(), limit: '1/min', headers: own })
      const { headers } = await fetch(`${url}/ok`)
      expect([headers.get('x-call-limit'), headers.has('x-ratelimit-limit')]).toEqual(['1/1', false])
      const denied = await fetch(`${url}/ok`)
      expect([denied.status, denied.headers.get('x-call-limit'), denied.headers.get('retry-after')]).toEqual([
        429,
        '1/1',
        '60',
      ])
      const split = () => ({ 'X-A': 'b\r\nX-C: d' })
      const broken = await start({ ...still(), limit: '5/min', headers: ['legacy', split] })
      const warnings = await warningsDuring(async () => {
        for (let i = 0; i < 2; i++) {
          const passed = await fetch(`${broken.url}/ok`)
          expect(passed.status).toBe(200)
          expect([passed.headers.has('x-a'), passed.headers.get('x-ratelimit-limit')]).toEqual([false, '5'])
        }
      })
      expect(warnings.filter(({ code }) => code === 'HG_HEADERS_FAILED')).toHaveLength(1)
    })

    test('GET /rate_limit tells the caller its limits and spends nothing', async () => {
      const { url } = await start({
        ...still(),
        limits: { ip: { limit: '10/min', by: 'ip' }, all: { limit: '100/h' } },
      })
      await fetch(`${url}/ok`)
      for (let i = 0; i < 3; i++) {
        const response = await fetch(`${url}/rate_limit`)
        expect(response.status).toBe(200)
        expect(response.headers.get('content-type')).toContain('application/json')
        expect(await response.json()).toEqual({
          resources: {
            ip: { limit: 10, remaining: 9, used: 1, reset: NOW / 1000 + 6 },
            all: { limit: 100, remaining: 99, used: 1, reset: NOW / 1000 + 36 },
          },
          rate: { limit: 10, remaining: 9, used: 1, reset: NOW / 1000 + 6 },
        })
      }
    })

    describe('who is calling', () => {
      test('a header that nobody vouches for makes no new bucket, and is diagnosed once', async () => {
        const warnings = await warningsDuring(async () => {
          const { url } = await start({ ...still(), limit: '2/min' })
          const statuses = []
          for (let i = 0; i < 3; i++) {
            const headers = { 'X-Forwarded-For': `203.0.113.${i}` }
            statuses.push((await fetch(`${url}/ok`, { headers })).status)
          }
          expect(statuses).toEqual([200, 200, 429])
        })
        const told = warnings.filter(({ code }) => code === 'HG_PROXY_UNTRUSTED')
        expect(told).toHaveLength(1)
        expect(told[0]?.message).toContain(`"203.0.113.0" from 127.0.0.1`)
        expect(told[0]?.message).toContain(`trustProxy: ['127.0.0.1']`)
      })

      test('a trusted proxy tells the client, and what the client wrote before it does not count', async () => {
        const { url } = await start({ ...still(), limit: '1/min', trustProxy: 'loopback' })
        const ask = async (chain: string) =>
          (await fetch(`${url}/ok`, { headers: { 'X-Forwarded-For': chain } })).status
        expect(await ask('203.0.113.1')).toBe(200)
        expect(await ask('1.1.1.1, 203.0.113.1')).toBe(429)
        expect(await ask('203.0.113.2')).toBe(200)
        expect(await ask('2001:db8::1')).toBe(200)
        expect(await ask('[2001:db8::2]:99')).toBe(429)
      })

      test.each([
        ['api-key', { authorization: 'Bearer a' }, { authorization: 'Bearer b' }],
        ['api-key', { 'x-api-key': 'a' }, { 'x-api-key': 'b' }],
        ['header:x-user', { 'X-User': 'a' }, { 'X-User': 'b' }],
        ['cookie:sid', { cookie: 'z=1; sid=a' }, { cookie: 'sid=b; z=1' }],
        [
          'jwt:sub',
          { authorization: `Bearer x.${btoa('{"sub":"a"}')}.y` },
          { authorization: `Bearer x.${btoa('{"sub":"b"}')}.y` },
        ],
      ])('by %s', async (by, a, b) => {
        const { url } = await start({ ...still(), limit: '1/min', by })
        const ask = async (headers: Record<string, string>) => (await fetch(`${url}/ok`, { headers })).status
        expect([await ask(a), await ask(a), await ask(b)]).toEqual([200, 429, 200])
      })

      test('two API keys that differ are none: who sends both would choose which one counts', async () => {
        const { url } = await start({ ...still(), limit: '1/min', by: 'api-key' })
        const headers = { authorization: 'Bearer a', 'x-api-key': 'b' }
        expect((await fetch(`${url}/ok`, { headers })).status).toBe(400)
      })

      test('by method and path, however the path is spelled', async () => {
        const { url, port } = await start({ ...still(), limit: '1/min', by: ['method', 'path'] })
        expect((await fetch(`${url}/ok`)).status).toBe(200)
        // Guards of Nest are asked about routes only, and its routers do not decode.
        const spelled = app.name.startsWith('nest') ? ['/ok?x=1'] : ['/ok?x=1', '/o%6b', '//ok', '/x/../ok', '/OK/']
        for (const path of spelled) expect(await statusOf(port, 'GET', path), path).toBe(429)
        expect((await fetch(`${url}/login`)).status).toBe(200)
        expect(await statusOf(port, 'POST', '/login')).toBe(200)
      })

      test.skipIf(!app.knowsRoute)('by route, one bucket for all that it matches', async () => {
        const { url } = await start({ ...still(), limit: '2/min', by: ['ip', 'route'] })
        const ask = async (path: string) => (await fetch(url + path)).status
        expect([await ask('/items/1'), await ask('/items/2'), await ask('/items/3')]).toEqual([200, 200, 429])
      })

      test('a request that does not say who it is gets 400 with a code, not a bucket that all such share', async () => {
        const warnings = await warningsDuring(async () => {
          const { url } = await start({ ...still(), limit: '1/min', by: 'header:x-user' })
          for (let i = 0; i < 3; i++) expect((await fetch(`${url}/ok`)).status).toBe(400)
          expect((await fetch(`${url}/ok`, { headers: { 'x-user': 'a' } })).status).toBe(200)
        })
        expect(warnings.filter(({ code }) => code === 'HG_KEY_MISSING')).toHaveLength(1)
      })
    })

    describe('charged by outcome', () => {
      test('a failure is counted before its slot is free: the next guess sees it, in whichever process', async () => {
        const verbs: string[] = []
        const { clock } = still()
        const inner = memory({ clock })
        const store: Store = {
          run: async (groups, nowUs) => {
            for (const { ops } of groups) for (const { verb } of ops) verbs.push(verb)
            return inner.run(groups, nowUs)
          },
        }
        const limits = {
          failures: { limit: '5/min', by: 'ip', countWhen: ({ status }: { status: number }) => status >= 400 },
          trying: { atOnce: 1, by: 'ip' },
        }
        const { url } = await start({ clock, store, limits })
        for (const path of ['/login?wrong', '/throw']) {
          verbs.length = 0
          await fetch(url + path).then((response) => response.text())
          await until('the slot is free', () => verbs.includes('release') || undefined)
          expect(verbs.filter((verb) => verb === 'settle' || verb === 'release')).toEqual(['settle', 'release'])
        }
      })

      test('twenty successes at once are not refused where only failures count', async () => {
        const { url, held } = await start({
          ...still(),
          limit: '5/min',
          countWhen: ({ status }: { status: number }) => status === 401,
        })
        const logins = Array.from({ length: 20 }, () => fetch(`${url}/login?hold`, { method: 'POST' }))
        await held.reached(20)
        held.letGo()
        expect((await Promise.all(logins)).map(({ status }) => status)).toEqual(Array(20).fill(200))
        for (let i = 0; i < 5; i++) expect((await fetch(`${url}/login?wrong`, { method: 'POST' })).status).toBe(401)
        await until('the fifth failure counted', async () => (await used(url)) === 5 || undefined)
        expect((await fetch(`${url}/login`, { method: 'POST' })).status).toBe(429)
      })

      test('a response settles what its request cost, and may give it back', async () => {
        const settle = ({ status, header }: { status: number; header(name: string): string | undefined }) => {
          if (status === 304 || status >= 500) return 0
          const cost = header('x-cost')
          return cost === undefined ? undefined : Number(cost)
        }
        const { url } = await start({ ...still(), limit: '100/min', settle })
        const spent = async (path: string, units: number) => {
          await (await fetch(url + path).catch(() => undefined))?.text()
          await until(`${units} spent after ${path}`, async () => (await used(url)) === units || undefined)
        }
        await spent('/ok', 1)
        await spent('/cost?is=40', 41)
        await spent('/not-modified', 41)
        await spent('/throw', 41)
        await spent('/cost?is=0', 41)
      })

      test('slots come back when a response ends, its caller leaves, or the app breaks', async () => {
        const { url, held } = await start({ limits: { busy: { atOnce: 2 } } })
        const inFlight = () => used(url, 'busy')
        const first = fetch(`${url}/hold`)
        const leaving = new AbortController()
        const second = fetch(`${url}/hold`, { signal: leaving.signal })
        await held.reached(2)
        const denied = await fetch(`${url}/ok`)
        expect(denied.status).toBe(503)
        expect(Number(denied.headers.get('retry-after'))).toBeGreaterThan(0)
        expect(await denied.json()).toMatchObject({
          type: expect.stringContaining('#temporary-reduced-capacity'),
          code: 'overloaded',
        })
        leaving.abort()
        await expect(second).rejects.toThrow()
        // Who answers by a Response learns only by sending it that nobody is there.
        if (app.name !== 'fetch' && app.name !== 'hono elsewhere')
          await until('the slot of who left', async () => (await inFlight()) === 1 || undefined)
        held.letGo()
        expect(await (await first).text()).toBe('held')
        await until('all slots back', async () => (await inFlight()) === 0 || undefined)
        await fetch(`${url}/throw`).catch(() => undefined)
        await (await fetch(`${url}/stream`)).text()
        await until('all slots back', async () => (await inFlight()) === 0 || undefined)
      })
    })

    test('a gate made before serves as well, and its key is the address if it asks for none', async () => {
      const gate = createGate({ limit: '2/min', ...still() })
      const { url } = await start({ gate })
      await fetch(`${url}/ok`)
      expect(gate.peek('127.0.0.1').remaining).toBe(1)
    })

    describe('with a store that takes time', () => {
      const { store } = rig2()

      test('the same is told, and the limit is kept among concurrent requests', async () => {
        const { url } = await start({ limit: '5/h', store: await store() })
        const all = await Promise.all(Array.from({ length: 12 }, () => fetch(`${url}/ok`)))
        expect(all.filter(({ status }) => status === 200)).toHaveLength(5)
        expect(all.filter(({ status }) => status === 429)).toHaveLength(7)
        for (const response of all) {
          for (const field of FIELDS) expect(response.headers.has(field), field).toBe(true)
          expect(response.headers.has('retry-after')).toBe(response.status === 429)
        }
      })
    })

    test('a store that fails does not take the app down: local by default, 503 where it must not be guessed', async () => {
      const broken: Store = { run: () => Promise.reject(new Error('no connection')) }
      const local = await start({ limit: '1/min', store: broken })
      expect((await fetch(`${local.url}/ok`)).status).toBe(200)
      expect((await fetch(`${local.url}/ok`)).status).toBe(429)
      const strict = await start({ limit: '1/min', store: broken, onStoreError: 'deny' })
      const refused = await fetch(`${strict.url}/ok`)
      expect(refused.status).toBe(503)
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
      expect(await refused.json()).toMatchObject({ code: 'unavailable', status: 503 })
    })

    describe('that delays', () => {
      test('a request over its limit is held back, with the headers as they are then', async () => {
        const clock = fakeClock(NOW)
        const { url } = await start({ limit: '1/s burst 1', algorithm: 'leaky-bucket', delay: { maxMs: 2000 }, clock })
        expect((await fetch(`${url}/ok`)).status).toBe(200)
        const second = fetch(`${url}/ok`)
        await until('a place in line', async () => (await resetAt(url)) === NOW / 1000 + 2 || undefined)
        const third = fetch(`${url}/ok`)
        await until('a place in line', async () => (await resetAt(url)) === NOW / 1000 + 3 || undefined)
        const denied = await fetch(`${url}/ok`)
        expect(denied.status).toBe(429)
        expect(denied.headers.get('retry-after')).toBe('3')
        clock.advance(1000)
        const held = await second
        expect([held.status, await held.text()]).toEqual([200, 'ok'])
        expect(held.headers.get('ratelimit')).toBe('"default";r=0;t=1')
        expect(held.headers.get('x-ratelimit-reset')).toBe(String(NOW / 1000 + 2))
        clock.advance(1000)
        expect((await third).status).toBe(200)
      })

      test('whoever leaves while held back hands on its turn', async () => {
        const clock = fakeClock(NOW)
        const { url, held } = await start({ limit: '1/s burst 1', algorithm: 'leaky-bucket', delay: 60_000, clock })
        await fetch(`${url}/ok`)
        const leaving = new AbortController()
        const second = fetch(`${url}/hold`, { signal: leaving.signal })
        await until('a place in line', async () => (await resetAt(url)) === NOW / 1000 + 2 || undefined)
        const third = fetch(`${url}/ok`)
        await until('a place in line', async () => (await resetAt(url)) === NOW / 1000 + 3 || undefined)
        leaving.abort()
        await expect(second).rejects.toThrow()
        await until('it is taken back', async () => (await resetAt(url)) === NOW / 1000 + 2 || undefined)
        clock.advance(1000)
        expect((await third).status).toBe(200)
        expect(held.started).toBe(0)
      })

      test('any limit can hold back, in order of arrival', async () => {
        const clock = fakeClock(NOW)
        const { url } = await start({ limit: '1/min', delay: 60_000, clock })
        await fetch(`${url}/ok`)
        const second = fetch(`${url}/ok`)
        await until('a line', async () => ((await fetch(`${url}/rate_limit`)).status === 200 ? true : undefined))
        clock.advance(60_000)
        await until('it goes', async () => {
          clock.advance(60_000)
          return Promise.race([second.then(() => true), new Promise((resolve) => setTimeout(resolve, 5))])
        })
        expect((await second).status).toBe(200)
      })
    })

    /** When all is as if nothing had been taken, as its caller is told. */
    async function resetAt(url: string): Promise<number> {
      const body = (await (await fetch(`${url}/rate_limit`)).json()) as { rate: { reset: number } }
      return body.rate.reset
    }

    test('an answer of the store for a caller who has left is given back', async () => {
      const slow = slowMemory()
      const { port, url } = await start({ limits: { busy: { atOnce: 1 } }, store: slow.store, timeoutMs: 60_000 })
      const req = httpRequest({ port, host: '127.0.0.1', path: '/ok' })
      req.on('error', () => {})
      req.end()
      await slow.asked(1)
      req.destroy()
      if (app.name === 'fetch' || app.name === 'hono elsewhere') return slow.letGo()
      slow.letGo()
      slow.open()
      await until('the slot back', async () => (await used(url, 'busy')) === 0 || undefined)
    })

    /** How much of a limit is used, as its caller is told. */
    async function used(url: string, name = 'default'): Promise<number> {
      const body = (await (await fetch(`${url}/rate_limit`)).json()) as { resources: Record<string, { used: number }> }
      return body.resources[name]?.used ?? Number.NaN
    }
  })
}

function rig2() {
  const redis = rig()
  return { store: () => redis.store() }
}

/** Memory behind a promise that tests hold back. */
function slowMemory(isOpen = false) {
  const inner = memory()
  let release: (() => void)[] = []
  let calls = 0
  const store: Store = {
    async run(groups, nowUs) {
      calls++
      if (!isOpen) await new Promise<void>((resolve) => release.push(resolve))
      return inner.run(groups, nowUs)
    },
  }
  return {
    store,
    asked: (count: number) => until('the store asked', () => calls >= count || undefined),
    letGo() {
      for (const each of release) each()
      release = []
    },
    open() {
      isOpen = true
    },
  }
}

interface Warning extends Error {
  readonly code?: string
}

async function warningsDuring(work: () => Promise<void>): Promise<Warning[]> {
  const warnings: Warning[] = []
  const listener = (warning: Warning) => void warnings.push(warning)
  process.on('warning', listener)
  try {
    await work()
    await new Promise((resolve) => setImmediate(resolve))
  } finally {
    process.off('warning', listener)
  }
  return warnings
}

/** As it stands: `fetch` would tidy up the path. */
async function statusOf(port: number, method: string, path: string): Promise<number> {
  const req = httpRequest({ port, host: '127.0.0.1', method, path })
  req.end()
  const [response] = (await once(req, 'response')) as [IncomingMessage]
  response.resume()
  await once(response, 'end')
  return response.statusCode as number
}

/** All requests in one packet on one connection. */
async function pipelined(
  port: number,
  requests: readonly string[],
): Promise<{ status: number; remaining: string | undefined }[]> {
  const socket = connect(port, '127.0.0.1')
  socket.write(requests.map((each) => `${each} HTTP/1.1\r\nHost: x\r\n\r\n`).join(''))
  let text = ''
  socket.on('data', (data) => {
    text += data
  })
  const answers = () =>
    [...text.matchAll(/HTTP\/1\.1 (\d+)[\s\S]*?\r\n\r\n/g)].map(([head, status]) => {
      return { status: Number(status), remaining: /x-ratelimit-remaining: (\d+)/i.exec(head)?.[1] }
    })
  const all = await until('all answers', () => (answers().length >= requests.length ? answers() : undefined))
  socket.destroy()
  return all
}
