import { request, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import {
  ask,
  freePort,
  idle,
  problemCode,
  responseOf,
  say,
  startAnswering,
  startDeaf,
  startGateway,
  startRaw,
  startUpstream,
} from '../../test/gateway.ts'

test('answers 502 when the upstream refuses the connection, with a problem that names no address', async () => {
  const port = await freePort()
  const gateway = await startGateway({ to: `http://127.0.0.1:${port}` })
  const answer = await ask(gateway.url)
  expect(answer.status).toBe(502)
  expect(answer.headers['content-type']).toBe('application/problem+json')
  expect(JSON.parse(answer.body)).toEqual({
    type: 'about:blank',
    title: 'Upstream cannot be reached',
    status: 502,
    detail: 'No connection to the upstream could be made.',
    code: 'upstream_unreachable',
  })
  expect(await gateway.outcome()).toMatchObject({ status: 502, aborted: false, code: 'upstream_unreachable' })
  await idle(gateway)
})

test('answers 502 when the name of the upstream is unknown', async () => {
  const gateway = await startGateway({ to: 'http://nowhere.invalid' })
  expect(problemCode(await ask(gateway.url))).toBe('upstream_unreachable')
})

test('gives hooks the head of its own answers too', async () => {
  const gateway = await startGateway({
    to: `http://127.0.0.1:${await freePort()}`,
    hooks: () => ({ onResponse: (status, headers) => void headers.push('X-Seen', String(status)) }),
  })
  expect((await ask(gateway.url)).headers['x-seen']).toBe('502')
})

test.each([
  ['closes at once', (socket: { end(): void }) => socket.end()],
  ['resets', (socket: { resetAndDestroy(): void }) => socket.resetAndDestroy()],
])('answers 502 when the upstream %s instead of answering', async (_, act) => {
  let connections = 0
  const upstream = await startRaw((socket) => {
    connections++
    socket.once('data', () => act(socket))
  })
  const gateway = await startGateway({ to: upstream.url })
  expect(problemCode(await ask(gateway.url))).toBe('upstream_failed')
  expect(connections).toBe(1) // it was asked and may have acted: not a stale connection
  await idle(gateway)
})

test.each([
  ['no HTTP at all', 'garbage\r\n\r\n'],
  ['a version there is not', 'HTTP/9.9 200 OK\r\n\r\n'],
  ['a field without a name', 'HTTP/1.1 200 OK\r\n: x\r\nContent-Length: 0\r\n\r\n'],
  ['a bare line feed in a field', 'HTTP/1.1 200 OK\r\nX-A: a\nSet-Cookie: injected\r\nContent-Length: 0\r\n\r\n'],
  ['a bare carriage return in a field', 'HTTP/1.1 200 OK\r\nX-A: a\rSet-Cookie: x\r\nContent-Length: 0\r\n\r\n'],
  ['a zero byte in a field', 'HTTP/1.1 200 OK\r\nX-A: a\0b\r\nContent-Length: 0\r\n\r\n'],
  ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab'],
  ['length and chunks', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
  ['a header without end', `HTTP/1.1 200 OK\r\nX-A: ${'a'.repeat(100_000)}\r\n\r\n`],
  ['a coding besides chunks', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n'],
  ['a change of protocol nobody asked for', 'HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'],
  ['a change of protocol to nothing', 'HTTP/1.1 101 Go\r\n\r\n'],
])('answers 502 when the upstream sends %s', async (_, text) => {
  const upstream = await startAnswering(text)
  const gateway = await startGateway({ to: upstream.url })
  const answer = await ask(gateway.url)
  expect(answer.status).toBe(502)
  expect(problemCode(answer)).toBe('upstream_failed')
  expect(answer.headers).not.toHaveProperty('set-cookie')
  await idle(gateway)
})

test('answers 502 to a request with trailers, too, when the upstream sends a coding besides chunks', async () => {
  const upstream = await startAnswering('HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n')
  const gateway = await startGateway({ to: upstream.url })
  const headers = { Trailer: 'X-Sum', 'Transfer-Encoding': 'chunked' }
  const answer = await ask(gateway.url, { method: 'POST', headers, body: 'x' })
  expect(problemCode(answer)).toBe('upstream_failed')
  await idle(gateway)
})

test('leaves out a reason that is no text', async () => {
  const upstream = await startAnswering('HTTP/1.1 200 \xff\xfe\xfd', 'Content-Length: 0', '', '')
  const gateway = await startGateway({ to: upstream.url })
  expect(await ask(gateway.url)).toMatchObject({ status: 200, reason: 'OK' })
})

test('gives nobody an answer that the upstream sent on top of another', async () => {
  const answer = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmine'
  const upstream = await startAnswering(`${answer}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison`)
  const gateway = await startGateway({ to: upstream.url })
  for (let i = 0; i < 5; i++) expect((await ask(gateway.url)).body).toBe('mine')
})

test('answers 504 when the upstream starts its answer and never comes to the end of the header', async () => {
  const upstream = await startAnswering('HTTP/1.1 200 OK\r\nX-Slow: ')
  const gateway = await startGateway({ to: upstream.url, with: { headersTimeoutMs: 100 } })
  const answer = await ask(gateway.url)
  expect(answer.status).toBe(504)
  expect(problemCode(answer)).toBe('upstream_timeout')
  expect(await gateway.outcome()).toMatchObject({ status: 504, aborted: false, code: 'upstream_timeout' })
  await idle(gateway)
})

test('answers 504 when no connection is made in time', async () => {
  const deaf = await startDeaf()
  const gateway = await startGateway({ to: deaf.url, with: { connectTimeoutMs: 200 } })
  const answer = await ask(gateway.url)
  expect(answer.status).toBe(504)
  expect(problemCode(answer)).toBe('upstream_timeout')
})

test.each([
  ['length', 'Content-Length: 1000\r\n\r\nhalf'],
  ['chunks', 'Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n'],
])('cuts the answer off when the upstream dies within a body with %s', async (_, rest) => {
  const upstream = await startRaw((socket) => socket.once('data', () => socket.end(`HTTP/1.1 200 OK\r\n${rest}`)))
  const gateway = await startGateway({ to: upstream.url })
  await expect(ask(gateway.url)).rejects.toMatchObject({ code: 'ECONNRESET' })
  expect(await gateway.outcome()).toMatchObject({ status: 200, aborted: 'upstream', bytesOut: 4 })
  await idle(gateway)
})

test('cuts the answer off when the upstream stops within a body', async () => {
  const upstream = await startAnswering('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf')
  const gateway = await startGateway({ to: upstream.url, with: { bodyTimeoutMs: 100 } })
  await expect(ask(gateway.url)).rejects.toMatchObject({ code: 'ECONNRESET' })
  expect(await gateway.outcome()).toMatchObject({ status: 200, aborted: 'upstream', code: 'upstream_timeout' })
})

test('sends nothing of an answer that broke off while it waited behind another, and closes', async () => {
  const held = new Map<string | undefined, ServerResponse>()
  const upstream = await startUpstream((req, res) => void held.set(req.url, res))
  const gateway = await startGateway({ to: upstream.url })
  const said = say(gateway.port, 'GET /slow HTTP/1.1\r\nHost: a\r\n\r\nGET /half HTTP/1.1\r\nHost: a\r\n\r\n')
  const [slow, half] = await until('both at the upstream', () => {
    return held.size === 2 ? [held.get('/slow'), held.get('/half')] : undefined
  })
  half?.writeHead(200, { 'Content-Length': 1000 }).write('half', () => half.destroy())
  await until('one to break off', () => gateway.proxy.stats().upstreams[0]?.inFlight === 1 || undefined)
  slow?.end('slow')
  expect(await said).toMatch(/^HTTP\/1.1 200 OK\r\n(?!.*HTTP).*\r\n\r\nslow$/s)
  await until('both outcomes', () => gateway.outcomes.length === 2 || undefined)
  expect(gateway.outcomes).toContainEqual(expect.objectContaining({ aborted: 'upstream', code: 'upstream_failed' }))
  await idle(gateway)
})

test('answers 408 when the client stops within its body', async () => {
  const upstream = await startUpstream((req) => req.resume())
  const gateway = await startGateway({ to: upstream.url, with: { idleTimeoutMs: 100 } })
  const sending = request(gateway.url, { method: 'POST', agent: false, headers: { 'Content-Length': '10' } })
  sending.on('error', () => {}).write('half')
  expect((await responseOf(sending)).statusCode).toBe(408)
  sending.destroy()
  expect(await gateway.outcome()).toMatchObject({ status: 408, code: 'request_timeout', bytesIn: 4 })
})

test('answers 504 when nothing moves on either side', async () => {
  const upstream = await startUpstream(() => {})
  const gateway = await startGateway({ to: upstream.url, with: { idleTimeoutMs: 100 } })
  expect(problemCode(await ask(gateway.url))).toBe('upstream_timeout')
  await idle(gateway)
})

test('leaves a client that stops reading, and the upstream with it', async () => {
  let upstreamClosed = false
  const upstream = await startUpstream((_, res) => {
    res.on('close', () => (upstreamClosed = true))
    const write = () => {
      while (!res.destroyed && res.write(Buffer.alloc(65536)));
    }
    res.on('drain', write)
    write()
  })
  const gateway = await startGateway({ to: upstream.url, with: { idleTimeoutMs: 200 } })
  const client = connect(gateway.port, '127.0.0.1').pause()
  client.on('error', () => {}).write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  onTestFinished(() => void client.destroy())
  expect(await gateway.outcome()).toMatchObject({ status: 200, aborted: 'client', code: 'request_timeout' })
  await until('the upstream to notice', () => upstreamClosed || undefined)
})
