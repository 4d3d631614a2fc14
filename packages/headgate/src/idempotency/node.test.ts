import { EventEmitter, once } from 'node:events'
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'
import { connect as connectHttp2, createServer as createHttp2 } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { createGzip, type Gzip } from 'node:zlib'
import 'reflect-metadata'
import { Controller, Module, Post } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify'
import express, { type Request as ExpressRequest } from 'express'
import fastify from 'fastify'
import { type IdempotencyOptions, idempotency, memoryReplies, type Replies } from 'headgate/idempotency'
import { fakeClock } from 'headgate/testing'
import { expect, onTestFinished, test } from 'vitest'

type Listener = (req: IncomingMessage, res: ServerResponse) => unknown

async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function start(listener: Listener, options: IdempotencyOptions = {}): Promise<string> {
  const idem = idempotency(options)
  return listen(createServer((req, res) => idem.node(req, res, () => listener(req, res))))
}

function post(url: string, body = '{"a":1,"b":2}', headers: Record<string, string> = {}): Promise<Response> {
  return fetch(url, { method: 'POST', body, headers: { 'idempotency-key': 'k', ...headers } })
}

const heads: Record<string, (res: ServerResponse) => void> = {
  'an object': (res) => res.writeHead(201, { 'X-Own': 'a', 'X-Number': 5 }),
  'an object after a message': (res) => res.writeHead(201, 'Made', { 'X-Own': 'a', 'X-Number': 5 }),
  'a list': (res) => res.writeHead(201, ['X-Own', 'a', 'X-Number', '5'] as never),
  'fields set before': (res) => res.setHeader('x-number', 'other').writeHead(201, { 'x-own': 'a', 'x-number': '5' }),
}

test.each(Object.entries(heads))('replays fields that were given to writeHead as %s', async (_, writeHead) => {
  const url = await start((_req, res) => {
    writeHead(res)
    res.end('made')
  })
  for (const replayed of [null, 'true']) {
    const { status, headers } = await post(url)
    const fields = ['x-own', 'x-number', 'idempotency-replayed'].map((name) => headers.get(name))
    expect([status, ...fields]).toEqual([201, 'a', '5', replayed])
  }
})

test('replays text in every encoding as its bytes', async () => {
  const url = await start((_req, res) => {
    res.write('grüße', 'latin1')
    res.write('grüße')
    res.write('4869ff', 'hex')
    res.write('SGk_-w', 'base64url')
    res.write('ab', 'utf16le')
    res.end(new Uint8Array([0, 255]))
  })
  const first = await (await post(url)).arrayBuffer()
  expect(first.byteLength).toBe(5 + 7 + 3 + 4 + 4 + 2)
  expect(await (await post(url)).arrayBuffer()).toEqual(first)
})

/** Compresses what is not yet, and says so in the head, at the last moment, as `compression` does. */
function compress(res: ServerResponse): void {
  const { writeHead, write, end } = res
  let gzip: Gzip | undefined
  res.writeHead = ((...args: unknown[]) => {
    if (!res.hasHeader('content-encoding')) {
      gzip = createGzip()
      gzip.on('data', (piece) => write.call(res, piece, 'binary'))
      gzip.on('end', () => end.call(res, undefined, 'binary'))
      res.setHeader('content-encoding', 'gzip')
      res.removeHeader('content-length')
    }
    return writeHead.apply(res, args as never)
  }) as never
  const begin = () => res.headersSent || res.writeHead(res.statusCode)
  res.write = ((...args: unknown[]) => begin() && (gzip?.write(args[0]) ?? write.apply(res, args as never))) as never
  res.end = ((...args: unknown[]) => begin() && (gzip?.end(args[0]) ?? end.apply(res, args as never))) as never
}

