import { Agent, request, type ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import {
  ask,
  freePort,
  idle,
  problemCode,
  read,
  responseOf,
  startGateway,
  startRaw,
  startUpstream,
} from '../../test/gateway.ts'
import type { BreakerNews, UpstreamOptions } from './index.ts'

const breaker = { minRequests: 10, openMs: 50, maxOpenMs: 200 }
const retries = { attempts: 2, ratio: 0.1, minPerSecond: 0 }

/** An upstream that does as it is told, and counts what reaches it. */
async function startPatient() {
  const patient = { well: false, requests: 0, url: '', status: 503, headers: {} as Record<string, string> }
  const { url } = await startUpstream((req, res) => {
    patient.requests++
    req.resume().on('end', () => {
      if (patient.well) res.end('well')
      else res.writeHead(patient.status, patient.headers).end('sick')
    })
  })
  patient.url = url
  return patient
}

const many = async (n: number, url: string) => {
  for (let i = 0; i < n; i++) await ask(url)
}

describe('a breaker', () => {
  test('keeps all but single requests from an upstream that is sick, and lets all through when it is well again', async () => {
    const patient = await startPatient()
    const news: BreakerNews[] = []
    const gateway = await startGateway({
      to: patient.url,
      with: { breaker: { ...breaker, openMs: 300, maxOpenMs: 300 } },
      onBreaker: (change) => news.push(change),
    })
    const sickMs = performance.now() // its first pause begins at this instant, or later
    await many(10, gateway.url)
    expect(news).toEqual([{ upstream: 'only', url: patient.url, from: 'closed', to: 'open' }])
    const startMs = performance.now()
    patient.requests = 0
    let refused = 0
    while (performance.now() - startMs < 1_000)
      if (problemCode(await ask(gateway.url)) === 'upstream_overloaded') refused++
    const pauses = (performance.now() - sickMs) / 300
    expect(patient.requests).toBeLessThanOrEqual(Math.ceil(pauses))
    expect(refused).toBeGreaterThan(patient.requests)
    patient.well = true
    await until('it to be asked again', async () => ((await ask(gateway.url)).body === 'well' ? true : undefined))
    expect(gateway.proxy.stats().upstreams[0]?.breaker).toBe('closed')
    for (let i = 0; i < 20; i++) expect((await ask(gateway.url)).body).toBe('well')
    expect(news.at(-1)).toMatchObject({ from: 'half-open', to: 'closed' })
    await idle(gateway)
  })

  test('answers 503 that says what is the matter and when to come back', async () => {
    const patient = await startPatient()
    const gateway = await startGateway({
      to: patient.url,
      with: { breaker: { ...breaker, openMs: 60_000, maxOpenMs: 60_000 } },
    })
    await many(10, gateway.url)
    const answer = await ask(gateway.url)
    expect(answer).toMatchObject({ status: 503, headers: { 'cache-control': 'no-store' } })
    const problem = JSON.parse(answer.body) as { retryAfterMs: number }
    expect(problem).toMatchObject({
      type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity',
      status: 503,
      code: 'upstream_overloaded',
    })
    expect(problem.retryAfterMs).toBeGreaterThan(1_000)
    expect(problem.retryAfterMs).toBeLessThanOrEqual(60_000)
    expect(answer.headers['retry-after']).toBe(String(Math.ceil(problem.retryAfterMs / 1000)))
    await until('all to be over', () => gateway.outcomes.length === 11 || undefined)
    expect(gateway.outcomes.at(-1)).toMatchObject({
      status: 503,
      code: 'upstream_overloaded',
      upstreamMs: 0,
      aborted: false,
    })
  })

  test('takes out the one server that is sick, and nobody notices', async () => {
    const [sick, fit] = await Promise.all([startPatient(), startPatient()])
    fit.well = true
    const gateway = await startGateway({
      to: [{ name: 'all', urls: [sick.url, fit.url], breaker: { ...breaker, openMs: 60_000, maxOpenMs: 60_000 } }],
    })
    await until('it to be out', async () => {
      await ask(gateway.url)
      return gateway.proxy.stats().upstreams[0]?.breaker === 'open' ? true : undefined
    })
    for (let i = 0; i < 40; i++) expect((await ask(gateway.url)).body).toBe('well')
    expect(sick.requests).toBe(10)
  })

  test.each([
    ['answers nothing but 500: that is the program, not the server', 500, 'closed'],
    ['answers nothing but 404', 404, 'closed'],
    ['answers nothing but 429: its callers are too many, it is well', 429, 'closed'],
    ['answers nothing but 502', 502, 'open'],
    ['answers nothing but 504', 504, 'open'],
  ])('of an upstream that %s', async (_, status, state) => {
    const patient = await startPatient()
    patient.status = status
    const gateway = await startGateway({ to: patient.url, with: { breaker } })
    await many(10, gateway.url)
    expect(gateway.proxy.stats().upstreams[0]?.breaker).toBe(state)
  })

  test('opens when connections are lost, and when answers do not come', async () => {
    const broken = await startRaw((socket) => socket.on('data', () => socket.destroy()))
    const gateway = await startGateway({ to: broken.url, with: { breaker } })
    await many(10, gateway.url)
    expect(gateway.proxy.stats().upstreams[0]?.breaker).toBe('open')
    const silent = await startUpstream(() => {})
    const other = await startGateway({ to: silent.url, with: { breaker, idleTimeoutMs: 40 } })
    await Promise.all(Array.from({ length: 10 }, () => ask(other.url)))
    expect(other.proxy.stats().upstreams[0]?.breaker).toBe('open')
    await idle(other)
  })

  test('opens when answers come too late, where that is asked for', async () => {
    const slow = await startUpstream((_, res) => void setTimeout(() => res.end('late'), 30))
    const gateway = await startGateway({ to: slow.url, with: { breaker: { ...breaker, slowMs: 10 } } })
    await Promise.all(Array.from({ length: 10 }, () => ask(gateway.url)))
    expect(gateway.proxy.stats().upstreams[0]?.breaker).toBe('open')
  })

  test('does not mind clients who leave', async () => {
    const held: ServerResponse[] = []
    const upstream = await startUpstream((_, res) => void held.push(res))
    const gateway = await startGateway({ to: upstream.url, with: { breaker } })
    for (let i = 1; i <= 20; i++) {
      const asked = request(gateway.url, { agent: false })
        .on('error', () => {})
        .end()
      await until('it to arrive', () => (held.length === i ? true : undefined))
      asked.destroy()
    }
    await idle(gateway)
    expect(gateway.proxy.stats().upstreams[0]?.breaker).toBe('closed')
    expect(gateway.outcomes).toHaveLength(20)
  })

  test('tries again when the client whose request it was has left', async () => {
    const patient = await startPatient()
    let held: ServerResponse | undefined
    const { url } = await startUpstream((_, res) => {
      if (patient.well) res.end('well')
      else if (patient.requests++ < 10) res.writeHead(503).end()
      else held = res
    })
    const gateway = await startGateway({ to: url, with: { breaker } })
    await many(10, gateway.url)
    const probing = new Agent({ keepAlive: false })
    const probe = await until('a request to be let through', () => {
      const asked = request(gateway.url, { agent: probing })
        .on('error', () => {})
        .end()
      return new Promise<typeof asked | undefined>((resolve) => {
        asked.on('response', (response) => resolve(void response.resume()))
        setTimeout(() => resolve(held === undefined ? undefined : asked), 20)
      })
    })
    expect(gateway.proxy.stats().upstreams[0]?.breaker).toBe('half-open')
    probe.destroy()
    patient.well = true
    await until('it to be back', async () => ((await ask(gateway.url)).body === 'well' ? true : undefined))
    await idle(gateway)
  })

  test('stays as it is when upstreams are replaced by the same, and is made anew when it is to be another', async () => {
    const patient = await startPatient()
    const open: UpstreamOptions = {
      name: 'only',
      urls: [patient.url],
      breaker: { ...breaker, openMs: 60_000, maxOpenMs: 60_000 },
    }
    const gateway = await startGateway({ to: [open] })
    await many(10, gateway.url)
    gateway.proxy.update([{ ...open, headersTimeoutMs: 1_000 }])
    expect(gateway.proxy.stats().upstreams[0]?.breaker).toBe('open')
    gateway.proxy.update([{ ...open, breaker }])
    expect(gateway.proxy.stats().upstreams[0]?.breaker).toBe('closed')
    gateway.proxy.update([{ name: 'only', urls: [patient.url] }])
    expect(gateway.proxy.stats().upstreams[0]).not.toHaveProperty('breaker')
    expect((await ask(gateway.url)).body).toBe('sick')
  })
})

describe('retries', () => {
  const pool = (urls: readonly string[], more: Partial<UpstreamOptions> = {}) => [
    { name: 'all', urls, retries: { ...retries, ratio: 1 }, ...more },
  ]

  test.each([
    ['GET', undefined],
    ['HEAD', undefined],
    ['DELETE', undefined],
    ['PUT', 'small enough to be kept'],
  ])('sends a %s to another server when one cannot serve it', async (method, body) => {
    const [sick, fit] = await Promise.all([startPatient(), startPatient()])
    fit.well = true
    const gateway = await startGateway({ to: pool([sick.url, fit.url]) })
    for (let i = 0; i < 20; i++) expect((await ask(gateway.url, { method, ...(body && { body }) })).status).toBe(200)
    expect(sick.requests).toBeGreaterThan(0)
    expect(fit.requests).toBe(20)
    expect(gateway.outcomes.map(({ status }) => status)).toEqual(Array(20).fill(200))
    await idle(gateway)
  })

  test('sends it to the same server again when there is no other', async () => {
    let requests = 0
    const { url } = await startUpstream(
      (_, res) => void (requests++ % 2 === 0 ? res.writeHead(502).end() : res.end('well')),
    )
    const gateway = await startGateway({ to: pool([url]) })
    for (let i = 0; i < 10; i++) expect((await ask(gateway.url)).body).toBe('well')
    expect(requests).toBe(20)
  })

  test('sends what a new connection has lost again', async () => {
    let connections = 0
    const { url } = await startRaw((socket) => {
      const fails = connections++ % 2 === 0
      socket.on('data', () => {
        if (fails) socket.destroy()
        else socket.end('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nwell')
      })
    })
    const gateway = await startGateway({ to: pool([url]) })
    expect((await ask(gateway.url)).body).toBe('well')
    expect(connections).toBe(2)
  })

  test.each([
    ['that may not be repeated', { method: 'POST', body: 'x' }, {}, 503],
    ['whose body is gone', { method: 'PUT', body: 'x', headers: { 'Transfer-Encoding': 'chunked' } }, {}, 503],
    ['that the upstream wants later', {}, { 'Retry-After': '5' }, 503],
    ['that the program failed at', {}, {}, 500],
  ])('does not send a request again %s', async (_, asking, headers, status) => {
    const patient = await startPatient()
    Object.assign(patient, { headers, status })
    const gateway = await startGateway({ to: pool([patient.url]) })
    expect(await ask(gateway.url, asking)).toMatchObject({ status, body: 'sick' })
    expect(patient.requests).toBe(1)
    await idle(gateway)
  })

  test('hands on the last answer when all attempts are used up', async () => {
    const patient = await startPatient()
    const gateway = await startGateway({
      to: pool([patient.url], { retries: { attempts: 3, ratio: 1, minPerSecond: 10 } }),
    })
    expect(await ask(gateway.url)).toMatchObject({ status: 503, body: 'sick' })
    expect(patient.requests).toBe(3)
    expect(gateway.outcomes).toHaveLength(1)
    await idle(gateway)
  })

  test('stay within a tenth of the requests when everything fails', async () => {
    const patient = await startPatient()
    const gateway = await startGateway({ to: patient.url, with: { retries } })
    const agent = new Agent({ keepAlive: true, maxSockets: 20 })
    const one = async () => (await read(await responseOf(request(gateway.url, { agent }).end()))).status
    const statuses = await Promise.all(Array.from({ length: 500 }, one))
    agent.destroy()
    expect(statuses).toEqual(Array(500).fill(503))
    expect(patient.requests).toBeGreaterThan(540)
    expect(patient.requests).toBeLessThanOrEqual(550)
    expect(gateway.outcomes).toHaveLength(500)
    await idle(gateway)
  })

  test('go nowhere else while the breakers of all others are open', async () => {
    const patient = await startPatient()
    const gateway = await startGateway({
      to: pool([patient.url], { breaker: { ...breaker, minRequests: 1, openMs: 60_000, maxOpenMs: 60_000 } }),
    })
    expect(await ask(gateway.url)).toMatchObject({ status: 503, body: 'sick' })
    expect(patient.requests).toBe(1)
  })

  test('never follow what the client has already been sent', async () => {
    const { url } = await startRaw((socket) =>
      socket.on('data', () =>
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf', () => socket.destroy()),
      ),
    )
    const gateway = await startGateway({ to: pool([url]) })
    await expect(ask(gateway.url)).rejects.toThrow()
    expect(await gateway.outcome()).toMatchObject({ status: 200, aborted: 'upstream' })
    expect(gateway.outcomes).toHaveLength(1)
  })
})

describe('a throttle', () => {
  const throttle = { k: 2, windowMs: 60_000, maxRejection: 0.95 }

  /** Accepts one of so many. */
  async function startBusy(oneOf: number, status = 429) {
    const seen = { requests: 0, accepted: 0 }
    const { url } = await startUpstream((_, res) => {
      if (seen.requests++ % oneOf === 0) {
        seen.accepted++
        res.end('accepted')
      } else res.writeHead(status).end()
    })
    return { url, seen }
  }

  test.each([429, 503])('sends about twice what an upstream accepts that answers %i to the rest', async (status) => {
    const seen = { requests: 0, accepted: 0, room: 0 }
    const { url } = await startUpstream((_, res) => {
      seen.requests++
      if (seen.room < 1) return void res.writeHead(status).end()
      seen.accepted++
      seen.room--
      res.end('accepted')
    })
    const gateway = await startGateway({ to: url, with: { throttle } })
    const wanted = async (n: number) => {
      let refused = 0
      for (let i = 0; i < n; i++) {
        seen.room = Math.min(2, seen.room + 0.1) // it can do a tenth of what callers want
        if (problemCode(await ask(gateway.url)) === 'upstream_overloaded') refused++
      }
      return refused
    }
    await wanted(300)
    Object.assign(seen, { requests: 0, accepted: 0 })
    const refused = await wanted(500)
    expect(seen.requests + refused).toBe(500)
    expect(seen.accepted).toBeGreaterThan(45) // all that it can do
    expect(seen.requests / seen.accepted).toBeGreaterThan(1.7)
    expect(seen.requests / seen.accepted).toBeLessThan(2.3)
    await idle(gateway)
  })

  test('refuses nothing while the upstream accepts half', async () => {
    const { url, seen } = await startBusy(2)
    const gateway = await startGateway({ to: url, with: { throttle } })
    await many(200, gateway.url)
    expect(seen.requests).toBeGreaterThanOrEqual(196)
  })

  test('holds back what matters less first', async () => {
    const { url } = await startBusy(4)
    const gateway = await startGateway({
      to: url,
      with: { throttle },
      hooks: (req) => ({ priority: req.url === '/pay' ? 'critical' : 'low' }),
    })
    const refused = { '/pay': 0, '/report': 0 }
    for (let i = 0; i < 300; i++)
      for (const path of ['/pay', '/report'] as const)
        if (problemCode(await ask(gateway.url + path)) === 'upstream_overloaded') refused[path]++
    expect(refused['/report']).toBeGreaterThan(refused['/pay'] + 50)
  })

  test('counts an upstream that cannot be reached as one that refuses', async () => {
    const gateway = await startGateway({ to: `http://127.0.0.1:${await freePort()}`, with: { throttle } })
    let refused = 0
    for (let i = 0; i < 10; i++) if (problemCode(await ask(gateway.url)) === 'upstream_overloaded') refused++
    expect(refused).toBeGreaterThan(0)
  })
})
