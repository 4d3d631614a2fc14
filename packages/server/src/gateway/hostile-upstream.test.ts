import { once } from 'node:events'
import { request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import {
  ask,
  idle,
  problemCode,
  read,
  responseOf,
  say,
  startAnswering,
  startGateway,
  startRaw,
  startUpstream,
} from '../../test/gateway.ts'
import type { Cut } from './index.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** Answers a first request, and does something else with every later one on the same connection. */
function startFickle(later: (socket: Socket) => void): Promise<{ url: string; port: number }> {
  return startRaw((socket) => {
    socket.once('data', () => {
      socket.write(OK)
      socket.on('data', () => later(socket))
    })
  })
}

test('waits for a slow client with one listener, in however many pieces the answer comes', async () => {
  const warnings: Error[] = []
  const warned = (warning: Error) => warnings.push(warning)
  process.on('warning', warned)
  onTestFinished(() => void process.off('warning', warned))
  const pieces = '400\r\n'.concat('x'.repeat(1024), '\r\n').repeat(20_000)
  const upstream = await startRaw((socket) =>
    socket.once('data', () => socket.write(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${pieces}0\r\n\r\n`)),
  )
  const gateway = await startGateway({ to: upstream.url })
  const asked = request(gateway.url, { agent: false }).end()
  const response = await responseOf(asked)
  await new Promise((resolve) => setTimeout(resolve, 300))
  expect((await read(response)).body.length).toBe(1024 * 20_000)
  await idle(gateway)
  expect(warnings).toEqual([])
})

test('gives one answer when the upstream breaks off while it is asked whether its answer passes', async () => {
  let heads = 0
  const upstream = await startFickle((socket) => {
    heads++
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf', () => socket.destroy())
  })
  let goOn: ((cut: Cut | undefined) => void) | undefined
  let asked = 0
  const meter = {
    in: () => undefined,
    out: () => undefined,
    expect: () =>
      asked++ === 0
        ? undefined
        : new Promise<Cut | undefined>((resolve) => {
            goOn = resolve
          }),
  }
  const gateway = await startGateway({ to: upstream.url, hooks: () => ({ meter }) })
  expect((await ask(gateway.url)).body).toBe('ok')
  const answer = ask(gateway.url)
  await until('the question', () => goOn)
  expect(problemCode(await answer)).toBe('upstream_failed')
  goOn?.(undefined)
  await idle(gateway)
  expect(heads).toBe(1)
  expect(gateway.outcomes).toHaveLength(2)
})

test('sends an empty body in chunks again when it was lost on an old connection', async () => {
  const upstream = await startRaw((socket) => {
    let heard = ''
    socket.on('data', (chunk) => {
      heard += chunk
      if (!heard.endsWith('\r\n\r\n') || (heard.includes('chunked') && !heard.endsWith('0\r\n\r\n'))) return
      if (heard.startsWith('GET') && heard.includes('PUT')) socket.destroy()
      else socket.write(OK)
    })
  })
  const gateway = await startGateway({ to: upstream.url, with: { idleTimeoutMs: 5_000 } })
  expect((await ask(gateway.url)).body).toBe('ok')
  const put = { method: 'PUT', headers: { 'Transfer-Encoding': 'chunked' } }
  expect(await ask(gateway.url, put)).toMatchObject({ status: 200, body: 'ok' })
})

test('tells an HTTP/1.0 client nothing before the answer, also if it expects to be told', async () => {
  const upstream = await startRaw((socket) =>
    socket.on('data', (chunk) => {
      if (/expect/i.test(String(chunk))) socket.write('HTTP/1.1 100 Continue\r\n\r\n')
      socket.write(OK)
    }),
  )
  const gateway = await startGateway({ to: upstream.url })
  const heard = await say(gateway.port, 'POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi')
  expect(heard).toMatch(/^HTTP\/1.1 200 /)
})

test('hands on no length of an answer that has no body, and asks nothing more on that connection', async () => {
  let connections = 0
  const upstream = await startRaw((socket) => {
    connections++
    socket.on('data', () => socket.write('HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n'))
  })
  const gateway = await startGateway({ to: upstream.url })
  for (let i = 1; i <= 3; i++) {
    const answer = await ask(gateway.url)
    expect(answer.status).toBe(204)
    expect(answer.headers).not.toHaveProperty('content-length')
    expect(connections).toBe(i)
  }
})

test('keeps the length that an answer without its body would have', async () => {
  const upstream = await startAnswering('HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n')
  const gateway = await startGateway({ to: upstream.url })
  expect((await ask(gateway.url)).headers['content-length']).toBe('5')
  const head = await startAnswering('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n')
  const other = await startGateway({ to: head.url })
  for (let i = 0; i < 3; i++) expect((await ask(other.url, { method: 'HEAD' })).headers['content-length']).toBe('5')
})

test('hands on hints without fields that speak of a body', async () => {
  const hint = 'HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nContent-Length: 40\r\n\r\n'
  const upstream = await startAnswering(`${hint}${OK}`)
  const gateway = await startGateway({ to: upstream.url })
  const heard = await say(gateway.port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n', '\r\n\r\nok')
  expect(heard).toMatch(/^HTTP\/1.1 103 /)
  expect(heard.split('HTTP/1.1 200')[0]).not.toMatch(/content-length/i)
})

test('holds no more than a little of what comes before the answer for a client that does not read', async () => {
  const hint = `HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nX-A: ${'a'.repeat(60_000)}\r\n\r\n`
  const upstream = await startRaw((socket) => socket.once('data', () => socket.write(hint.repeat(900) + OK)))
  const sockets: Socket[] = []
  const gateway = await startGateway({ to: upstream.url })
  gateway.server.on('connection', (socket) => sockets.push(socket))
  const client = connect(gateway.port, '127.0.0.1').pause()
  onTestFinished(() => void client.destroy())
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await until('the request', () => gateway.proxy.stats().inFlight || undefined)
  await until('the answer to be there', () => gateway.proxy.stats().upstreams[0]?.inFlight === 0 || undefined)
  expect(sockets[0]?.writableLength).toBeLessThan(1_000_000)
  let heard = ''
  client.setEncoding('latin1').on('data', (chunk) => (heard = (heard + chunk).slice(-100)))
  client.resume()
  await until('the answer', () => heard.endsWith('\r\n\r\nok') || undefined)
})

test.each([
  ['another protocol', 'Upgrade: h2c\r\n'],
  ['none', ''],
])('answers 502 when the upstream changes to %s instead of WebSocket', async (_, field) => {
  const upstream = await startAnswering(`HTTP/1.1 101 Go\r\nConnection: Upgrade\r\n${field}\r\nother words`)
  const gateway = await startGateway({ to: upstream.url })
  const key = 'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'
  const heard = await say(
    gateway.port,
    `GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${key}\r\n`,
  )
  expect(heard).toMatch(/^HTTP\/1.1 502 .*upstream_failed/s)
  expect(heard).not.toContain('other words')
  await idle(gateway)
})

const chunked = (names: string) =>
  `POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n${names}\r\n2\r\nhi\r\n0\r\n`

test.each([
  ['that were not announced', chunked(''), 'X-Sum: abc\r\n'],
  [
    'that say who the client is',
    chunked('Trailer: X-Forwarded-For, X-Real-IP\r\n'),
    'X-Forwarded-For: 1.1.1.1\r\nX_Real_IP: 1.1.1.1\r\n',
  ],
])('hands on no trailers of a request %s', async (_, head, trailers) => {
  const upstream = await startUpstream((req, res) => {
    req.resume().on('end', () => res.end(JSON.stringify(req.rawTrailers)))
  })
  const gateway = await startGateway({ to: upstream.url })
  expect(await say(gateway.port, `${head}${trailers}\r\n`)).toMatch(/\[\]/)
})

test('lets a request under way be quiet as long as before when upstreams change', async () => {
  const waiting: (() => void)[] = []
  const upstream = await startUpstream((_, res) => waiting.push(() => res.end('at last')))
  const slow = { name: 'slow', urls: [upstream.url], idleTimeoutMs: 8_000, headersTimeoutMs: 8_000 }
  const hasty = { name: 'hasty', urls: [upstream.url], match: { path: () => false }, idleTimeoutMs: 40 }
  const gateway = await startGateway({ to: [hasty, slow] })
  const answer = ask(gateway.url)
  await until('the request', () => waiting[0])
  await new Promise((resolve) => setTimeout(resolve, 300)) // 30 looks at every 10 ms, of which each would count as a second
  gateway.proxy.update([slow])
  await new Promise((resolve) => setTimeout(resolve, 1_500))
  waiting[0]?.()
  expect(await answer).toMatchObject({ status: 200, body: 'at last' })
})

test('asks nothing more on a connection whose server answered while most of a body was still here', async () => {
  let connections = 0
  const upstream = await startRaw((socket) => {
    connections++
    socket.once('data', () => socket.pause().write(OK))
  })
  const gateway = await startGateway({ to: upstream.url, hooks: () => ({ body: Buffer.alloc(20_000_000) }) })
  expect(await ask(gateway.url, { method: 'POST', body: 'x' })).toMatchObject({ body: 'ok' })
  expect(await ask(gateway.url, { method: 'POST', body: 'x' })).toMatchObject({ body: 'ok' })
  expect(connections).toBe(2)
})

test('refuses keys and certificates that are none before a request needs them', async () => {
  const to = (tls: object) => [{ name: 'a', urls: ['https://127.0.0.1:1'], tls }]
  await expect(startGateway({ to: to({ key: 'no key', cert: 'no certificate' }) })).rejects.toThrow()
  const gateway = await startGateway({ to: to({}) })
  expect(() => gateway.proxy.update(to({ cert: 'no certificate' }))).toThrow()
  expect((await ask(gateway.url)).status).toBe(502)
})

const ways = {
  'a length': 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello',
  chunks: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: a\r\n\r\n',
  'news before it': 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx',
}
const endings = {
  closed: (socket: Socket) => socket.end(),
  reset: (socket: Socket) => socket.resetAndDestroy(),
}

test.each(Object.keys(ways).flatMap((way) => Object.keys(endings).map((ending) => [way, ending] as const)))(
  'takes no part of an answer with %s for the whole when the connection is %s',
  async (way, ending) => {
    const text = ways[way as keyof typeof ways]
    const upstream = await startRaw((socket) => {
      socket.once('data', (head) => {
        const length = Number(/ \/(\d+) /.exec(String(head))?.[1])
        socket.write(text.slice(0, length), () => setImmediate(endings[ending as keyof typeof endings], socket))
      })
    })
    const gateway = await startGateway({ to: upstream.url })
    for (let length = 1; length < text.length; length++) {
      const status = await ask(`${gateway.url}/${length}`).then(
        (answer) => answer.status,
        () => 'cut off',
      )
      expect([502, 'cut off'], `after ${length} bytes`).toContain(status)
    }
    await idle(gateway)
    expect(gateway.outcomes).toHaveLength(text.length - 1)
  },
)

test('takes no part of a request for the whole when the client leaves at any byte', async () => {
  const complete: string[] = []
  const upstream = await startUpstream((req, res) => {
    req.on('error', () => {}).resume()
    req.on('end', () => complete.push(req.url as string) && res.end('ok'))
  })
  const gateway = await startGateway({ to: upstream.url })
  const rest = 'Host: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: a\r\n\r\n'
  for (let length = 50; length < rest.length; length++) {
    const client = connect(gateway.port, '127.0.0.1').on('error', () => {})
    await new Promise((resolve) => client.write(`POST /${length} HTTP/1.1\r\n${rest.slice(0, length)}`, resolve))
    await new Promise((resolve) => setImmediate(resolve))
    client.resetAndDestroy()
  }
  await idle(gateway)
  expect(await say(gateway.port, `POST /all HTTP/1.1\r\n${rest}`, '\r\n\r\n')).toMatch(/^HTTP\/1.1 200 /)
  expect(complete).toEqual(['/all'])
})

test('holds no more for a client that does not read when the answer comes in tiny pieces', async () => {
  const count = 2_000_000
  const upstream = await startRaw((socket) =>
    socket.once('data', () => {
      socket.write(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(count)}0\r\n\r\n`)
    }),
  )
  const gateway = await startGateway({ to: upstream.url })
  const accepted = once(gateway.server, 'connection') as Promise<[Socket]>
  const client = connect(gateway.port, '127.0.0.1').pause()
  onTestFinished(() => void client.destroy())
  client.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  const [socket] = await accepted
  await until('the client to be full', () => socket.writableNeedDrain || undefined)
  expect(socket.writableLength).toBeLessThan(socket.writableHighWaterMark + 1_000)
  let bytes = 0
  client.on('data', (chunk) => (bytes += chunk.length)).resume()
  await once(client, 'close')
  expect(bytes).toBeGreaterThan(6 * count)
  expect(await gateway.outcome()).toMatchObject({ status: 200, aborted: false, bytesOut: count })
})