test.each<[string, Listener]>([
  ['at once', (_req, res) => res.end('made '.repeat(1000))],
  ['with its length', (_req, res) => res.setHeader('content-length', '5000').end('made '.repeat(1000))],
  [
    'piece by piece',
    (_req, res) => {
      for (let i = 0; i < 999; i++) res.write('made ')
      res.end('made ')
    },
  ],
])('replays what is compressed in front and was written %s', async (_, listener) => {
  const idem = idempotency()
  const url = await listen(
    createServer((req, res) => {
      compress(res)
      idem.node(req, res, () => listener(req, res))
    }),
  )
  for (const replayed of [null, 'true']) {
    const response = await post(url)
    const fields = ['content-encoding', 'idempotency-replayed'].map((name) => response.headers.get(name))
    expect(fields).toEqual(['gzip', replayed])
    expect(await response.text()).toBe('made '.repeat(1000))
  }
})

test('tells the length of a response that is written at once, as Node does', async () => {
  const url = await start((_req, res) => res.end('grüße'))
  for (let i = 0; i < 2; i++) expect((await post(url)).headers.get('content-length')).toBe('7')
})

test('leaves mistakes after the end to Node, and replays what was before it', async () => {
  const errors: unknown[] = []
  let runs = 0
  const url = await start((_req, res) => {
    res.on('error', (error: NodeJS.ErrnoException) => errors.push(error.code))
    res.end(`run ${++runs}`)
    res.end('again')
    res.write('more')
  })
  expect(await (await post(url)).text()).toBe('run 1')
  expect(await (await post(url)).text()).toBe('run 1')
  expect(errors).toContain('ERR_STREAM_WRITE_AFTER_END')
})

test('sends trailers, and replays without them', async () => {
  const url = await start((_req, res) => {
    res.writeHead(200, { trailer: 'x-sum' })
    res.write('body')
    res.addTrailers({ 'x-sum': '4' })
    res.end()
  })
  for (let i = 0; i < 2; i++) expect(await (await post(url)).text()).toBe('body')
})

test('holds the end of a response until the store has it, and nothing before', async () => {
  const store = memoryReplies()
  const told = new EventEmitter()
  const slow: Replies = {
    begin: (...args) => store.begin(...args),
    async finish(...args) {
      told.emit('asked')
      await once(told, 'go on')
      return store.finish(...args)
    },
  }
  let late: unknown
  const url = await start(
    (_req, res) => {
      res.write('half')
      res.end(' whole', () => {
        late = res.writableFinished
      })
      res.on('error', () => {})
      res.write('too late')
    },
    { store: slow },
  )
  const asked = once(told, 'asked')
  const response = await post(url)
  const reader = (response.body as ReadableStream<Uint8Array>).getReader()
  expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe('half')
  await asked
  expect((await post(url)).status).toBe(409)
  told.emit('go on')
  expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe(' whole')
  expect(await (await post(url)).text()).toBe('half whole')
  expect(late).toBe(true)
})

test('keeps backpressure: a writer is told to wait while its client reads nothing', async () => {
  const piece = Buffer.alloc(100_000, 'x')
  let [pieces, drained] = [0, 0]
  const told = new EventEmitter()
  const url = await start(
    (_req, res) => {
      const write = () => {
        while (pieces < 200) {
          pieces++
          if (res.write(piece)) continue
          told.emit('full')
          return
        }
        res.end()
      }
      res.on('drain', () => {
        drained++
        write()
      })
      write()
    },
    { maxBodyBytes: 100_000_000, store: memoryReplies({ maxBytes: 200_000_000 }) },
  )
  const full = once(told, 'full')
  const call = request(url, { method: 'POST', headers: { 'idempotency-key': 'k' } }).end()
  const [response] = (await once(call, 'response')) as [IncomingMessage]
  await full
  expect(pieces).toBeLessThan(200)
  expect(Buffer.concat(await response.toArray())).toHaveLength(200 * piece.length)
  expect(drained).toBeGreaterThan(0)
  expect(await (await post(url, '')).arrayBuffer()).toHaveProperty('byteLength', 200 * piece.length)
})

