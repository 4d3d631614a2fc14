import { createServer } from 'node:http'
import { Readable } from 'node:stream'
import axios from 'axios'
import got from 'got'
import { axiosOptions, gotHooks, type PoliteOptions, politeFetch, undiciInterceptor } from 'headgate/client'
import { Agent, connect, request, fetch as undiciFetch, upgrade } from 'undici'
import { describe, expect, onTestFinished, test } from 'vitest'
import { urlOf } from '../../../../examples/serving.ts'
import { until } from '../../test/until.ts'

/** A server that takes one call at a time and a second between the first two, and tells so. */
async function server() {
  const atMs: number[] = []
  const listening = createServer((req, res) => {
    req.resume()
    atMs.push(performance.now())
    res.writeHead(200, { 'x-ratelimit-limit': '1', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset-after': '0.3' })
    res.end(JSON.stringify({ call: atMs.length }))
  }).listen(0, '127.0.0.1')
  return { url: `${await urlOf(listening)}/things`, atMs }
}

/** From the first on: when a call is heard of says less about the next, as a busy process hears late. */
function spaced(atMs: readonly number[]) {
  const [first = 0] = atMs
  expect(atMs).toHaveLength(3)
  for (const [index, at] of atMs.entries()) expect(at - first).toBeGreaterThanOrEqual(index * 298)
}

test('axios waits for its turn, and gets its answers', async () => {
  const { url, atMs } = await server()
  const client = axios.create(axiosOptions(politeFetch()))
  const answers = await Promise.all([1, 2, 3].map(() => client.post(url, { hello: 'world' })))
  expect(answers.map(({ data }) => data.call).sort()).toEqual([1, 2, 3])
  spaced(atMs)
})

test('undici waits for its turn, and gets its answers', async () => {
  const { url, atMs } = await server()
  const dispatcher = new Agent().compose(undiciInterceptor(politeFetch()))
  const answers = await Promise.all([1, 2, 3].map(async () => (await request(url, { dispatcher })).body.json()))
  expect(answers.map((each) => (each as { call: number }).call).sort()).toEqual([1, 2, 3])
  spaced(atMs)
  await dispatcher.close()
})

test('undici hears of a call that cannot wait', async () => {
  const { url } = await server()
  const dispatcher = new Agent().compose(undiciInterceptor(politeFetch({ limit: '1/min', maxWaitMs: 100 })))
  await (await request(url, { dispatcher })).body.text()
  await expect(request(url, { dispatcher })).rejects.toMatchObject({ code: 'HG_WAIT_TOO_LONG' })
  await dispatcher.close()
})

test('undici: a connection that becomes a WebSocket or a tunnel holds no place in the line', async () => {
  const listening = createServer((_req, res) => res.end('ok'))
  const answers = {
    upgrade: 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
    connect: 'HTTP/1.1 200 OK\r\n\r\n',
  }
  for (const [event, answer] of Object.entries(answers))
    listening.on(event, (_req, socket) => {
      socket.on('error', () => {})
      socket.end(answer)
    })
  listening.listen(0, '127.0.0.1')
  const url = await urlOf(listening)
  const polite = politeFetch({ concurrency: 1, maxWaitMs: 1_000 })
  const dispatcher = new Agent().compose(undiciInterceptor(polite))
  const upgraded = await upgrade(`${url}/ws`, { dispatcher, protocol: 'websocket' })
  expect(polite.state().hosts[0]?.underWay).toBe(0)
  const connected = await connect(url, { dispatcher })
  expect(polite.state().hosts.every(({ underWay }) => underWay === 0)).toBe(true)
  for (const { socket } of [upgraded, connected]) socket.destroy()
  const { statusCode, body } = await request(url, { dispatcher })
  expect([statusCode, await body.text()]).toEqual([200, 'ok'])
})

test('got waits for its turn, and gets its answers', async () => {
  const { url, atMs } = await server()
  const client = got.extend({ hooks: gotHooks(politeFetch()) })
  const answers = await Promise.all([1, 2, 3].map(() => client(url).json<{ call: number }>()))
  expect(answers.map(({ call }) => call).sort()).toEqual([1, 2, 3])
  spaced(atMs)
})

test('got that fails gives its turn back', async () => {
  const polite = politeFetch({ concurrency: 1 })
  const client = got.extend({ hooks: gotHooks(polite), retry: { limit: 0 } })
  await expect(client('http://127.0.0.1:1/')).rejects.toThrow(/ECONNREFUSED/)
  expect(polite.state().hosts[0]).toMatchObject({ underWay: 0 })
})

test('a turn counts as under way until it is told how it ended, once', async () => {
  const polite = politeFetch()
  const turn = await polite.turn('https://api.example/')
  expect(polite.state().hosts[0]).toMatchObject({ underWay: 1 })
  turn.answered(200, (name) => (name === 'x-ratelimit-remaining' ? '5' : undefined))
  turn.failed()
  expect(polite.state().hosts[0]).toMatchObject({ underWay: 0, budgets: [{ left: 5 }] })
})

interface Sent {
  readonly status: number
  readonly body: unknown
}

/** A client as its users call it, without throwing on a status. */
type Send = (url: string, init: { method: string; body?: string; signal?: AbortSignal }) => Promise<Sent>

const clients: Record<string, (options: PoliteOptions) => { send: Send; polite: ReturnType<typeof politeFetch> }> = {
  axios(options) {
    const polite = politeFetch(options)
    const client = axios.create({ ...axiosOptions(polite), validateStatus: () => true })
    const send: Send = async (url, { body, ...init }) => {
      const { status, data } = await client.request({ url, ...init, ...(body !== undefined && { data: body }) })
      return { status, body: data }
    }
    return { polite, send }
  },
  undici(options) {
    const polite = politeFetch(options)
    const dispatcher = new Agent().compose(undiciInterceptor(polite))
    const send: Send = async (url, init) => {
      const { statusCode, body } = await request(url, { ...init, dispatcher } as never)
      const text = await body.text()
      return { status: statusCode, body: text === '' ? '' : JSON.parse(text) }
    }
    return { polite, send }
  },
  got(options) {
    const polite = politeFetch(options)
    const client = got.extend({ hooks: gotHooks(polite), throwHttpErrors: false, responseType: 'json' })
    const send: Send = async (url, init) => {
      const { statusCode, body } = await client(url, init as never)
      return { status: statusCode, body }
    }
    return { polite, send }
  },
}

/** Answers with these, one after the other, then with 200. */
async function answering(...answers: { status: number; headers?: Record<string, string>; body?: unknown }[]) {
  const got: { method: string; body: string; key: string | undefined; atMs: number }[] = []
  const server = createServer(async (req, res) => {
    let body = ''
    for await (const piece of req) body += piece
    const key = req.headers['idempotency-key'] as string | undefined
    got.push({ method: req.method ?? '', body, key, atMs: performance.now() })
    const { status, headers = {}, body: answer = { ok: true } } = answers[got.length - 1] ?? { status: 200 }
    res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(answer))
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  return { url: await urlOf(server), got }
}

const idle = (polite: ReturnType<typeof politeFetch>) =>
  expect(polite.state().hosts[0]).toMatchObject({ waiting: 0, underWay: 0 })

describe.each(Object.entries(clients))('by %s', (_, make) => {
  test('a POST that was refused is repeated with its body, when it was told', async () => {
    const { url, got } = await answering({ status: 429, headers: { 'retry-after': '1' } })
    const { send, polite } = make({})
    expect(await send(url, { method: 'POST', body: 'hello' })).toEqual({ status: 200, body: { ok: true } })
    expect(got.map(({ method, body }) => [method, body])).toEqual(Array(2).fill(['POST', 'hello']))
    expect((got[1]?.atMs ?? 0) - (got[0]?.atMs ?? 0)).toBeGreaterThanOrEqual(995)
    idle(polite)
  })

  test('what failed is repeated where that is safe, and only there', async () => {
    const safe = await answering({ status: 503 })
    expect((await make({}).send(safe.url, { method: 'GET' })).status).toBe(200)
    expect(safe.got).toHaveLength(2)
    const unsafe = await answering({ status: 503 })
    expect((await make({}).send(unsafe.url, { method: 'POST', body: 'x' })).status).toBe(503)
    expect(unsafe.got).toHaveLength(1)
  })

  test('an Idempotency-Key is made and kept over the attempts', async () => {
    const { url, got } = await answering({ status: 502 }, { status: 502 })
    const { send } = make({ idempotencyKey: true })
    expect((await send(url, { method: 'POST', body: 'x' })).status).toBe(200)
    expect(got).toHaveLength(3)
    expect(got[0]?.key).toMatch(/^[\da-f]{32}$/)
    expect(new Set(got.map(({ key }) => key)).size).toBe(1)
  })

  test('a body that tells of a limit is read: 403 of a secondary limit, an error of GraphQL', async () => {
    const secondary = { message: 'You have exceeded a secondary rate limit.' }
    const headers = { 'x-github-request-id': 'A', 'retry-after': '1' }
    const github = await answering({ status: 403, headers, body: secondary })
    expect((await make({}).send(github.url, { method: 'GET' })).status).toBe(200)
    expect(github.got).toHaveLength(2)
    const limited = { errors: [{ extensions: { code: 'THROTTLED' } }] }
    const graphql = await answering({ status: 200, headers: { 'retry-after': '0' }, body: limited })
    const { send, polite } = make({})
    expect(await send(`${graphql.url}/graphql`, { method: 'POST', body: '{}' })).toMatchObject({ body: { ok: true } })
    expect(graphql.got).toHaveLength(2)
    idle(polite)
  })

  test('a 403 that is none is handed on, body and all', async () => {
    const { url, got } = await answering({ status: 403, body: { message: 'not yours' } })
    const { send, polite } = make({})
    expect(await send(url, { method: 'GET' })).toEqual({ status: 403, body: { message: 'not yours' } })
    expect(got).toHaveLength(1)
    idle(polite)
  })

  test('who leaves while it waits is not sent, and leaves nothing behind', async () => {
    const { url, got } = await answering({
      status: 200,
      headers: { 'x-ratelimit-limit': '1', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset-after': '0.4' },
    })
    const { send, polite } = make({})
    await send(url, { method: 'GET' })
    const signal = AbortSignal.timeout(100)
    await expect(send(url, { method: 'GET', signal })).rejects.toThrow()
    await until('the line to be empty', () => polite.state().hosts[0]?.waiting === 0 || undefined)
    await until('nothing to be under way', () => polite.state().hosts[0]?.underWay === 0 || undefined)
    expect(got).toHaveLength(1)
  })
})

test.each(['undici', 'got'] as const)('%s gets the last answer when repeating has come to its end', async (name) => {
  const refusal = { status: 429, headers: { 'retry-after-ms': '10' }, body: { why: 'because' } }
  const { url, got } = await answering(refusal, refusal, refusal, refusal)
  const { send, polite } = (clients[name] as (typeof clients)['got'])({ retries: 2 })
  expect(await send(url, { method: 'GET' })).toEqual({ status: 429, body: { why: 'because' } })
  expect(got).toHaveLength(3)
  idle(polite)
})

test('undici gets a refusal of a body that can be sent once only', async () => {
  const { url, got } = await answering({ status: 429, headers: { 'retry-after': '0' } })
  const dispatcher = new Agent().compose(undiciInterceptor(politeFetch()))
  const { statusCode } = await request(url, { method: 'POST', body: Readable.from(['once']), dispatcher })
  expect([statusCode, got.length]).toEqual([429, 1])
})

test('fetch of undici is repeated without a body; with one, which it makes a stream of, it gets the refusal', async () => {
  const refusal = { status: 429, headers: { 'retry-after': '0' } }
  const { url, got } = await answering(refusal, { status: 200 }, refusal)
  const polite = politeFetch()
  const dispatcher = new Agent().compose(undiciInterceptor(polite))
  expect((await undiciFetch(url, { dispatcher })).status).toBe(200)
  expect((await undiciFetch(url, { dispatcher, method: 'POST', body: 'x' })).status).toBe(429)
  expect(got).toHaveLength(3)
  idle(polite)
})

test('undici repeats a call that got no answer, if that is safe', async () => {
  let calls = 0
  const server = createServer((req, res) => (++calls % 2 === 1 ? req.socket.destroy() : res.end('{}')))
  onTestFinished(() => void server.close())
  const url = await urlOf(server.listen(0, '127.0.0.1'))
  const polite = politeFetch()
  const dispatcher = new Agent().compose(undiciInterceptor(polite))
  const { statusCode } = await request(url, { dispatcher })
  expect([statusCode, calls]).toEqual([200, 2])
  await expect(request(url, { dispatcher, method: 'POST', body: 'x' })).rejects.toThrow()
  expect(calls).toBe(3)
  idle(polite)
})

test('undici does not read on what nobody wants of a large refusal', async () => {
  let calls = 0
  const server = createServer((_req, res) => {
    if (++calls > 1) return void res.end('{}')
    res.writeHead(429, { 'retry-after': '0', 'content-type': 'text/plain' })
    const more = () => {
      while (res.write('x'.repeat(65_536)));
    }
    res.on('drain', more)
    more()
  })
  onTestFinished(() => void server.close())
  const dispatcher = new Agent().compose(undiciInterceptor(politeFetch()))
  const { statusCode } = await request(await urlOf(server.listen(0, '127.0.0.1')), { dispatcher })
  expect([statusCode, calls]).toEqual([200, 2])
})

test('got gives every turn back: of redirects, of streams, of calls that it repeats by itself', async () => {
  let calls = 0
  const server = createServer((req, res) => {
    calls++
    if (req.url === '/moved') return void res.writeHead(302, { location: '/there' }).end()
    if (req.url === '/broken' && calls % 2 === 1) return void req.socket.destroy()
    res.end('{}')
  })
  onTestFinished(() => void server.close())
  const url = await urlOf(server.listen(0, '127.0.0.1'))
  const polite = politeFetch({ concurrency: 1 })
  const client = got.extend({ hooks: gotHooks(polite) })
  await client(`${url}/moved`)
  idle(polite)
  for await (const _ of client.stream(`${url}/there`)) calls += 0
  idle(polite)
  calls = 0
  await client(`${url}/broken`, { retry: { limit: 1, backoffLimit: 10 } })
  expect(calls).toBe(2)
  idle(polite)
})
