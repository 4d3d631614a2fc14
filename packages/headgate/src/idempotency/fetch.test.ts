import { idempotency } from 'headgate/idempotency'
import { Hono } from 'hono'
import { compress } from 'hono/compress'
import { expect, test } from 'vitest'
import { until } from '../../test/until.ts'

const post = (body: BodyInit | null = '{"amount":5}', init: RequestInit = {}) =>
  new Request('https://shop.test/pay?a=1', { method: 'POST', body, headers: { 'idempotency-key': 'k' }, ...init })
type BodyInit = ConstructorParameters<typeof Response>[0]

test('hands on what else a handler is given', async () => {
  const handle = idempotency().fetch((_request, env: { name: string }, n: number) => new Response(env.name + n))
  expect(await (await handle(post(), { name: 'a' }, 1)).text()).toBe('a1')
  expect(await (await handle(post(), { name: 'b' }, 2)).text()).toBe('a1')
})

test('gives the handler a request like the one that came', async () => {
  const seen: unknown[] = []
  const handle = idempotency().fetch(async (request) => {
    seen.push(request.method, request.url, request.headers.get('idempotency-key'), await request.json())
    return Response.json('ok')
  })
  await handle(post())
  expect(seen).toEqual(['POST', 'https://shop.test/pay?a=1', 'k', { amount: 5 }])
})

test('reads a body no faster than its handler, and no further than it needs', async () => {
  let pulled = 0
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (++pulled <= 5) controller.enqueue(new Uint8Array([pulled]))
        else controller.close()
      },
    },
    { highWaterMark: 0 },
  )
  const seen: number[] = []
  const handle = idempotency().fetch(async (request) => {
    const reader = (request.body as ReadableStream<Uint8Array>).getReader()
    seen.push(pulled)
    await reader.read()
    seen.push(pulled)
    return new Response('ok')
  })
  await (await handle(post(body, { duplex: 'half' } as RequestInit))).text()
  expect(seen).toEqual([0, 1])
  // What the handler left is read at the end, to know it again.
  expect((await handle(post(new Uint8Array([1, 2, 3, 4, 5])))).headers.get('idempotency-replayed')).toBe('true')
  expect((await handle(post(new Uint8Array([1, 2, 3, 4, 6])))).status).toBe(422)
})

test('makes a response no faster than it is read', async () => {
  let pulled = 0
  const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    pulled++
    controller.enqueue(new Uint8Array(10_000))
  }
  const handle = idempotency().fetch(() => new Response(new ReadableStream({ pull }, { highWaterMark: 0 })))
  const reader = ((await handle(post())).body as ReadableStream<Uint8Array>).getReader()
  const ahead = pulled
  expect(ahead).toBeLessThanOrEqual(7)
  for (let i = 0; i < ahead + 2; i++) await reader.read()
  expect(pulled).toBe(ahead + 2)
})

test('runs again after a handler that threw', async () => {
  let runs = 0
  const handle = idempotency().fetch(() => {
    if (++runs === 1) throw new Error('broken')
    return new Response(`run ${runs}`)
  })
  await expect(handle(post())).rejects.toThrow('broken')
  expect(await (await handle(post())).text()).toBe('run 2')
})

test('keeps a whole response that nobody came to read, and frees the key of one without end', async () => {
  let runs = 0
  async function* pieces() {
    const run = ++runs
    for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate)
    if (run === 1) await new Promise(() => {})
    yield Buffer.from(`run ${run}`)
  }
  const handle = idempotency().fetch(() => new Response(ReadableStream.from(pieces())))
  const free = () =>
    until('the key to be free', async () => {
      const response = await handle(post())
      return response.status === 409 ? undefined : response
    })
  await (await handle(post())).body?.cancel()
  await (await free()).body?.cancel()
  const replay = await free()
  expect([await replay.text(), replay.headers.get('idempotency-replayed')]).toEqual(['run 2', 'true'])
})

test('keeps the response of a handler whose client had gone', async () => {
  const abort = new AbortController()
  let runs = 0
  const handle = idempotency().fetch(async () => {
    abort.abort()
    return new Response(`run ${++runs}`)
  })
  await handle(post('body', { signal: abort.signal }))
  expect(await (await handle(post('body'))).text()).toBe('run 1')
})

test('compares a body that was read before with Hono', async () => {
  const app = new Hono()
  app.use(async (c, next) => {
    await c.req.json()
    await next()
  })
  app.use(idempotency().hono)
  let runs = 0
  app.post('/pay', async (c) => c.json({ runs: ++runs, body: await c.req.json() }))
  for (let i = 0; i < 2; i++) expect(await (await app.request(post())).json()).toEqual({ runs: 1, body: { amount: 5 } })
  expect((await app.request(post('{"amount":6}'))).status).toBe(422)
})

test('replays what others made of the response behind it, with Hono', async () => {
  const app = new Hono()
  app.use(idempotency().hono, compress())
  app.post('/pay', (c) => c.text('text '.repeat(1000), 201, { 'x-own': 'a' }))
  const headers = { 'idempotency-key': 'k', 'accept-encoding': 'gzip' }
  const bodies: ArrayBuffer[] = []
  for (let i = 0; i < 2; i++) {
    const response = await app.request(post('', { headers }))
    const fields = ['content-encoding', 'x-own'].map((name) => response.headers.get(name))
    expect([response.status, ...fields]).toEqual([201, 'gzip', 'a'])
    bodies.push(await response.arrayBuffer())
  }
  expect(bodies[1]).toEqual(bodies[0])
})

test('has kept a response that is there at once before it is read', async () => {
  const handle = idempotency().fetch(() => Response.json({ ok: true }, { status: 201 }))
  await handle(post())
  const replay = await handle(post())
  expect([replay.status, await replay.json()]).toEqual([201, { ok: true }])
})

test('hands its context to those who say whose key it is, with Hono', async () => {
  const app = new Hono()
  app.use(
    idempotency({ by: (c: { req: { header(name: string): string | undefined } }) => `${c.req.header('x-user')}` }).hono,
  )
  let runs = 0
  app.post('/pay', (c) => c.text(`run ${++runs}`))
  const as = async (user: string) => {
    const headers = { 'idempotency-key': 'k', 'x-user': user }
    return (await app.request(post('', { headers }))).text()
  }
  expect([await as('ann'), await as('bob'), await as('ann')]).toEqual(['run 1', 'run 2', 'run 1'])
})