test('sees the fields that others add at the last moment', async () => {
  let runs = 0
  const url = await start((_req, res) => {
    const { writeHead } = res
    res.writeHead = ((...args: Parameters<typeof writeHead>) => {
      res.setHeader('x-late', `run ${++runs}`)
      return writeHead.apply(res, args)
    }) as typeof writeHead
    res.end('ok')
  })
  for (let i = 0; i < 2; i++) expect((await post(url)).headers.get('x-late')).toBe('run 1')
})

test('hands on and compares a body that came before it was asked', async () => {
  const idem = idempotency()
  const read: string[] = []
  const url = await listen(
    createServer(async (req, res) => {
      await once(req, 'readable') // as behind a middleware that waits for something
      await idem.node(req, res, async () => {
        read.push(Buffer.concat((await req.toArray()) as Buffer[]).toString())
        res.end('ok')
      })
    }),
  )
  expect((await post(url, 'body')).status).toBe(200)
  expect((await post(url, 'body')).headers.get('idempotency-replayed')).toBe('true')
  expect((await post(url, 'other')).status).toBe(422)
  expect(read).toEqual(['body'])
})

test('compares what a parser in front made of the body, whatever order its fields came in', async () => {
  const app = express().use(express.json(), idempotency().node)
  let runs = 0
  app.post('/', (req, res) => void res.json({ runs: ++runs, body: req.body }))
  const url = await listen(createServer(app))
  const json = { 'content-type': 'application/json' }
  expect(await (await post(url, '{"a":1,"b":{"c":2,"d":3}}', json)).json()).toMatchObject({ runs: 1 })
  expect(await (await post(url, '{"b":{"d":3,"c":2},"a":1}', json)).json()).toMatchObject({ runs: 1 })
  expect((await post(url, '{"a":1,"b":{"c":2,"d":4}}', json)).status).toBe(422)
})

test('tells apart paths below a mounted router', async () => {
  const app = express().use('/:shop', idempotency().node)
  app.post('/:shop', (_req, res) => void res.send('ok'))
  const url = await listen(createServer(app))
  expect((await post(`${url}/a`)).status).toBe(200)
  expect((await post(`${url}/b`)).status).toBe(422)
})

test('asks by whom and whether a key is required with the request of the framework', async () => {
  const idem = idempotency({
    by: (req: ExpressRequest) => req.get('x-user') as string,
    required: (req) => req.path === '/pay',
  })
  const app = express().use(idem.node)
  let runs = 0
  app.post('/*path', (_req, res) => void res.send(`run ${++runs}`))
  app.use(((error, _req, res, _next) => res.status(500).send(error.code)) as express.ErrorRequestHandler)
  const url = await listen(createServer(app))
  const as = async (user: string) => (await post(`${url}/pay`, '', { 'x-user': user })).text()
  expect([await as('ann'), await as('bob'), await as('ann')]).toEqual(['run 1', 'run 2', 'run 1'])
  expect(await (await post(`${url}/pay`)).text()).toBe('HG_KEY_MISSING')
  expect((await fetch(`${url}/pay`, { method: 'POST' })).status).toBe(400)
  expect((await fetch(`${url}/look`, { method: 'POST' })).status).toBe(200)
})

test('says whether to go on where there is no next', async () => {
  const idem = idempotency({ required: true })
  const url = await listen(
    createServer(async (req, res) => {
      if (await idem.node(req, res)) res.end('went on')
    }),
  )
  expect(await (await post(url)).text()).toBe('went on')
  expect((await fetch(url, { method: 'POST' })).status).toBe(400)
})

test('replays the head of a response to HEAD', async () => {
  const url = await start((_req, res) => res.setHeader('content-length', 5).end('12345'), { methods: ['head'] })
  for (const replayed of [null, 'true']) {
    const { headers } = await fetch(url, { method: 'HEAD', headers: { 'idempotency-key': 'k' } })
    expect([headers.get('content-length'), headers.get('idempotency-replayed')]).toEqual(['5', replayed])
  }
})

test('replays for as long as it was told', async () => {
  const clock = fakeClock()
  let runs = 0
  const url = await start((_req, res) => res.end(`run ${++runs}`), { clock, ttlMs: 1000 })
  const text = async () => (await post(url)).text()
  expect(await text()).toBe('run 1')
  clock.advance(999)
  expect(await text()).toBe('run 1')
  clock.advance(1)
  expect(await text()).toBe('run 2')
})

