import { once } from 'node:events'
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { Readable } from 'node:stream'
import { describe, expect, onTestFinished, test } from 'vitest'
import { rig } from '../../test/redis-store.ts'
import { download, upload } from '../../test/transfers.ts'
import { until } from '../../test/until.ts'
import { createGate, memory, type Store } from '../index.ts'
import { fakeClock } from '../testing/index.ts'
import { headgate as fetchGate } from './fetch.ts'
import { decisionOf, headgate } from './node.ts'

const NOW = 1_800_000_000_000
const MB = 1_000_000
const shared = rig()

type Handler = (req: IncomingMessage, res: ServerResponse) => unknown

type Options = { limit: string; cost: string; store?: Store; onStoreError?: string }

/** A server whose requests are all counted for one caller. */
async function start(options: Options, handler: Handler) {
  const store = options.store ?? memory()
  const common = { timeoutMs: 5_000, clock: fakeClock(NOW), ...options, store }
  const limited = headgate({ ...common, by: () => 'me' } as never)
  const server = createServer(async (req, res) => {
    // Handlers of uploads that are cut off hear of it.
    if (await limited(req, res)) await Promise.resolve(handler(req, res)).catch(() => {})
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  const gate = createGate({ limit: options.limit as '1/day', store, clock: common.clock, timeoutMs: 5_000 })
  const left = async () => (await gate.peek('me', { cost: 0 })).remaining
  return { port: (server.address() as AddressInfo).port, left }
}

/** A store across a network that can be cut off, with counts that stay. */
function faulty() {
  const counts = memory()
  const store: Store & { isDown: boolean } = {
    isDown: false,
    async run(groups, nowUs) {
      if (store.isDown) throw new Error('cut off')
      return counts.run(groups, nowUs)
    },
  }
  return store
}

describe('while a body streams', () => {
  test('an upload that nobody reads is not collected here', async () => {
    let req: IncomingMessage | undefined
    const store = await shared.store()
    const { port } = await start({ limit: `${100 * MB}/day`, cost: 'bytes-in', store }, (each) => {
      req = each // and reads nothing
    })
    const socket = connect(port, '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    socket.on('error', () => {})
    const size = 40 * MB
    socket.write(`POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${size.toString(16)}\r\n`)
    let accepted = true
    for (let sent = 0; sent < size && accepted; sent += MB) {
      socket.write(Buffer.alloc(MB))
      accepted = await Promise.race([
        once(socket, 'drain').then(() => true),
        new Promise<false>((resolve) => setTimeout(() => resolve(false), 500)),
      ])
    }
    expect(accepted, 'the client is held up').toBe(false)
    expect(req?.readableLength).toBeLessThan(300_000)
  })

  test('while the store is asked nothing more is read than has come already', async () => {
    const counts = memory()
    let answer = () => {}
    const asked: Promise<void>[] = []
    const store: Store = {
      async run(groups, nowUs) {
        // The first is the decision about the request; what comes next is about its body.
        if (asked.push(new Promise((resolve) => (answer = resolve))) > 1) await asked.at(-1)
        return counts.run(groups, nowUs)
      },
    }
    let req: IncomingMessage | undefined
    const { port } = await start({ limit: `${100 * MB}/day`, cost: 'bytes-in', store }, (each, res) => {
      req = each
      req.resume().once('end', () => res.end('all'))
    })
    const sent = upload(port, [...Array(10).fill(MB)])
    await until('it is asked', () => asked.length > 1 || undefined)
    let read: number | undefined
    await until('it stands still', () => {
      const before = read
      read = req?.socket.bytesRead
      return (read !== undefined && read === before) || undefined
    })
    expect(req?.socket.bytesRead).toBeLessThan(300_000)
    const letGo = setInterval(() => answer(), 1)
    onTestFinished(() => clearInterval(letGo))
    expect(await sent).toMatchObject({ status: 200, body: 'all' })
  })

  test('a download that nobody reads is not produced, and few questions are asked about one that is read', async () => {
    let made = 0
    const store = await shared.store()
    const { port, left } = await start({ limit: `${900 * MB}/day`, cost: 'bytes-out', store }, (_req, res) => {
      const source = new Readable({
        read() {
          made += 65_536
          this.push(made > 40 * MB ? null : Buffer.alloc(65_536))
        },
      })
      source.pipe(res)
    })
    const request = httpRequest({ port, host: '127.0.0.1', agent: false }).end()
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    await until('it stands still', async () => {
      const before = made
      await new Promise((resolve) => setTimeout(resolve, 300))
      return before === made || undefined
    })
    expect(made).toBeLessThan(30 * MB) // what the system keeps for a connection
    const calls = await shared.calls(async () => {
      response.resume()
      await once(response, 'end')
    })
    expect(calls.evalsha ?? 0).toBeLessThan(30)
    expect(900 * MB - (await left())).toBeGreaterThanOrEqual(40 * MB - 131_072)
  })

  test('a length that is told is not taken for what comes', async () => {
    const clock = fakeClock(NOW)
    const gate = createGate({ limit: '100000/day', clock })
    const store = memory()
    const common = { limit: '100000/day', clock, store } as const
    const handler = fetchGate({ ...common, by: () => 'me', cost: 'bytes-in' })(async (request: Request) => {
      return new Response(String((await request.arrayBuffer()).byteLength))
    })
    const send = (bytes: number, said: number) => {
      const body = Readable.toWeb(Readable.from([Buffer.alloc(bytes)])) as never
      const init = { method: 'POST', headers: { 'content-length': String(said) }, body, duplex: 'half' }
      return handler(new Request('http://x/', init as never))
    }
    const left = () => createGate({ ...common }).peek('me', { cost: 0 }).remaining
    expect(gate.peek('me').ok).toBe(true)
    expect(await (await send(30_000, 5)).text()).toBe('30000')
    await until('30,000 paid', () => left() === 70_000 || undefined)
    expect(await (await send(10, 50_000)).text()).toBe('10')
    await until('10 paid', () => left() === 69_990 || undefined)
    const cut = await send(80_000, 5)
    expect([cut.status, await cut.json()]).toEqual([429, expect.objectContaining({ code: 'rate_limited' })])
    await until('nothing of it paid', () => left() === 69_990 || undefined)
  })

  test('a handler that goes on after it was cut off does no harm', async () => {
    let ended: string | undefined
    const { port, left } = await start({ limit: '100000/day', cost: 'bytes-in' }, async (req, res) => {
      try {
        for await (const _ of req);
      } catch {
        res.setHeader('x-late', 'yes')
        res.writeHead(500, { 'x-late': 'yes' })
        res.write('late')
        await new Promise<void>((resolve) => res.end('too late', resolve))
        ended = 'went on'
      }
    })
    expect(await upload(port, [60_000, 60_000, 60_000])).toMatchObject({
      status: 429,
      headers: { connection: 'close' },
    })
    await until('the handler has ended', () => ended)
    expect(await left()).toBeLessThanOrEqual(40_000)
  })

  test('a handler hears that its upload was cut off also where all of it had come by then', async () => {
    let [started, heard]: [true | undefined, unknown] = [undefined, undefined]
    const handler: Handler = async (req) => {
      started = true
      try {
        for await (const _ of req);
        heard = 'a whole body'
      } catch {
        heard = 'cut off'
      }
    }
    const { port } = await start({ limit: '100/day', cost: 'bytes-in', store: faulty() }, handler)
    const socket = connect(port, '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    const body = 'u'.repeat(500)
    socket.write('POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n')
    await until('the handler waits for it', () => started)
    socket.write(`1f4\r\n${body}\r\n0\r\n\r\n`)
    const [answer] = (await once(socket, 'data')) as [Buffer]
    expect(String(answer)).toMatch(/^HTTP\/1\.1 429 /)
    expect(await until('the handler knows', () => heard)).toBe('cut off')
  })

  test('fields of a body that is not sent are not told', async () => {
    const { port } = await start({ limit: '1000/day', cost: 'bytes-out' }, (_req, res) => {
      res.setHeader('Content-Encoding', 'gzip').setHeader('ETag', '"1"').setHeader('X-Own', 'yes')
      res.end('d'.repeat(5_000))
    })
    const { status, headers } = await download(port, '/')
    expect(status).toBe(429)
    expect(headers).toMatchObject({ 'content-type': 'application/problem+json', 'x-own': 'yes' })
    expect(Object.keys(headers)).not.toEqual(expect.arrayContaining(['content-encoding']))
    expect(headers.etag).toBeUndefined()
  })

  test('what a handler gives back stays given back', async () => {
    const { port, left } = await start({ limit: '100000/day', cost: 'bytes-in' }, async (req, res) => {
      await decisionOf(req)?.refund()
      req.resume()
      res.end('free')
    })
    await upload(port, [60_000], 60_000)
    await upload(port, [60_000], 60_000)
    expect(await left()).toBe(100_000)
  })

  test.each([
    ['allow', 200],
    ['deny', 503],
    ['local', 429],
  ] as const)('a store that fails in the middle: %s', async (onStoreError, status) => {
    const store = faulty()
    const { port } = await start({ limit: '100000/day', cost: 'bytes-in', store, onStoreError }, async (req, res) => {
      store.isDown = true
      let bytes = 0
      for await (const chunk of req) bytes += chunk.length
      res.end(String(bytes))
    })
    expect(await upload(port, [60_000, 60_000, 60_000])).toMatchObject({ status })
  })

  test('a body that a parser has read before is counted as it was read', async () => {
    const parsed: Handler = (_req, res) => res.end()
    const store = memory()
    const clock = fakeClock(NOW)
    const limited = headgate({ limit: '1000/day', by: () => 'me', cost: 'bytes-in', store, clock })
    const server = createServer(async (req, res) => {
      let text = ''
      for await (const chunk of req) text += chunk
      Object.assign(req, { body: text })
      if (await limited(req, res)) parsed(req, res)
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    const left = () => createGate({ limit: '1000/day', store, clock }).peek('me', { cost: 0 }).remaining
    expect((await upload(port, [300])).status).toBe(200)
    await until('300 paid', () => left() === 700 || undefined)
    expect((await upload(port, [200], 200)).status).toBe(200)
    await until('200 paid', () => left() === 500 || undefined)
    expect((await upload(port, [600])).status).toBe(429)
    await until('nothing of that', () => left() === 500 || undefined)
  })

  test('an upload that was answered early and is still read is paid for to its end', async () => {
    const { port, left } = await start({ limit: '100000/day', cost: 'bytes-in' }, (req, res) => {
      req.resume()
      res.end('early')
    })
    const socket = connect(port, '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    const piece = (bytes: number) => `${bytes.toString(16)}\r\n${'u'.repeat(bytes)}\r\n`
    socket.write(`POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${piece(10_000)}`)
    await once(socket, 'data')
    socket.write(`${piece(20_000)}0\r\n\r\n`)
    await until('all of it', async () => (await left()) === 70_000 || undefined)
  })
})
