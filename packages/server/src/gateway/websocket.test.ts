import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { until } from '../../../headgate/test/until.ts'
import {
  freePort,
  type Gateway,
  idle,
  say,
  startAnswering,
  startGateway,
  startRaw,
  startUpstream,
} from '../../test/gateway.ts'

async function startEcho(): Promise<{ url: string; server: WebSocketServer }> {
  const http = createServer()
  const server = new WebSocketServer({ server: http })
  server.on('connection', (socket, req) => {
    socket.on('error', () => {})
    socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }))
    if (req.url === '/hello') socket.send('hello at once')
  })
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  onTestFinished(() => {
    for (const socket of server.clients) socket.terminate()
    http.close()
  })
  return { url: `http://127.0.0.1:${(http.address() as { port: number }).port}`, server }
}

async function open(gateway: Gateway, path = '/'): Promise<WebSocket> {
  const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}${path}`, ['chat'])
  socket.on('error', () => {})
  onTestFinished(() => socket.terminate())
  await once(socket, 'open')
  return socket
}

const upgrade = (more = '') =>
  `GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n${more}\r\n`

test('carries messages both ways, large ones too, until the client closes', async () => {
  const echo = await startEcho()
  const gateway = await startGateway({ to: echo.url })
  const socket = await open(gateway)
  expect(socket.protocol).toBe('chat')
  expect(gateway.proxy.stats()).toMatchObject({ inFlight: 1, upgraded: 1 })
  const large = Buffer.alloc(5_000_000, 'y')
  for (const message of [Buffer.from('hi'), large]) {
    socket.send(message)
    const [echoed] = (await once(socket, 'message')) as [Buffer]
    expect(echoed.equals(message)).toBe(true)
  }
  socket.close(4001, 'bye')
  const [code, reason] = (await once(socket, 'close')) as [number, Buffer]
  expect([code, String(reason)]).toEqual([4001, 'bye'])
  const outcome = await gateway.outcome()
  expect(outcome).toMatchObject({ status: 101, aborted: false })
  expect(outcome.bytesIn).toBeGreaterThan(5_000_000)
  expect(outcome.bytesOut).toBeGreaterThan(5_000_000)
  await idle(gateway)
})

test('brings what the upstream says in the same breath as its consent, and its close', async () => {
  const echo = await startEcho()
  const gateway = await startGateway({ to: echo.url })
  const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}/hello`)
  const [hello] = (await once(socket, 'message')) as [Buffer]
  expect(String(hello)).toBe('hello at once')
  const closed = once(socket, 'close')
  for (const one of echo.server.clients) one.close(4002, 'over')
  expect((await closed)[0]).toBe(4002)
  expect(await gateway.outcome()).toMatchObject({ status: 101, aborted: false })
  await idle(gateway)
})

test('breaks the upstream off when the client is cut off', async () => {
  const echo = await startEcho()
  const gateway = await startGateway({ to: echo.url })
  const socket = await open(gateway)
  ;(socket as unknown as { _socket: Socket })._socket.resetAndDestroy()
  await until('the upstream to notice', () => (echo.server.clients.size === 0 ? true : undefined))
  expect(await gateway.outcome()).toMatchObject({ status: 101, aborted: 'client' })
  await idle(gateway)
})

test('breaks the client off when the upstream is cut off', async () => {
  const echo = await startEcho()
  const gateway = await startGateway({ to: echo.url })
  const socket = await open(gateway)
  const closed = once(socket, 'close')
  for (const one of echo.server.clients) (one as unknown as { _socket: Socket })._socket.resetAndDestroy()
  expect((await closed)[0]).toBe(1006)
  expect(await gateway.outcome()).toMatchObject({ status: 101, aborted: 'upstream' })
  await idle(gateway)
})

test('ends a WebSocket on which nothing is said for too long', async () => {
  const echo = await startEcho()
  const gateway = await startGateway({ to: echo.url, with: { idleTimeoutMs: 100 } })
  const socket = await open(gateway)
  await once(socket, 'close')
  expect(await gateway.outcome()).toMatchObject({ status: 101, code: 'request_timeout' })
  await idle(gateway)
})

test('hands on a refusal of the upstream with its body', async () => {
  const upstream = await startUpstream(() => {})
  upstream.server.on('upgrade', (_, socket) => {
    socket.end('HTTP/1.1 401 Unauthorized\r\nX-Why: token\r\nContent-Length: 4\r\n\r\nnope')
  })
  const gateway = await startGateway({ to: upstream.url })
  const socket = new WebSocket(gateway.url.replace('http', 'ws')).on('error', () => {})
  const [, response] = (await once(socket, 'unexpected-response')) as [unknown, import('node:http').IncomingMessage]
  expect(response.statusCode).toBe(401)
  expect(response.headers['x-why']).toBe('token')
  expect(String(await response.toArray())).toBe('nope')
  expect(await gateway.outcome()).toMatchObject({ status: 401, aborted: false, bytesOut: 4 })
  await idle(gateway)
})

