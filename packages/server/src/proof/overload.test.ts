import { once } from 'node:events'
import { mkdtempSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { startRedis } from '../../../headgate/test/redis-server.ts'
import { until } from '../../../headgate/test/until.ts'
import { startUpstream } from '../../test/upstream.ts'
import { type Running, serve } from '../serve.ts'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

/** An upstream that answers when it is told to. */
async function slowUpstream() {
  const held: ServerResponse[] = []
  const priorities: (string | undefined)[] = []
  const upstream = await startUpstream((req, res) => {
    priorities.push(req.headers['x-headgate-priority'] as string | undefined)
    if (req.url?.includes('fast')) return void res.end('fast')
    held.push(res)
    res.once('close', () => held.splice(held.indexOf(res), held.includes(res) ? 1 : 0))
  })
  closing.push(() => upstream.close())
  const letGo = () => {
    for (const res of held.splice(0)) res.end('slow')
  }
  closing.push(letGo)
  const reached = (count: number) => until(`${count} at the upstream`, () => held.length === count || undefined)
  return { url: upstream.url, held, priorities, letGo, reached }
}

interface Started extends Running {
  readonly url: string
  readonly file: string
  write(overload: string, more?: string): void
  admin(method: string, body?: object): Promise<{ status: number; json: Record<string, unknown> }>
  metrics(): Promise<string>
}

const PRIORITIES = `priorities: [
  { when: { path: /critical/** }, priority: critical },
  { when: { path: /low/** }, priority: low } ]`

async function start(upstream: string, overload: string, more = 'limits: {}'): Promise<Started> {
  const file = join(mkdtempSync(join(tmpdir(), 'headgate-')), 'headgate.yaml')
  const write = (text: string, rest = more) =>
    writeFileSync(
      file,
      `upstream: ${upstream}\nserver: { port: 0, adminPort: 0, grpcPort: false, host: 127.0.0.1, drainMs: 100 }\n${rest}\noverload: { ${text}, utilisation: false }\n`,
    )
  write(overload)
  const running = await serve({ file })
  closing.push(() => running.stop())
  const call = (path: string, init: RequestInit = {}) =>
    fetch(`http://127.0.0.1:${running.adminPort}${path}`, {
      ...init,
      headers: { authorization: `Bearer ${running.adminToken}`, 'content-type': 'application/json' },
    })
  return Object.assign(running, {
    file,
    write,
    url: `http://127.0.0.1:${running.port}`,
    admin: async (method: string, body?: object) => {
      const response = await call('/admin/v1/overload', { method, ...(body && { body: JSON.stringify(body) }) })
      return { status: response.status, json: (await response.json()) as Record<string, unknown> }
    },
    metrics: async () => (await call('/metrics')).text(),
  })
}

const FOUR = `concurrency: 4, queue: false, reserve: { critical: 25, high: 0, normal: 0 }, ${PRIORITIES}`
const NO_BODY = (response: Response) => response.body?.cancel()

/** Starts requests and leaves them at the upstream. */
function hold(url: string, path: string, count: number): Promise<Response>[] {
  const responses = Array.from({ length: count }, () => fetch(url + path))
  // A test that fails ends the service, and with it these: that is no failure of its own.
  for (const each of responses) each.catch(() => {})
  return responses
}

describe('a gateway that works on four requests at once', () => {
  test('sheds what matters least with 503 and the reason, and lets critical requests through', async () => {
    const upstream = await slowUpstream()
    const { url, metrics } = await start(upstream.url, FOUR)
    const slow = hold(url, '/low/a', 3)
    await upstream.reached(3)
    const shed = await fetch(`${url}/low/b`)
    expect(shed.status).toBe(503)
    expect(Number(shed.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
    expect(shed.headers.get('content-type')).toBe('application/problem+json')
    expect(await shed.json()).toMatchObject({
      type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity',
      status: 503,
      code: 'overloaded',
      reason: 'concurrency',
      priority: 'low',
      limit: 'overload',
      retryAfterMs: expect.any(Number),
    })
    const critical = await fetch(`${url}/critical/fast`)
    await NO_BODY(critical)
    expect(critical.status).toBe(200)
    const text = await metrics()
    expect(text).toMatch(/^headgate_shed_total\{priority="low",reason="concurrency"\} 1$/m)
    expect(text).toMatch(/^headgate_overload_limit 4$/m)
    expect(text).toMatch(/^headgate_overload_inflight 3$/m)
    upstream.letGo()
    for (const response of await Promise.all(slow)) expect(response.status).toBe(200)
    expect((await fetch(`${url}/low/fast`)).status).toBe(200)
  })

  test('has its slots back when callers leave', async () => {
    const upstream = await slowUpstream()
    const { url, metrics, port } = await start(upstream.url, FOUR)
    const sockets = Array.from({ length: 3 }, () => {
      const socket = connect(port, '127.0.0.1')
      socket.write('GET /low/a HTTP/1.1\r\nHost: a\r\n\r\n')
      return socket
    })
    await upstream.reached(3)
    expect((await fetch(`${url}/low/fast`)).status).toBe(503)
    for (const socket of sockets) socket.destroy()
    await until('free slots', async () => /^headgate_overload_inflight 0$/m.test(await metrics()) || undefined)
    expect((await fetch(`${url}/low/fast`)).status).toBe(200)
  })

  test('whoever leaves the queue is out of it at once, and has used up nothing', async () => {
    const upstream = await slowUpstream()
    const queue =
      'concurrency: 1, queue: { size: 5, targetMs: 60000, intervalMs: 60000 }, reserve: { critical: 0, high: 0, normal: 0 }'
    const { url, metrics, port } = await start(upstream.url, queue, 'limits: { all: { limit: 10/day } }')
    const [slow] = hold(url, '/slow', 1)
    await upstream.reached(1)
    const socket = connect(port, '127.0.0.1')
    socket.write('GET /second HTTP/1.1\r\nHost: a\r\n\r\n')
    const queued = (count: number) =>
      until(
        `${count} queued`,
        async () => new RegExp(`^headgate_overload_queued ${count}$`, 'm').test(await metrics()) || undefined,
      )
    await queued(1)
    socket.destroy()
    await queued(0)
    upstream.letGo()
    await (await slow)?.text()
    const last = await fetch(`${url}/fast`)
    // This one and the slow one: who left was given back what it was charged.
    expect(last.headers.get('x-ratelimit-remaining')).toBe('8')
  })

  test('what is shed is charged to no limit, before or after it was counted', async () => {
    const upstream = await slowUpstream()
    const { url } = await start(
      upstream.url,
      FOUR,
      'limits: { all: { limit: 10/day }, slots: { atOnce: 9, by: [ip] } }',
    )
    const slow = hold(url, '/low/a', 3)
    await upstream.reached(3)
    for (let i = 0; i < 5; i++) expect((await fetch(`${url}/low/b`)).status).toBe(503)
    upstream.letGo()
    await Promise.all(slow.map(async (each) => (await each).text()))
    const last = await fetch(`${url}/fast`)
    expect(last.headers.get('ratelimit')).toMatch(/"all";r=6/)
    expect(last.headers.get('ratelimit')).toMatch(/"slots";r=8/)
  })

  test('callers are told how little there is while there is little', async () => {
    const upstream = await slowUpstream()
    const { url } = await start(upstream.url, FOUR, 'limits: { all: { limit: 1000/day } }')
    const free = await fetch(`${url}/fast`)
    expect(free.headers.get('ratelimit')).not.toContain('overload')
    const slow = hold(url, '/low/a', 3)
    await upstream.reached(3)
    const full = await fetch(`${url}/critical/fast`)
    expect(full.headers.get('ratelimit')).toMatch(/^"overload";r=0, "all";r=\d+/)
    expect(full.headers.get('ratelimit-policy')).toContain('"overload";q=4;qu="concurrent-requests"')
    upstream.letGo()
    await Promise.all(slow)
  })

  test('tells the upstream how much a request matters, whatever the client says', async () => {
    const upstream = await slowUpstream()
    const { url } = await start(upstream.url, `header: x-headgate-priority, ${FOUR}`)
    const headers = { 'x-headgate-priority': 'critical' }
    await fetch(`${url}/fast`, { headers })
    await fetch(`${url}/critical/../fast/low`, { headers })
    await fetch(`${url}/fast/critical`, {})
    expect(upstream.priorities).toEqual(['normal', 'normal', 'normal'])
  })

  test('believes a proxy that it trusts, where the rules name the header that it sets', async () => {
    const upstream = await slowUpstream()
    const trusting = 'identify: { trustedProxies: loopback }\nlimits: {}'
    const service = await start(upstream.url, FOUR, trusting)
    const { url } = service
    await fetch(`${url}/fast`, { headers: { 'x-headgate-priority': 'critical' } })
    expect(upstream.priorities.splice(0)).toEqual(['normal']) // a proxy passes on what it does not know
    service.write(`header: X-Headgate-Priority, ${FOUR}`)
    expect(service.reload()).toEqual([])
    await fetch(`${url}/fast`, { headers: { 'x-headgate-priority': 'critical' } })
    await fetch(`${url}/fast`, { headers: { 'x-headgate-priority': 'utmost' } })
    expect(upstream.priorities).toEqual(['critical', 'normal'])
  })
})

describe('rules that change', () => {
  test('keep what is being worked on in mind, also where the slots are others', async () => {
    const upstream = await slowUpstream()
    const service = await start(upstream.url, FOUR)
    const { url } = service
    const slow = hold(url, '/low/a', 3)
    await upstream.reached(3)
    service.write(FOUR.replace('concurrency: 4', 'concurrency: 2'))
    expect(service.reload()).toEqual([])
    // Three are at work, and two may be: nobody comes in before two of them are done.
    expect((await fetch(`${url}/critical/fast`)).status).toBe(503)
    upstream.held[0]?.end('slow')
    await upstream.reached(2)
    expect((await fetch(`${url}/critical/fast`)).status).toBe(503)
    upstream.held[0]?.end('slow')
    await upstream.reached(1)
    await until('a slot', async () => (await fetch(`${url}/critical/fast`)).status === 200 || undefined)
    upstream.letGo()
    await Promise.all(slow)
    await until('all slots', async () => (await fetch(`${url}/low/fast`)).status === 200 || undefined)
  })

  test('leave nobody behind in a queue', async () => {
    const upstream = await slowUpstream()
    const queue = 'queue: { size: 5, targetMs: 60000, intervalMs: 60000 }, reserve: { critical: 0, high: 0, normal: 0 }'
    const service = await start(upstream.url, `concurrency: 1, ${queue}`)
    const slow = hold(service.url, '/slow', 3)
    await until('a queue', () => service.service.protection?.state().queued === 2 || undefined)
    service.write(`concurrency: 3, ${queue}`)
    expect(service.reload()).toEqual([])
    await upstream.reached(3)
    upstream.letGo()
    for (const response of await Promise.all(slow)) expect(response.status).toBe(200)
  })
})

describe('the admin port', () => {
  test('lets everything through at once by the kill switch, on all instances', async () => {
    const redis = await startRedis()
    closing.push(() => redis.stop())
    const upstream = await slowUpstream()
    const store = `store: redis://127.0.0.1:${redis.port}/0\nlimits: {}`
    const [one, two] = [await start(upstream.url, FOUR, store), await start(upstream.url, FOUR, store)]
    const slow = [...hold(one.url, '/low/a', 3), ...hold(two.url, '/low/a', 3)]
    await upstream.reached(6)
    for (const { url } of [one, two]) expect((await fetch(`${url}/low/fast`)).status).toBe(503)
    const { status, json } = await one.admin('PUT', { mode: 'off' })
    expect(status).toBe(200)
    expect(json).toMatchObject({ settings: { mode: 'off' }, tuned: { mode: 'off' }, state: { inFlight: 3 } })
    expect((await fetch(`${one.url}/low/fast`)).status).toBe(200)
    await until('the other', async () => (await fetch(`${two.url}/low/fast`)).status === 200 || undefined)
    await one.admin('PUT', { mode: 'enforce' })
    expect((await fetch(`${one.url}/low/fast`)).status).toBe(503)
    upstream.letGo()
    await Promise.all(slow)
  })

  test('tunes what may be tuned, tells what it was, and refuses what does not go together', async () => {
    const upstream = await slowUpstream()
    const { admin, url } = await start(upstream.url, `concurrency: { min: 2, max: 50 }, ${PRIORITIES}`)
    expect((await admin('GET')).json).toMatchObject({
      protected: true,
      settings: { mode: 'enforce', concurrency: { min: 2, max: 50 } },
      tuned: {},
      state: { inFlight: 0, queued: 0 },
    })
    await fetch(`${url}/fast`)
    expect((await admin('PUT', { concurrency: { max: 8 } })).json).toMatchObject({
      settings: { concurrency: { min: 2, max: 8, mode: 'enforce' }, queue: { size: 100 } },
      tuned: { concurrency: { max: 8 } },
      state: { limit: 8 },
    })
    expect((await admin('PUT', { concurrency: { min: 9 } })).status).toBe(400)
    expect((await admin('PUT', { utilisation: { good: 0.5 } })).status).toBe(400)
    expect((await admin('PUT', { queue: { targetMs: 500 } })).status).toBe(400)
    expect((await admin('PUT', { mode: 'of' })).status).toBe(400)
    expect((await admin('PUT', { concurrency: { limit: 9 } })).status).toBe(400)
    expect((await admin('GET')).json).toMatchObject({ tuned: { concurrency: { max: 8 } } })
  })

  test('says that nothing is protected where rules say nothing of it', async () => {
    const running = await serve({ text: 'server: { port: 0, adminPort: 0, grpcPort: false }\nlimits: {}' })
    closing.push(() => running.stop())
    const call = (init: RequestInit) =>
      fetch(`http://127.0.0.1:${running.adminPort}/admin/v1/overload`, {
        ...init,
        headers: { authorization: `Bearer ${running.adminToken}`, 'content-type': 'application/json' },
      })
    expect(await (await call({})).json()).toEqual({ protected: false })
    expect((await call({ method: 'PUT', body: '{"mode":"off"}' })).status).toBe(409)
  })
})

describe('what is observed', () => {
  test('is all of it where the rules say mode: observe, also after new rules and whatever is tuned', async () => {
    const upstream = await slowUpstream()
    const watched = 'mode: observe\nlimits: {}'
    const service = await start(upstream.url, FOUR, watched)
    const { url, admin, metrics } = service
    const slow = hold(url, '/low/a', 6)
    await upstream.reached(6)
    const shedObserved = /^headgate_shed_observed_total\{priority="low",reason="concurrency"\} [1-9]/m
    await until('it is told', async () => shedObserved.test(await metrics()) || undefined)
    expect((await admin('GET')).json).toMatchObject({ settings: { mode: 'observe' }, inRules: { mode: 'enforce' } })
    expect((await admin('PUT', { mode: 'enforce' })).json).toMatchObject({ settings: { mode: 'observe' } })
    expect((await fetch(`${url}/low/fast`)).status).toBe(200)
    service.write(FOUR, 'limits: {}')
    expect(service.reload()).toEqual([])
    expect((await fetch(`${url}/low/fast`)).status).toBe(503)
    service.write(FOUR, watched)
    expect(service.reload()).toEqual([])
    expect((await fetch(`${url}/low/fast`)).status).toBe(200)
    upstream.letGo()
    for (const response of await Promise.all(slow)) expect(response.status).toBe(200)
  })

  test('refuses nobody and is counted', async () => {
    const upstream = await slowUpstream()
    const { url, metrics } = await start(upstream.url, FOUR.replace('concurrency: 4', 'mode: observe, concurrency: 4'))
    const slow = hold(url, '/low/a', 6)
    await upstream.reached(6)
    expect(await metrics()).toMatch(/^headgate_shed_observed_total\{priority="low",reason="concurrency"\} 3$/m)
    expect(await metrics()).not.toMatch(/^headgate_shed_total\{/m)
    upstream.letGo()
    await Promise.all(slow)
  })
})

describe('the share of the fleet', () => {
  const FLEET = `concurrency: false, ${PRIORITIES}, fleet: { limit: 20/day, reserve: 25 }`

  test('is what less important requests get of two instances together; critical ones always find the rest', async () => {
    const redis = await startRedis()
    closing.push(() => redis.stop())
    const upstream = await slowUpstream()
    const store = `store: redis://127.0.0.1:${redis.port}/0\ntimeoutMs: 5000\nonStoreError: deny\nlimits: { all: { limit: 1000/day } }`
    const [one, two] = [await start(upstream.url, FLEET, store), await start(upstream.url, FLEET, store)]
    const lesser = await Promise.all(
      Array.from({ length: 60 }, async (_, i) => {
        const priority = i % 3 ? 'low' : 'normal'
        const response = await fetch(`${(i % 2 ? one : two).url}/${priority === 'low' ? 'low/fast' : 'fast'}`)
        return { priority, response }
      }),
    )
    const refused = lesser.filter(({ response }) => response.status === 503)
    expect(lesser.filter(({ response }) => response.status === 200)).toHaveLength(15)
    expect(refused).toHaveLength(45)
    for (const { priority, response } of refused)
      expect(await response.json()).toMatchObject({ code: 'overloaded', reason: 'fleet', priority, limit: 'fleet' })
    const critical = await Promise.all(
      Array.from({ length: 40 }, (_, i) => fetch(`${(i % 2 ? one : two).url}/critical/fast`)),
    )
    expect(critical.map(({ status }) => status)).toEqual(critical.map(() => 200))
    // All or none: who was refused by the share was charged nowhere.
    expect((await fetch(`${one.url}/critical/fast`)).headers.get('ratelimit')).toContain(`"all";r=${1000 - 15 - 41}`)
    expect(await one.metrics()).toMatch(/headgate_shed_total\{priority="low",reason="fleet"\} \d+/)
  })

  test('can be watched first, and switched off with the rest', async () => {
    const upstream = await slowUpstream()
    const observed = FLEET.replace('reserve: 25', 'reserve: 25, mode: observe').replace('20/day', '4/day')
    const service = await start(upstream.url, observed)
    const { url, metrics, admin, write } = service
    const ask = async () => (await fetch(`${url}/low/fast`)).status
    for (let i = 0; i < 5; i++) expect(await ask()).toBe(200)
    expect(await metrics()).toMatch(/^headgate_shed_observed_total\{priority="low",reason="fleet"\} 2$/m)
    write(FLEET.replace('20/day', '4/day'))
    expect(service.reload()).toEqual([])
    expect(await ask()).toBe(503)
    await admin('PUT', { mode: 'off' })
    expect(await ask()).toBe(200)
  })
})

test('a WebSocket holds its slot until it is open, and no longer', async () => {
  const upstream = await startUpstream()
  closing.push(() => upstream.close())
  upstream.server.on('upgrade', (_req, socket) => {
    closing.push(() => socket.destroy())
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n')
  })
  const { port, metrics } = await start(upstream.url, 'concurrency: 4, queue: false')
  const socket = connect(port, '127.0.0.1')
  closing.push(() => socket.destroy())
  socket.write(
    'GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
  )
  const [head] = await once(socket, 'data')
  expect(String(head)).toContain('101')
  expect(await metrics()).toMatch(/^headgate_overload_inflight 0$/m)
})
