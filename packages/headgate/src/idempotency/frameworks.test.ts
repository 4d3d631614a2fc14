import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { createGate } from 'headgate'
import { type IdempotencyOptions, idempotency, redisReplies } from 'headgate/idempotency'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { connect } from '../../test/clients.ts'
import { type Framework, frameworks, type Handler, type RunningServer } from '../../test/http-servers.ts'
import { canStartRedis } from '../../test/redis-server.ts'
import { rig } from '../../test/redis-store.ts'
import { until } from '../../test/until.ts'

interface Sent {
  readonly key?: string
  readonly body?: string
  readonly path?: string
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly signal?: AbortSignal
}

describe.each(Object.entries(frameworks))('%s', (_, serve) => suite(serve, async () => ({})))

describe.skipIf(!canStartRedis)('on Redis', () => {
  const redis = rig()
  const some = Object.entries(frameworks).filter(([name]) => ['node:http', 'fastify', 'fetch'].includes(name))
  describe.each(some)('%s', (_, serve) =>
    suite(serve, async () => {
      const { client, close } = await connect('ioredis', redis.server)
      onTestFinished(close)
      return { store: redisReplies(client, { timeoutMs: 10_000 }) }
    }),
  )
})

function suite(serve: Framework, storeOf: () => Promise<IdempotencyOptions>): void {
  async function start(handler: Handler, options: IdempotencyOptions = {}): Promise<RunningServer> {
    const server = await serve(idempotency({ ...(await storeOf()), ...options }), handler)
    onTestFinished(() => server.close())
    return server
  }

  function send({ url }: RunningServer, sent: Sent = {}): Promise<Response> {
    const { key, body = '{"amount":5}', path = '/pay', method = 'POST', headers, signal } = sent
    return fetch(url + path, {
      method,
      headers: { ...(key !== undefined && { 'idempotency-key': key }), ...headers },
      ...(method !== 'GET' && { body }),
      ...(signal !== undefined && { signal }),
    })
  }

  /** Counts, and says how often it was called. */
  function counting(): Handler & { runs: number } {
    const handler = () => ({ status: 201, body: `run ${++handler.runs}` })
    handler.runs = 0
    return handler
  }

  /** A handler that has begun when `started` resolves and goes on at `goOn`. */
  function stopping() {
    let goOn = () => {}
    const gate = new Promise<void>((resolve) => {
      goOn = resolve
    })
    const state = { runs: 0, goOn }
    const handler: Handler = async () => {
      const run = ++state.runs
      await gate
      return { status: 201, body: `run ${run}` }
    }
    return { handler, state, started: () => until('the handler to start', () => state.runs > 0 || undefined) }
  }

  /** The first answer that is not "still running". */
  const free = (server: RunningServer) =>
    until('the first to end', async () => {
      const response = await send(server, { key: 'k' })
      return response.status === 409 ? undefined : response
    })

  const codeOf = async (response: Response) => [response.status, ((await response.json()) as { code: string }).code]

  test('answers a repeat with the first response: status, fields and every byte', async () => {
    const bytes = randomBytes(70_000)
    let runs = 0
    const server = await start(() => ({
      status: 202,
      headers: { 'content-type': 'application/x-thing', location: `/things/${++runs}`, link: ['</a>', '</b>'] },
      body: bytes,
    }))
    const key = randomUUID()
    const first = await send(server, { key })
    expect(Buffer.from(await first.arrayBuffer()).equals(bytes)).toBe(true)
    expect(first.headers.get('idempotency-replayed')).toBe(null)
    for (const form of [key, `"${key}"`]) {
      const again = await send(server, { key: form })
      expect(again.status).toBe(202)
      expect(Buffer.from(await again.arrayBuffer()).equals(bytes)).toBe(true)
      for (const name of ['content-type', 'location', 'link'])
        expect(again.headers.get(name)).toBe(first.headers.get(name))
      expect(again.headers.get('idempotency-replayed')).toBe('true')
    }
    expect(runs).toBe(1)
  })

  test('tells a repeat to come back while the first runs, then answers it', async () => {
    const { handler, state, started } = stopping()
    const server = await start(handler)
    const first = send(server, { key: 'k' })
    await started()
    const early = await send(server, { key: 'k' })
    expect(early.headers.get('retry-after')).toBe('1')
    expect(early.headers.get('content-type')).toBe('application/problem+json')
    expect(await codeOf(early)).toEqual([409, 'idempotency_in_progress'])
    state.goOn()
    expect(await (await first).text()).toBe('run 1')
    expect(await (await send(server, { key: 'k' })).text()).toBe('run 1')
  })

  test('lets one of many through that come together', async () => {
    const { handler, state } = stopping()
    const server = await start(handler)
    let refused = 0
    const all = Array.from({ length: 20 }, async () => {
      const response = await send(server, { key: 'k' })
      // The others are all refused before the first may end.
      if (response.status === 409 && ++refused === 19) state.goOn()
      return response.status
    })
    expect((await Promise.all(all)).sort()).toEqual([201, ...Array(19).fill(409)])
    expect(state.runs).toBe(1)
  })

  test.each(['/pay', '/unread'])('refuses a key that comes with another request, on %s', async (path) => {
    const handler = counting()
    const server = await start(handler)
    expect(await (await send(server, { key: 'k', path: `${path}?a=1` })).text()).toBe('run 1')
    const others: Sent[] = [
      { path: `${path}?a=1`, body: '{"amount":6}' },
      { path: `${path}?a=1`, body: '' },
      { path: `${path}?a=2` },
      { path: `${path}/other?a=1` },
      { path: `${path}?a=1`, method: 'PATCH' },
    ]
    for (const other of others)
      expect(await codeOf(await send(server, { key: 'k', ...other }))).toEqual([422, 'idempotency_payload_mismatch'])
    expect(await (await send(server, { key: 'k', path: `${path}?a=1` })).text()).toBe('run 1')
    expect(handler.runs).toBe(1)
  })

  test('compares large bodies to their last byte', async () => {
    const handler = counting()
    const server = await start(handler)
    const body = 'x'.repeat(1_000_000)
    expect((await send(server, { key: 'k', body })).status).toBe(201)
    expect((await send(server, { key: 'k', body })).status).toBe(201)
    expect((await send(server, { key: 'k', body: `${body.slice(1)}y` })).status).toBe(422)
    expect(handler.runs).toBe(1)
  })

  test('refuses requests without a key where one is required, and keys that are none', async () => {
    const handler = counting()
    const server = await start(handler, { required: true })
    expect(await codeOf(await send(server))).toEqual([400, 'idempotency_key_missing'])
    for (const key of ['', '""', '"open', 'a b', '"a", "b"', 'x'.repeat(256)])
      expect(await codeOf(await send(server, { key }))).toEqual([400, 'idempotency_key_invalid'])
    expect(handler.runs).toBe(0)
    expect((await send(server, { method: 'GET' })).status).toBe(201)
  })

  test('leaves requests without a key alone, and methods that need none', async () => {
    const handler = counting()
    const server = await start(handler)
    for (const sent of [
      {},
      {},
      { key: 'k', method: 'GET' },
      { key: 'k', method: 'GET' },
      { key: 'k', method: 'PUT' },
    ]) {
      const response = await send(server, sent)
      expect(response.status).toBe(201)
      expect(response.headers.get('idempotency-replayed')).toBe(null)
      await response.text()
    }
    expect(handler.runs).toBe(5)
  })

  test('keeps equal keys of two callers apart', async () => {
    const handler = counting()
    const server = await start(handler)
    const as = (authorization: string) => send(server, { key: 'k', headers: { authorization } })
    expect(await (await as('Bearer ann')).text()).toBe('run 1')
    expect(await (await as('Bearer bob')).text()).toBe('run 2')
    expect(await (await as('Bearer ann')).text()).toBe('run 1')
  })

  test('runs again after a failure and after a refusal by a limit', async () => {
    let runs = 0
    const server = await start(() => {
      runs++
      if (runs === 1) throw new Error('broken')
      return { status: [503, 429, 404, 200][runs - 2] as number, body: `run ${runs}` }
    })
    const statuses: number[] = []
    for (let i = 0; i < 5; i++) {
      const response = await send(server, { key: 'k' })
      statuses.push(response.status)
      await response.text()
    }
    expect(statuses).toEqual([500, 503, 429, 404, 404])
    expect(runs).toBe(4)
  })

  test('replays are not charged', async () => {
    const gate = createGate({ limit: '2/day' })
    const server = await start(() => {
      const { ok, remaining } = gate.take('caller')
      return {
        status: ok ? 200 : 429,
        headers: { 'x-ratelimit-remaining': String(remaining) },
        body: `${remaining} left`,
      }
    })
    for (let i = 0; i < 5; i++) expect(await (await send(server, { key: 'a' })).text()).toBe('1 left')
    expect(gate.peek('caller').remaining).toBe(1)
    expect(await (await send(server, { key: 'b' })).text()).toBe('0 left')
    expect((await send(server, { key: 'c' })).status).toBe(429)
    const replay = await send(server, { key: 'a' })
    expect([replay.status, await replay.text(), replay.headers.get('x-ratelimit-remaining')]).toEqual([
      200,
      '1 left',
      null,
    ])
  })

  test('replays neither cookies nor what held for one connection or instant', async () => {
    const headers = { 'set-cookie': ['sid=1', 'b=2'], date: 'Thu, 01 Jan 1970 00:00:00 GMT', 'x-own': 'kept' }
    const server = await start(() => ({ headers, body: 'ok' }))
    expect((await send(server, { key: 'k' })).headers.getSetCookie()).toEqual(['sid=1', 'b=2'])
    const replay = await send(server, { key: 'k' })
    expect(replay.headers.getSetCookie()).toEqual([])
    expect(replay.headers.get('x-own')).toBe('kept')
    expect(replay.headers.get('date')).not.toBe(headers.date)
  })

  test.each([204, 205, 304])('replays %i, which has no body', async (status) => {
    let runs = 0
    const server = await start(() => ({ status, headers: { etag: `"${++runs}"` } }))
    for (let i = 0; i < 2; i++) {
      const response = await send(server, { key: 'k' })
      expect([response.status, response.headers.get('etag'), await response.text()]).toEqual([status, '"1"', ''])
    }
  })

  test('passes a stream on while it flows, and replays it whole', async () => {
    let goOn = () => {}
    const seen = new Promise<void>((resolve) => {
      goOn = resolve
    })
    let runs = 0
    async function* pieces() {
      yield Buffer.from(`first piece of run ${++runs}, `)
      await seen
      yield Buffer.from('second piece')
    }
    const server = await start(() => ({ body: pieces() }))
    const response = await send(server, { key: 'k' })
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    let text = ''
    for (;;) {
      // The second piece is not made before the first has arrived.
      const { done, value } = await reader.read()
      if (done) break
      text += Buffer.from(value).toString()
      goOn()
    }
    expect(text).toBe('first piece of run 1, second piece')
    expect(await (await send(server, { key: 'k' })).text()).toBe(text)
  })

  test('never replays a response that broke off', async () => {
    let runs = 0
    let breakOff = () => {}
    const seen = new Promise<void>((resolve) => {
      breakOff = resolve
    })
    async function* pieces() {
      yield Buffer.from('half of ')
      await seen
      if (runs === 1) throw new Error('broken')
      yield Buffer.from(`run ${runs}`)
    }
    const server = await start(() => {
      runs++
      return { body: pieces() }
    })
    vi.spyOn(console, 'error').mockImplementation(() => {}) // where servers tell of it
    onTestFinished(() => void vi.restoreAllMocks())
    const response = await send(server, { key: 'k' })
    breakOff()
    await expect(response.text()).rejects.toThrow()
    expect(await (await free(server)).text()).toBe('half of run 2')
    expect(await (await send(server, { key: 'k' })).text()).toBe('half of run 2')
  })

  /** Sends and hangs up when it is told to, on a connection of its own; resolves when the server has noticed. */
  function hangUp(server: RunningServer, when: (response: IncomingMessage | undefined) => Promise<unknown>) {
    return new Promise<void>((resolve, reject) => {
      const headers = { 'idempotency-key': 'k' }
      const request = httpRequest(`${server.url}/pay`, { method: 'POST', headers, agent: false })
      const leave = async (response?: IncomingMessage) => {
        await when(response)
        request.destroy()
        await until('no connection', async () => ((await server.connections()) === 0 ? true : undefined))
      }
      request.on('error', () => {})
      request.once('response', (response) => leave(response).then(resolve, reject))
      request.end('{"amount":5}', () => void leave().then(resolve, reject))
    })
  }

  test('answers a client that hung up while its request ran when it asks again', async () => {
    const { handler, state, started } = stopping()
    const server = await start(handler)
    await hangUp(server, started)
    expect(await codeOf(await send(server, { key: 'k' }))).toEqual([409, 'idempotency_in_progress'])
    state.goOn()
    const answer = await free(server)
    expect(await answer.text()).toBe('run 1')
    expect(answer.headers.get('idempotency-replayed')).toBe('true')
  })

  test('runs again for a client that hung up in the midst of the response', async () => {
    let runs = 0
    async function* pieces() {
      yield Buffer.from(`run ${++runs}`)
      if (runs === 1) await new Promise(() => {})
    }
    const server = await start(() => ({ body: pieces() }))
    await hangUp(server, async (response) => (response === undefined ? new Promise(() => {}) : once(response, 'data')))
    expect(await (await free(server)).text()).toBe('run 2')
  })

  test('passes a response that is too large to keep, and runs a repeat', async () => {
    let runs = 0
    const events: string[] = []
    const large = { maxBodyBytes: 1000, onEvent: ({ kind }: { kind: string }) => events.push(kind) }
    const server = await start(() => ({ body: `${++runs}`.repeat(runs === 3 ? 1000 : 1001) }), large)
    expect(await (await send(server, { key: 'k' })).text()).toBe('1'.repeat(1001))
    expect(await (await send(server, { key: 'k' })).text()).toBe('2'.repeat(1001))
    expect(await (await send(server, { key: 'k' })).text()).toBe('3'.repeat(1000))
    expect(await (await send(server, { key: 'k' })).text()).toBe('3'.repeat(1000))
    expect(events).toEqual(['reply-too-large', 'reply-too-large'])
  })
}