test('frees the key of a request that takes too long, and tells when another ran meanwhile', async () => {
  const clock = fakeClock()
  const events: string[] = []
  const slow: ServerResponse[] = []
  const url = await start((_req, res) => (slow.length === 0 ? slow.push(res) : res.end('second')), {
    clock,
    lockMs: 1000,
    onEvent: ({ kind }) => events.push(kind),
  })
  const first = post(url)
  while (slow.length === 0) await new Promise(setImmediate)
  expect((await post(url)).status).toBe(409)
  clock.advance(1000)
  expect(await (await post(url)).text()).toBe('second')
  slow[0]?.end('first')
  expect(await (await first).text()).toBe('first')
  expect(events).toEqual(['lock-lost'])
  expect(await (await post(url)).text()).toBe('second')
})

test('keeps the responses that it is told to keep', async () => {
  let runs = 0
  const url = await start((_req, res) => res.writeHead(runs++ === 0 ? 404 : 500).end(`run ${runs}`), {
    storeStatus: (status) => status !== 404,
  })
  for (const text of ['run 1', 'run 2', 'run 2']) expect(await (await post(url)).text()).toBe(text)
})

test('works on requests that Fastify injects', async () => {
  const app = fastify()
  await app.register(idempotency().fastify)
  let runs = 0
  app.post('/', async (req) => ({ runs: ++runs, body: req.body }))
  const headers = { 'idempotency-key': 'k' }
  const inject = (payload: object) => app.inject({ method: 'POST', url: '/', headers, payload })
  expect((await inject({ a: 1 })).json()).toEqual({ runs: 1, body: { a: 1 } })
  expect((await inject({ a: 1 })).json()).toEqual({ runs: 1, body: { a: 1 } })
  expect((await inject({ a: 2 })).statusCode).toBe(422)
})

class Shop {
  runs = 0
  pay(): { runs: number } {
    return { runs: ++this.runs }
  }
}
class App {}

test.each(['express', 'fastify'])('works with Nest on %s', async (platform) => {
  // As decorators would, where they can be written.
  Post('pay')(Shop.prototype, 'pay', Object.getOwnPropertyDescriptor(Shop.prototype, 'pay') as PropertyDescriptor)
  Controller()(Shop)
  Module({ controllers: [Shop] })(App)
  const idem = idempotency()
  const app = await NestFactory.create(App, platform === 'fastify' ? new FastifyAdapter() : new ExpressAdapter(), {
    logger: false,
  })
  if (platform === 'fastify') (app as unknown as NestFastifyApplication).register(idem.fastify)
  else app.use(idem.node)
  await app.listen(0, '127.0.0.1')
  onTestFinished(() => app.close())
  const json = { 'content-type': 'application/json', connection: 'close' }
  const url = `${await app.getUrl()}/pay`
  for (let i = 0; i < 2; i++) expect(await (await post(url, '{"a":1}', json)).json()).toEqual({ runs: 1 })
  expect((await post(url, '{"a":2}', json)).status).toBe(422)
})

test('works over HTTP/2', async () => {
  const idem = idempotency()
  let runs = 0
  const server = createHttp2((req, res) => {
    idem.node(req, res, async () => {
      const body = Buffer.concat((await req.toArray()) as Buffer[])
      res.write(`run ${++runs}: `)
      res.end(body)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connectHttp2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  onTestFinished(() => {
    client.destroy()
    server.close()
  })
  async function send(body: string): Promise<string> {
    const stream = client.request({ ':method': 'POST', ':path': '/', 'idempotency-key': 'k' })
    stream.end(body)
    const [headers] = await once(stream, 'response')
    return `${headers[':status']} ${Buffer.concat((await stream.toArray()) as Buffer[])}`
  }
  expect(await send('body')).toBe('200 run 1: body')
  expect(await send('body')).toBe('200 run 1: body')
  expect(await send('other')).toMatch(/^422 /)
})
