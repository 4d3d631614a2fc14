import { once } from 'node:events'
import { request, type ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import {
  ask,
  freePort,
  idle,
  problemCode,
  read,
  responseOf,
  startDeaf,
  startGateway,
  startRaw,
  startUpstream,
} from '../../test/gateway.ts'

const named = (name: string) => startUpstream((_, res) => res.end(name))

test('chooses the upstream by path and host, the first that fits', async () => {
  const [api, shop, rest] = await Promise.all([named('api'), named('shop'), named('rest')])
  const gateway = await startGateway({
    to: [
      { name: 'api', urls: [api.url], match: { path: (path) => path.startsWith('/api/') } },
      {
        name: 'shop',
        urls: [shop.url],
        match: { host: (host) => host === 'shop.test', path: (path) => path !== '/x' },
      },
      { name: 'rest', urls: [rest.url] },
    ],
  })
  const asked = async (path: string, host = 'a.test') =>
    (await ask(gateway.url + path, { headers: { Host: host } })).body
  expect(await asked('/api/x?y')).toBe('api')
  expect(await asked('/y', 'SHOP.test:8080')).toBe('shop')
  expect(await asked('/x', 'shop.test')).toBe('rest')
  expect(await asked('/y?/api/')).toBe('rest')
})

test('answers 404 when no upstream serves a path', async () => {
  const api = await named('api')
  const gateway = await startGateway({
    to: [{ name: 'api', urls: [api.url], match: { path: (path) => path === '/api' } }],
  })
  const answer = await ask(`${gateway.url}/other`)
  expect(answer.status).toBe(404)
  expect(problemCode(answer)).toBe('no_route')
})

test('asks the endpoint that is least busy', async () => {
  const held: ServerResponse[] = []
  const upstreams = await Promise.all([0, 1, 2].map(() => startUpstream((_, res) => void held.push(res))))
  const gateway = await startGateway({ to: [{ name: 'all', urls: upstreams.map(({ url }) => url) }] })
  const answers = Array.from({ length: 9 }, () => ask(gateway.url))
  await until('all to arrive', () => (held.length === 9 ? true : undefined))
  expect(gateway.proxy.stats().upstreams.map(({ inFlight }) => inFlight)).toEqual([3, 3, 3])
  for (const res of held) res.end()
  await Promise.all(answers)
  await idle(gateway)
})

test('spreads requests over endpoints that are equally busy', async () => {
  const upstreams = await Promise.all(['a', 'b'].map(named))
  const gateway = await startGateway({ to: [{ name: 'all', urls: upstreams.map(({ url }) => url) }] })
  const seen = new Set<string>()
  for (let i = 0; i < 40; i++) seen.add((await ask(gateway.url)).body)
  expect([...seen].sort()).toEqual(['a', 'b']) // one of them alone: 1 in 10^12
})

test('asks another endpoint when one refuses the connection, and soon only that one', async () => {
  const changes: unknown[] = []
  const dead = `http://127.0.0.1:${await freePort()}`
  const alive = await startUpstream((req, res) => void req.on('end', () => res.end('alive')).resume())
  const gateway = await startGateway({
    to: [{ name: 'all', urls: [dead, alive.url] }],
    onHealth: (change) => changes.push(change),
  })
  for (let i = 0; i < 40; i++) {
    expect((await ask(gateway.url, { method: 'POST', body: 'x' })).body).toBe('alive')
  }
  expect(gateway.proxy.stats().upstreams.map(({ healthy }) => healthy)).toEqual([false, true])
  expect(changes).toEqual([{ upstream: 'all', url: dead, healthy: false }])
})

test('answers 503 at once while the only endpoint is out, and serves again when it is back', async () => {
  const port = await freePort()
  const gateway = await startGateway({ to: `http://127.0.0.1:${port}` })
  for (let i = 0; i < 3; i++) expect((await ask(gateway.url)).status).toBe(502)
  const refused = await ask(gateway.url)
  expect(refused).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
  expect(problemCode(refused)).toBe('no_upstream')
  const { server } = await named('back')
  server.close()
  server.listen(port, '127.0.0.1')
  await until('the endpoint to be tried again', async () =>
    (await ask(gateway.url)).body === 'back' ? true : undefined,
  )
  expect(gateway.proxy.stats().upstreams[0]?.healthy).toBe(true)
})

test('takes out what fails its checks, and brings back what passes them', async () => {
  let well = false
  const sick = await startUpstream((req, res) => {
    if (req.url === '/base/health') res.writeHead(well ? 204 : 500).end()
    else res.end('sick')
  })
  const fit = await startUpstream((_, res) => res.end('fit'))
  const health = { path: '/health', intervalMs: 10, timeoutMs: 500, healthyAfter: 2, unhealthyAfter: 2 }
  const changes: boolean[] = []
  const gateway = await startGateway({
    to: [{ name: 'all', urls: [`${sick.url}/base`, fit.url], health }],
    onHealth: ({ healthy }) => changes.push(healthy),
  })
  await until('the sick one to be out', () => gateway.proxy.stats().upstreams[0]?.healthy === false || undefined)
  for (let i = 0; i < 10; i++) expect((await ask(gateway.url)).body).toBe('fit')
  well = true
  await until('it to be back', () => gateway.proxy.stats().upstreams[0]?.healthy || undefined)
  expect(changes).toEqual([false, true])
})

test('holds an endpoint that does not answer a check in time to be sick', async () => {
  const hanging = await startUpstream(() => {})
  const health = { path: '/', intervalMs: 10, timeoutMs: 20, healthyAfter: 1, unhealthyAfter: 1 }
  const gateway = await startGateway({ to: hanging.url, with: { health } })
  await until('it to be out', () => gateway.proxy.stats().upstreams[0]?.healthy === false || undefined)
  expect(problemCode(await ask(gateway.url))).toBe('no_upstream')
})

/** Answers the first request of a connection, and closes it on the second. */
async function startStale() {
  const seen = { requests: 0, connections: 0 }
  const upstream = await startRaw((socket) => {
    seen.connections++
    let first = true
    socket.on('data', () => {
      seen.requests++
      if (first) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
      else socket.destroy()
      first = false
    })
  })
  return { url: upstream.url, seen }
}

test('repeats what an old connection lost, when that is safe', async () => {
  const { url, seen } = await startStale()
  const gateway = await startGateway({ to: url })
  for (const method of ['GET', 'GET', 'DELETE', 'OPTIONS']) expect((await ask(gateway.url, { method })).body).toBe('ok')
  expect((await ask(gateway.url, { method: 'PUT', body: 'small enough to be kept' })).body).toBe('ok')
  expect(seen).toEqual({ requests: 9, connections: 5 })
  expect(gateway.outcomes).toHaveLength(5)
  await idle(gateway)
})

test.each([
  ['that may not be repeated', { method: 'POST' }],
  ['whose body is gone', { method: 'PUT', body: 'x', headers: { 'Transfer-Encoding': 'chunked' } }],
])('does not repeat a request %s', async (_, asking) => {
  const { url, seen } = await startStale()
  const gateway = await startGateway({ to: url })
  await ask(gateway.url)
  expect(problemCode(await ask(gateway.url, asking))).toBe('upstream_failed')
  expect(seen).toEqual({ requests: 2, connections: 1 })
  await idle(gateway)
})

test('replaces upstreams at once, and lets requests under way end where they are', async () => {
  const held: ServerResponse[] = []
  const [old, next] = [await startUpstream((_, res) => void held.push(res)), await named('next')]
  const gateway = await startGateway({ to: old.url })
  const asked = request(gateway.url, { agent: false }).end()
  const res = await until('the request', () => held[0])
  res.write('be')
  const answer = await responseOf(asked)
  gateway.proxy.update([{ name: 'only', urls: [next.url] }])
  expect((await ask(gateway.url)).body).toBe('next')
  expect(gateway.proxy.stats().upstreams.map(({ url }) => url)).toEqual([next.url])
  res.end('fore')
  expect((await read(answer)).body).toBe('before')
  await idle(gateway)
})

test('sends a body that was still coming to the upstream that serves by then', async () => {
  const [old, next] = [await named('old'), await named('next')]
  const gateway = await startGateway({ to: old.url })
  const sending = request(gateway.url, { method: 'POST', agent: false, headers: { 'Content-Length': '10' } })
  sending.write('first')
  await until('the request', () => gateway.proxy.stats().inFlight || undefined)
  gateway.proxy.update([{ name: 'only', urls: [next.url] }])
  sending.end('other')
  expect((await read(await responseOf(sending))).body).toBe('next')
  await idle(gateway)
})

test('keeps the connections of endpoints that stay', async () => {
  let connections = 0
  const upstream = await named('same')
  upstream.server.on('connection', () => connections++)
  const gateway = await startGateway({ to: upstream.url })
  await ask(gateway.url)
  gateway.proxy.update([{ name: 'only', urls: [upstream.url], headersTimeoutMs: 1_000 }])
  expect((await ask(gateway.url)).body).toBe('same')
  expect(connections).toBe(1)
})

test('keeps the old upstreams when the new ones make no sense', async () => {
  const upstream = await named('old')
  const gateway = await startGateway({ to: upstream.url })
  expect(() => gateway.proxy.update([{ name: 'bad', urls: ['ftp://x'] }])).toThrow(/ftp:\/\/x/)
  expect((await ask(gateway.url)).body).toBe('old')
})

test('closes by refusing the new, waiting for the rest, and breaking that off in the end', async () => {
  const held: ServerResponse[] = []
  const upstream = await startUpstream((_, res) => void held.push(res))
  const gateway = await startGateway({ to: upstream.url })
  const asked = request(gateway.url, { agent: false }).end()
  await once(upstream.server, 'request')
  const closing = gateway.proxy.close({ graceMs: 60_000 })
  const refused = await ask(gateway.url)
  expect(refused).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
  held[0]?.end('in time')
  expect((await read(await responseOf(asked))).body).toBe('in time')
  await closing
  expect(gateway.proxy.stats().inFlight).toBe(0)
})

test('breaks off what takes longer than the grace', async () => {
  const upstream = await startUpstream(() => {})
  const gateway = await startGateway({ to: upstream.url })
  const asked = ask(gateway.url)
  await once(upstream.server, 'request')
  await Promise.all([gateway.proxy.close({ graceMs: 20 }), expect(asked).rejects.toThrow()])
  expect(await gateway.outcome()).toMatchObject({ status: 0, aborted: 'upstream' })
  await idle(gateway)
})

test('takes out an endpoint that lets every connection wait, also if no client waits so long', async () => {
  const deaf = await startDeaf()
  const changes: boolean[] = []
  const gateway = await startGateway({
    to: deaf.url,
    with: { connectTimeoutMs: 1_000 },
    onHealth: ({ healthy }) => changes.push(healthy),
  })
  for (let i = 0; i < 3; i++) {
    const asked = request(gateway.url, { agent: false }).on('error', () => {})
    asked.end()
    await until('the request', () => gateway.proxy.stats().inFlight || undefined)
    asked.destroy()
    await idle(gateway)
  }
  await until('the endpoint to be out', () => changes.length > 0 || undefined)
  expect(changes).toEqual([false])
})

test('holds it against nobody that connections end which are being made when it closes', async () => {
  const deaf = await startDeaf()
  const changes: boolean[] = []
  const gateway = await startGateway({ to: deaf.url, onHealth: ({ healthy }) => changes.push(healthy) })
  for (let i = 0; i < 5; i++)
    request(gateway.url, { agent: false })
      .on('error', () => {})
      .end()
  await until('the requests', () => gateway.proxy.stats().inFlight === 5 || undefined)
  await gateway.proxy.close()
  await until('their ends', () => gateway.outcomes.length === 5 || undefined)
  await new Promise((resolve) => setImmediate(resolve))
  expect(changes).toEqual([])
})

test('loses no request while upstreams are replaced again and again', async () => {
  let connections = 0
  const upstream = await startUpstream((req, res) => {
    let length = 0
    req
      .on('data', (chunk) => (length += chunk.length))
      .on('end', () => setTimeout(() => res.end(`got ${length}`), length % 7))
  })
  upstream.server.on('connection', () => connections++)
  const to = (connectTimeoutMs: number) => [{ name: 'a', urls: [upstream.url], connectTimeoutMs }]
  const gateway = await startGateway({ to: to(5_000) })
  let isOver = false
  const asking = Array.from({ length: 10 }, async (_, i) => {
    for (let n = 0; n < 40; n++) {
      const length = (i * 40 + n) ** 2 % 40_000
      const body = 'x'.repeat(length)
      const headers = { 'Content-Length': String(length) }
      const answer = await ask(gateway.url, { method: n % 2 ? 'POST' : 'PUT', headers, body })
      expect(answer).toMatchObject({ status: 200, body: `got ${length}` })
    }
  })
  const all = Promise.all(asking).finally(() => (isOver = true))
  for (let n = 0; !isOver; n++) {
    gateway.proxy.update(to(5_000 + (n % 2)))
    await new Promise((resolve) => setTimeout(resolve, n % 4))
  }
  await all
  await idle(gateway)
  expect(gateway.outcomes.filter(({ aborted }) => aborted)).toEqual([])
  gateway.proxy.update([])
  const open = () => new Promise<number>((resolve) => upstream.server.getConnections((_, count) => resolve(count)))
  await until('all connections to be closed', async () => (await open()) === 0 || undefined)
  expect(connections).toBeGreaterThan(10)
})
