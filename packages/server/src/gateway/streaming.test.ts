import { once } from 'node:events'
import { request, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import {
  ask,
  idle,
  problemCode,
  read,
  responseOf,
  startDeaf,
  startGateway,
  startRaw,
  startUpstream,
} from '../../test/gateway.ts'

const MB = 1024 * 1024
const SIZE = 50 * MB
/** What sockets on the way may hold: the kernel's buffers grow to some megabytes each, of four ends. */
const ON_THE_WAY = 24 * MB

function* pieces(total: number): Generator<Buffer> {
  const piece = Buffer.alloc(65536, 'x')
  for (let left = total; left > 0; left -= piece.length) yield piece.subarray(0, Math.min(left, piece.length))
}

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

function buffersInUse(): number {
  collectGarbage()
  return process.memoryUsage().arrayBuffers
}

/** Buffers of this process, client and upstream included, never grow by more than this while it runs. */
async function boundedMemory(bound: number, run: () => Promise<void>): Promise<void> {
  const start = buffersInUse()
  let peak = 0
  const timer = setInterval(() => {
    peak = Math.max(peak, buffersInUse() - start)
  }, 10)
  await run().finally(() => clearInterval(timer))
  expect(peak).toBeLessThan(bound)
}

test.each([
  ['by length', { 'Content-Length': String(SIZE) }, String(SIZE)],
  ['by chunks', {}, 'chunked'],
])('takes 50 MB up %s without keeping them', async (_, headers, framing) => {
  const upstream = await startUpstream(async (req, res) => {
    let length = 0
    for await (const chunk of req) length += chunk.length
    res.end(`${length} ${req.headers['content-length'] ?? req.headers['transfer-encoding']}`)
  })
  const gateway = await startGateway({ to: upstream.url })
  await boundedMemory(16 * MB, async () => {
    const sending = request(gateway.url, { method: 'POST', agent: false, headers })
    const response = responseOf(sending)
    await pipeline(Readable.from(pieces(SIZE)), sending)
    expect((await read(await response)).body).toBe(`${SIZE} ${framing}`)
  })
  expect(await gateway.outcome()).toMatchObject({ bytesIn: SIZE, aborted: false })
  await idle(gateway)
})

test('brings 50 MB down without keeping them', async () => {
  const upstream = await startUpstream((_, res) => void pipeline(Readable.from(pieces(SIZE)), res))
  const gateway = await startGateway({ to: upstream.url })
  await boundedMemory(16 * MB, async () => {
    const response = await responseOf(request(gateway.url, { agent: false }).end())
    let length = 0
    for await (const chunk of response) length += chunk.length
    expect(length).toBe(SIZE)
  })
  expect(await gateway.outcome()).toMatchObject({ bytesOut: SIZE, aborted: false })
  await idle(gateway)
})

/** Writes until the other side takes no more, then says how much that was. */
async function writtenUntilFull(out: { write(chunk: Buffer): boolean }, written: { bytes: number }): Promise<number> {
  const piece = Buffer.alloc(65536, 'x')
  let last = -1
  return until('the way to be full', () => {
    while (written.bytes < 2 * SIZE && out.write(piece)) written.bytes += piece.length
    const still = written.bytes === last
    last = written.bytes
    return still ? written.bytes : undefined
  })
}

test('lets a slow reader slow the upstream down, and brings it everything in the end', async () => {
  let answering: ServerResponse | undefined
  const upstream = await startUpstream((_, res) => {
    answering = res
    res.flushHeaders()
  })
  const gateway = await startGateway({ to: upstream.url })
  const response = await responseOf(request(gateway.url, { agent: false }).end())
  const written = { bytes: 0 }
  const res = await until('the request', () => answering)
  expect(await writtenUntilFull(res, written)).toBeLessThan(ON_THE_WAY)
  const sent = written.bytes + 65536 // the piece that filled it was taken too
  let length = 0
  response.on('data', (chunk) => {
    length += chunk.length
  })
  res.end()
  await once(response, 'end')
  expect(length).toBeGreaterThanOrEqual(sent)
  expect(await gateway.outcome()).toMatchObject({ bytesOut: length, aborted: false })
})

test('lets a slow upstream slow the client down', async () => {
  const upstream = await startUpstream((req) => req.pause())
  const gateway = await startGateway({ to: upstream.url })
  const sending = request(gateway.url, { method: 'POST', agent: false })
  sending.on('error', () => {})
  const arrived = once(upstream.server, 'request')
  sending.write('x')
  await arrived
  expect(await writtenUntilFull(sending, { bytes: 0 })).toBeLessThan(ON_THE_WAY)
  sending.destroy()
  expect(await gateway.outcome()).toMatchObject({ status: 0, aborted: 'client' })
  await idle(gateway)
})

test('breaks the upstream off when the client leaves while sending', async () => {
  let aborted = false
  const upstream = await startUpstream((req) => {
    req.on('error', () => (aborted = true)).resume()
  })
  const gateway = await startGateway({ to: upstream.url })
  const arrived = once(upstream.server, 'request')
  const sending = request(gateway.url, { method: 'POST', agent: false, headers: { 'Content-Length': '1000000' } })
  sending.on('error', () => {}).write('half')
  await arrived
  sending.destroy()
  await until('the upstream to notice', () => aborted || undefined)
  expect(await gateway.outcome()).toMatchObject({ status: 0, aborted: 'client', bytesIn: 4 })
  await idle(gateway)
})

test('bothers no upstream with a small body before all of it is there', async () => {
  let asked = 0
  const upstream = await startUpstream((_, res) => res.end(String(++asked)))
  const gateway = await startGateway({ to: upstream.url })
  const leaving = request(gateway.url, { method: 'POST', agent: false, headers: { 'Content-Length': '10' } })
  leaving.on('error', () => {}).write('half')
  await until('the half to arrive', () => gateway.proxy.stats().inFlight || undefined)
  leaving.destroy()
  expect(await gateway.outcome()).toMatchObject({ status: 0, aborted: 'client', upstreamMs: 0 })
  expect((await ask(gateway.url, { method: 'POST', body: 'x' })).body).toBe('1')
  await idle(gateway)
})

test('breaks the upstream off when the client leaves while reading', async () => {
  let closed = false
  const upstream = await startUpstream((_, res) => {
    res.on('close', () => (closed = true))
    res.write('some')
  })
  const gateway = await startGateway({ to: upstream.url })
  const response = await responseOf(request(gateway.url, { agent: false }).end())
  response.destroy()
  await until('the upstream to notice', () => closed || undefined)
  expect(await gateway.outcome()).toMatchObject({ status: 200, aborted: 'client' })
  await idle(gateway)
})

test('breaks the upstream off when the client leaves before there is an answer', async () => {
  let closed = false
  const upstream = await startUpstream((_, res) => res.on('close', () => (closed = true)))
  const gateway = await startGateway({ to: upstream.url })
  const arrived = once(upstream.server, 'request')
  const asked = request(gateway.url, { agent: false })
    .on('error', () => {})
    .end()
  await arrived
  asked.destroy()
  await until('the upstream to notice', () => closed || undefined)
  expect(await gateway.outcome()).toMatchObject({ status: 0, aborted: 'client' })
  await idle(gateway)
})

test('lets go of a client that leaves while the connection is made', async () => {
  const deaf = await startDeaf()
  const gateway = await startGateway({ to: deaf.url })
  const asked = request(gateway.url, { agent: false })
    .on('error', () => {})
    .end()
  await until('the request to be under way', () => gateway.proxy.stats().upstreams[0]?.inFlight || undefined)
  asked.destroy()
  expect(await gateway.outcome()).toMatchObject({ status: 0, aborted: 'client' })
  await idle(gateway)
})

test('does not ask the upstream for a client that is gone already', async () => {
  let asked = 0
  const upstream = await startUpstream((_, res) => res.end(String(asked++)))
  const gateway = await startGateway({ to: upstream.url })
  gateway.server.prependListener('request', (req) => req.socket.destroy())
  await expect(ask(gateway.url)).rejects.toThrow()
  expect(await gateway.outcome()).toEqual({ status: 0, aborted: 'client', bytesIn: 0, bytesOut: 0, upstreamMs: 0 })
  expect(asked).toBe(0)
})

test('refuses a body of a known length that is too large, and uses the connection again', async () => {
  const upstream = await startUpstream((_, res) => res.end('ok'))
  const gateway = await startGateway({ to: upstream.url, maxBodyBytes: 10 })
  const answer = await ask(gateway.url, { method: 'POST', body: 'x'.repeat(11) })
  expect(answer.status).toBe(413)
  expect(problemCode(answer)).toBe('body_too_large')
  expect((await ask(gateway.url, { method: 'POST', body: 'x'.repeat(10) })).body).toBe('ok')
})

test('refuses a body of unknown length once it is too large', async () => {
  let got = 0
  const upstream = await startUpstream((req) => {
    req
      .on('error', () => {})
      .on('data', (chunk) => {
        got += chunk.length
      })
  })
  const gateway = await startGateway({ to: upstream.url, maxBodyBytes: 100_000 })
  const sending = request(gateway.url, { method: 'POST', agent: false }).on('error', () => {})
  for (const piece of pieces(MB)) sending.write(piece)
  const answer = await read(await responseOf(sending))
  expect(answer.status).toBe(413)
  sending.destroy()
  expect(await gateway.outcome()).toMatchObject({ status: 413, code: 'body_too_large' })
  expect(got).toBeLessThanOrEqual(100_000)
  await idle(gateway)
})

test('hands on an answer that comes before the upload is over, and lets go of a client that never ends', async () => {
  const upstream = await startRaw((socket) =>
    socket.once('data', () => socket.write('HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno')),
  )
  const gateway = await startGateway({ to: upstream.url })
  const client = connect(gateway.port, '127.0.0.1').on('error', () => {})
  onTestFinished(() => void client.destroy())
  let heard = ''
  client.on('data', (chunk) => {
    heard += chunk
  })
  client.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nsome')
  await until('the answer', () => (heard.endsWith('no') ? true : undefined))
  expect(await gateway.outcome()).toMatchObject({ status: 403, aborted: false, bytesIn: 4 })
  await until('the connection to end', () => client.closed || undefined)
  await idle(gateway)
})