test('hands on a refusal of the upstream that is larger than what is held here', async () => {
  const page = 'x'.repeat(3_000_000)
  const upstream = await startAnswering('HTTP/1.1 403 No', `Content-Length: ${page.length}`, '', page)
  const gateway = await startGateway({ to: upstream.url })
  const heard = await say(gateway.port, upgrade())
  expect(heard).toMatch(/^HTTP\/1.1 403 No\r\n/)
  expect(heard.endsWith(`\r\n\r\n${page}`)).toBe(true)
  expect(await gateway.outcome()).toMatchObject({ status: 403, aborted: false, bytesOut: page.length })
  await idle(gateway)
})

test('breaks off a refusal of the upstream that stops within a large body', async () => {
  const part = 'x'.repeat(1_000_000)
  const upstream = await startAnswering('HTTP/1.1 403 No', 'Content-Length: 3000000', '', part)
  const gateway = await startGateway({ to: upstream.url, with: { bodyTimeoutMs: 100 } })
  expect((await say(gateway.port, upgrade())).endsWith(`\r\n\r\n${part}`)).toBe(true)
  expect(await gateway.outcome()).toMatchObject({ status: 403, aborted: 'upstream', code: 'upstream_timeout' })
  await idle(gateway)
})

test('answers 502 when the upstream of a WebSocket cannot be reached', async () => {
  const gateway = await startGateway({ to: `http://127.0.0.1:${await freePort()}` })
  const heard = await say(gateway.port, upgrade())
  expect(heard).toMatch(/^HTTP\/1.1 502 .*upstream_unreachable/s)
  expect(await gateway.outcome()).toMatchObject({ status: 502, aborted: false })
  await idle(gateway)
})

test('gives hooks the head of a WebSocket', async () => {
  const echo = await startEcho()
  const gateway = await startGateway({
    to: echo.url,
    hooks: () => ({ onResponse: (status, headers) => void headers.push('X-Seen', String(status)) }),
  })
  const heard = await say(gateway.port, upgrade(), '\r\n\r\n')
  expect(heard).toMatch(/^HTTP\/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n/)
  expect(heard).toContain('X-Seen: 101\r\n')
})

test('serves a request that asks for another protocol as if it had not', async () => {
  const upstream = await startUpstream((req, res) => res.end(`upgrade: ${req.headers.upgrade}`))
  const gateway = await startGateway({ to: upstream.url })
  const text =
    'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n\r\n'
  const heard = await say(gateway.port, text)
  expect(heard).toMatch(/^HTTP\/1.1 200 .*upgrade: undefined/s)
  expect(await gateway.outcome()).toMatchObject({ status: 200, aborted: false })
})

test('refuses a WebSocket with a body', async () => {
  const echo = await startEcho()
  const gateway = await startGateway({ to: echo.url })
  expect(await say(gateway.port, `${upgrade('Content-Length: 4\r\n')}body`)).toMatch(/^HTTP\/1.1 400 /)
})

test('notices a client that leaves before the upstream has agreed', async () => {
  let closed = false
  const upstream = await startUpstream(() => {})
  upstream.server.on('upgrade', (_, socket) => {
    socket.on('error', () => {}).on('close', () => (closed = true))
    socket.resume().on('end', () => socket.end())
  })
  const gateway = await startGateway({ to: upstream.url })
  const arrived = once(upstream.server, 'upgrade')
  const client = connect(gateway.port, '127.0.0.1')
  client.write(upgrade())
  await arrived
  client.destroy()
  await until('the upstream to notice', () => closed || undefined)
  expect(await gateway.outcome()).toMatchObject({ status: 0, aborted: 'client' })
  await idle(gateway)
})

test('brings all that the upstream says with its consent and leaves, in whichever pieces it comes', async () => {
  const text = 'HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\nX-A: b\r\n\r\nfirst words'
  let size = 0
  const upstream = await startRaw((socket) =>
    socket.setNoDelay().once('data', async () => {
      for (let at = 0; at < text.length; at += size) {
        await new Promise((resolve) => socket.write(text.slice(at, at + size), resolve))
        await new Promise((resolve) => setImmediate(resolve))
      }
      socket.end()
    }),
  )
  const gateway = await startGateway({ to: upstream.url })
  for (size of [1, 3, 50, text.length - 5, text.length]) {
    const heard = await say(gateway.port, upgrade())
    expect(heard).toMatch(/^HTTP\/1.1 101 .*X-A: b\r\n\r\nfirst words$/s)
  }
  await idle(gateway)
})
