import { once } from 'node:events'
import { type IncomingMessage, type InformationEvent, request, type ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import {
  ask,
  idle,
  problemCode,
  read,
  responseOf,
  say,
  startGateway,
  startRaw,
  startUpstream,
} from '../../test/gateway.ts'

test('hands on early hints before the answer', async () => {
  const upstream = await startUpstream((_, res) => {
    res.writeEarlyHints({ link: ['</a.css>; rel=preload', '</b.js>; rel=preload'], 'x-hint': 'yes' })
    res.writeProcessing()
    res.end('done')
  })
  const gateway = await startGateway({ to: upstream.url })
  const asked = request(gateway.url, { agent: false }).end()
  const told: InformationEvent[] = []
  asked.on('information', (information) => told.push(information))
  expect((await read(await responseOf(asked))).body).toBe('done')
  expect(told.map(({ statusCode }) => statusCode)).toEqual([103, 102])
  expect(told[0]?.headers).toMatchObject({ link: '</a.css>; rel=preload, </b.js>; rel=preload', 'x-hint': 'yes' })
})

test('spares HTTP/1.0 clients what comes before the answer', async () => {
  const upstream = await startUpstream((_, res) => {
    res.writeEarlyHints({ link: '</a.css>; rel=preload' })
    res.end('done')
  })
  const gateway = await startGateway({ to: upstream.url })
  expect(await say(gateway.port, 'GET / HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1.1 200 /)
})

test('lets the upstream say whether a client is to continue', async () => {
  let asked: string | undefined
  const upstream = await startUpstream(() => {})
  upstream.server.on('checkContinue', async (req, res) => {
    asked = req.headers.expect
    res.writeContinue()
    let length = 0
    for await (const chunk of req) length += chunk.length
    res.end(`got ${length}`)
  })
  const gateway = await startGateway({ to: upstream.url })
  const sending = request(gateway.url, {
    method: 'POST',
    agent: false,
    headers: { Expect: '100-continue', 'Content-Length': '100000' },
  })
  sending.flushHeaders()
  await once(sending, 'continue')
  sending.end('x'.repeat(100_000))
  expect((await read(await responseOf(sending))).body).toBe('got 100000')
  expect(asked).toBe('100-continue')
  expect(await gateway.outcome()).toMatchObject({ bytesIn: 100_000, aborted: false })
  await idle(gateway)
})

test('spares a client the upload that the upstream refuses', async () => {
  let told = false
  const upstream = await startUpstream(() => {})
  upstream.server.on('checkContinue', (_, res) => res.writeHead(417).end('no'))
  const gateway = await startGateway({ to: upstream.url })
  const sending = request(gateway.url, {
    method: 'PUT',
    agent: false,
    headers: { Expect: '100-continue', 'Content-Length': '100000' },
  })
  sending.on('continue', () => {
    told = true
  })
  sending.flushHeaders()
  expect(await read(await responseOf(sending))).toMatchObject({ status: 417, body: 'no' })
  expect(told).toBe(false)
  sending.destroy()
  expect(await gateway.outcome()).toMatchObject({ status: 417, bytesIn: 0 })
  await idle(gateway)
})

test('refuses what is too large before it is sent', async () => {
  const upstream = await startUpstream((_, res) => res.end())
  const gateway = await startGateway({ to: upstream.url, maxBodyBytes: 1_000 })
  const sending = request(gateway.url, {
    method: 'PUT',
    agent: false,
    headers: { Expect: '100-continue', 'Content-Length': '1001' },
  })
  sending.flushHeaders()
  const answer = await read(await responseOf(sending))
  expect(answer.status).toBe(413)
  expect(problemCode(answer)).toBe('body_too_large')
  sending.destroy()
})

test('sends the body on when client and upstream do not wait to be asked', async () => {
  const upstream = await startRaw((socket) => {
    let heard = ''
    socket.on('data', (chunk) => {
      heard += chunk
      if (heard.endsWith('hello')) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    })
  })
  const gateway = await startGateway({ to: upstream.url })
  const head = 'POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n'
  expect(await say(gateway.port, `${head}hello`)).toMatch(/^HTTP\/1.1 200 OK.*ok$/s)
})

test('tells a client that leaves while it waits to continue from the upstream', async () => {
  let upstreamClosed = false
  const upstream = await startUpstream(() => {})
  upstream.server.on('checkContinue', (req) => req.socket.on('close', () => (upstreamClosed = true)))
  const gateway = await startGateway({ to: upstream.url })
  const arrived = once(upstream.server, 'checkContinue')
  const sending = request(gateway.url, {
    method: 'PUT',
    agent: false,
    headers: { Expect: '100-continue', 'Content-Length': '9' },
  })
  sending.on('error', () => {}).flushHeaders()
  await arrived
  sending.destroy()
  await until('the upstream to notice', () => upstreamClosed || undefined)
  expect(await gateway.outcome()).toMatchObject({ status: 0, aborted: 'client' })
  await idle(gateway)
})

test('hands on trailers of an answer', async () => {
  const head = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, X-Twice\r\n\r\n'
  const rest = '4\r\nbody\r\n0\r\nX-Sum: abc\r\nX-Twice: 1\r\nContent-Type: a/b\r\n\r\n'
  const upstream = await startRaw((socket) =>
    socket.on('data', (chunk) => socket.write(chunk.toString().startsWith('HEAD') ? head : head + rest)),
  )
  const gateway = await startGateway({ to: upstream.url })
  const answer = await ask(gateway.url)
  expect(answer).toMatchObject({ body: 'body', trailers: { 'x-sum': 'abc', 'x-twice': '1' } })
  expect(answer.trailers).not.toHaveProperty('content-type')
  expect(answer.headers.trailer).toBe('X-Sum, X-Twice')
  expect((await ask(gateway.url, { method: 'HEAD' })).status).toBe(200) // announced, but there is nothing to follow
})

test('hands on trailers of a request, but none that would change its meaning', async () => {
  const upstream = await startUpstream((req, res) => {
    req.resume().on('end', () => res.end(JSON.stringify(req.trailers)))
  })
  const gateway = await startGateway({ to: upstream.url })
  const head = 'POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n'
  const heard = await say(gateway.port, `${head}5\r\nhello\r\n0\r\nX-Sum: abc\r\nContent-Type: a/b\r\n\r\n`)
  expect(heard).toMatch(/^HTTP\/1.1 200 /)
  expect(heard).toContain('{"x-sum":"abc"}')
})

test('gets along with an upstream that says to continue without being asked', async () => {
  const upstream = await startRaw((socket) => {
    socket.on('data', () => socket.write('HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'))
  })
  const gateway = await startGateway({ to: upstream.url })
  const post = () => ask(gateway.url, { method: 'POST', body: 'x' })
  for (let i = 0; i < 3; i++) expect(await post()).toMatchObject({ status: 200, body: 'ok' })
})

test('lets an upload that waits to continue end on an upstream that was replaced meanwhile', async () => {
  const upstream = await startUpstream(() => {})
  const gateway = await startGateway({ to: upstream.url })
  const arrived = once(upstream.server, 'checkContinue')
  const headers = { Expect: '100-continue', 'Content-Length': '5' }
  const sending = request(gateway.url, { method: 'POST', agent: false, headers })
  sending.flushHeaders()
  const [req, res] = (await arrived) as [IncomingMessage, ServerResponse]
  gateway.proxy.update([])
  res.writeContinue()
  req.resume().on('end', () => res.end('all of it'))
  await once(sending, 'continue')
  sending.end('hello')
  expect((await read(await responseOf(sending))).body).toBe('all of it')
  expect((await ask(gateway.url)).status).toBe(404)
})
