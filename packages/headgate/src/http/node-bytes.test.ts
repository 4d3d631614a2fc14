import { once } from 'node:events'
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect as connectHttp2, createServer as createHttp2 } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { constants, createGzip, gunzipSync } from 'node:zlib'
import { describe, expect, onTestFinished, test } from 'vitest'
import { rig } from '../../test/redis-store.ts'
import { download, upload } from '../../test/transfers.ts'
import { until } from '../../test/until.ts'
import { createGate, type Decision, memory, type Store } from '../index.ts'
import { fakeClock } from '../testing/index.ts'
import { headgate } from './node.ts'

const NOW = 1_800_000_000_000
const SIZE = 100_000
const shared = rig()

const stores: Record<string, () => Promise<Store>> = {
  memory: async () => memory(),
  Redis: async () => await shared.store(),
}

type Handler = (req: IncomingMessage, res: ServerResponse) => unknown

/** A server whose requests are all counted for one caller. `front` stands before the limit. */
async function start(store: Store, cost: string, handler: Handler, more: object = {}, front?: Handler) {
  const common = { limit: `${SIZE}/day` as const, store, clock: fakeClock(NOW), timeoutMs: 5_000 }
  const limited = headgate({ ...common, by: () => 'me', cost, ...more } as never)
  const server = createServer(async (req, res) => {
    front?.(req, res)
    // Handlers of uploads that are cut off hear of it.
    if (await limited(req, res)) await Promise.resolve(handler(req, res)).catch(() => {})
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  const gate = createGate(common)
  const charged = async () => SIZE - (await gate.peek('me', { cost: 0 })).remaining
  const used = async (bytes: number) => {
    await until(`${bytes} bytes charged`, async () => (await charged()) === bytes || undefined)
    expect(await charged()).toBe(bytes)
  }
  return { port: (server.address() as AddressInfo).port, used }
}

for (const [name, storeOf] of Object.entries(stores)) {
  describe(`bodies on Node, counted in ${name}`, () => {
    test('an answer that cannot be sent does not hang, and harms nobody else', async () => {
      let broken: ServerResponse | undefined
      const { port } = await start(await storeOf(), 'bytes-out', (req, res) => {
        if (req.url === '/fine') return res.end('fine')
        broken = res
        res.statusCode = 99
        try {
          res.write(Buffer.alloc(5_000))
          res.end(Buffer.alloc(5_000))
        } catch {
          res.destroy() // where it is told at once
        }
      })
      expect((await download(port, '/')).status).toBeUndefined()
      expect(broken?.destroyed).toBe(true)
      if (name === 'Redis') expect(broken?.errored).toMatchObject({ code: 'ERR_HTTP_INVALID_STATUS_CODE' })
      expect(await download(port, '/fine')).toMatchObject({ status: 200, body: 'fine' })
    })

    const fails = () => {
      throw new Error('a mistake of the app')
    }
    test('a hook that throws when an upload is cut off changes nothing', async () => {
      const onDecision = ({ ok }: Decision<unknown>) => void (ok || fails())
      const read: Handler = async (req, res) => {
        for await (const _ of req);
        res.end()
      }
      const { port, used } = await start(await storeOf(), 'bytes-in', read, { onDecision })
      expect(await upload(port, [60_000], 60_000)).toMatchObject({ status: 200 })
      await used(60_000)
      expect(await upload(port, Array(10).fill(20_000))).toMatchObject({ status: 429 })
    })

    test('a refusal that cannot be worded closes the connection', async () => {
      const message = fails
      const read: Handler = async (req, res) => {
        for await (const _ of req);
        res.end('all')
      }
      const { port } = await start(await storeOf(), 'bytes-in', read, { message })
      expect(await upload(port, Array(10).fill(20_000))).toMatchObject({ status: undefined })
    })

    test('whoever waits for what was refused to be written is not left waiting', async () => {
      const done: string[] = []
      const { port } = await start(await storeOf(), 'bytes-out', async (_req, res) => {
        const written = (bytes: number) =>
          new Promise<void>((resolve) => res.write(Buffer.alloc(bytes), () => resolve()))
        await Promise.all([written(60_000), written(60_000), written(10)])
        done.push('written')
        expect(res.write('more')).toBe(true)
        await new Promise<void>((resolve) => expect(res.end('late', resolve)).toBe(res))
        done.push('ended')
      })
      expect((await download(port, '/')).whole).toBe(false)
      await until('the handler has ended', () => done.length === 2 || undefined)
    })

    test('an answer can be ended in one line', async () => {
      let ended: unknown
      const { port } = await start(await storeOf(), 'bytes-out', (_req, res) => {
        ended = res.end(Buffer.alloc(5_000)) === res
      })
      expect((await download(port, '/')).body).toHaveLength(5_000)
      expect(ended).toBe(true)
    })

    test('what is written for a client that has gone costs nothing', async () => {
      let gone: ServerResponse | undefined
      const { port, used } = await start(await storeOf(), 'bytes-out', async (_req, res) => {
        res.write(Buffer.alloc(5_000))
        await once(res, 'close')
        for (let i = 0; i < 5; i++) res.write(Buffer.alloc(10_000), () => {})
        res.end(Buffer.alloc(10_000), () => {})
        gone = res
      })
      const request = httpRequest({ port, host: '127.0.0.1', agent: false }).end()
      await once(request, 'response')
      request.on('error', () => {}).destroy()
      await until('it is written', () => gone)
      await used(5_000)
    })

    test('that an answer is cut off is told once, and what passes in the end is not told as refused', async () => {
      const told: boolean[] = []
      const onDecision = ({ ok }: Decision<unknown>) => void told.push(ok)
      const { port } = await start(
        await storeOf(),
        'bytes-out',
        async (_req, res) => {
          for (let i = 0; i < 40; i++)
            await new Promise<void>((resolve) => res.write(Buffer.alloc(4_000), () => resolve()))
          res.end()
        },
        { onDecision },
      )
      expect((await download(port, '/')).whole).toBe(false)
      expect(told).toEqual([true, false])
    })

    test('a handler that breaks while its answer waits sends no error page behind that', async () => {
      const { port } = await start(await storeOf(), 'bytes-out', (_req, res) => {
        res.write(Buffer.alloc(5_000, 'd'))
        // What frameworks do about an error.
        if (res.headersSent) return res.end()
        res.statusCode = 500
        return res.end('an error page')
      })
      expect(await download(port, '/')).toMatchObject({ status: 200, body: 'd'.repeat(5_000) })
    })

    test('over HTTP/2 bodies cost what passed, and who has nothing left is refused at once', async () => {
      const common = { limit: '50000/day', store: await storeOf(), clock: fakeClock(NOW), timeoutMs: 5_000 } as const
      const limited = headgate({ ...common, by: () => 'me', cost: 'bytes-in' })
      const answers = headgate({ ...common, by: () => 'out', cost: 'bytes-out' })
      let handled = 0
      const server = createHttp2(async (q, s) => {
        const [req, res] = [q as never as IncomingMessage, s as never as ServerResponse]
        if (!(await limited(req, res)) || !(await answers(req, res))) return
        handled++
        for await (const _ of req);
        res.end(Buffer.alloc(10_000))
      })
      await once(server.listen(0, '127.0.0.1'), 'listening')
      const session = connectHttp2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
      onTestFinished(() => {
        session.destroy()
        server.close()
      })
      const send = async () => {
        const stream = session.request({ ':path': '/', ':method': 'POST' })
        stream.end(Buffer.alloc(25_000))
        const [fields] = await once(stream, 'response')
        await once(stream.resume(), 'close')
        return fields[':status']
      }
      const gate = createGate(common)
      const left = async (key: string) => (await gate.peek(key, { cost: 0 })).remaining
      expect(await send()).toBe(200)
      await until(
        'it is paid',
        async () => ((await left('me')) === 25_000 && (await left('out')) === 40_000) || undefined,
      )
      expect(await send()).toBe(200)
      await until('it is paid', async () => ((await left('me')) === 0 && (await left('out')) === 30_000) || undefined)
      expect([await send(), handled]).toEqual([429, 2])
    })

    test('what a limit of bytes costs is what passed, and settle that names it is told so', async () => {
      const heard: string[] = []
      const listen = ({ message }: Error) => void heard.push(message)
      process.on('warning', listen)
      onTestFinished(() => void process.off('warning', listen))
      const read: Handler = async (req, res) => {
        for await (const _ of req);
        res.end('all')
      }
      const { port, used } = await start(await storeOf(), 'bytes-in', read, { settle: () => ({ default: 10 }) })
      await upload(port, [30_000, 20_000])
      await used(50_000)
      await upload(port, [20_000], 20_000)
      await used(70_000)
      await until(
        'it is told',
        () => heard.some((each) => /HG_SETTLE_FAILED.*"default" costs bytes/.test(each)) || undefined,
      )
    })

    test('behind something that compresses, an answer arrives, and costs what was written', async () => {
      const whole = Buffer.alloc(80_000, 'd')
      const stream: Handler = (_req, res) => void Readable.from(pieces(whole, 4_000)).pipe(res)
      const { port, used } = await start(await storeOf(), 'bytes-out', stream, {}, (_req, res) => gzipped(res))
      const { body, headers } = await download(port, '/')
      expect(headers['content-encoding']).toBe('gzip')
      expect(gunzipSync(Buffer.from(body, 'latin1')).equals(whole)).toBe(true)
      await used(80_000)
    })

    test('whoever waits for room hears of it once, and no more when it does not want to', async () => {
      const heard: string[] = []
      const { port } = await start(await storeOf(), 'bytes-out', async (_req, res) => {
        const [never, always] = [() => heard.push('never'), () => heard.push('always')]
        res.on('drain', never).on('drain', always).off('drain', never)
        for (let i = 0; i < 2; i++) if (!res.write(Buffer.alloc(40_000))) await once(res, 'drain')
        heard.push('written')
        res.off('drain', always).end()
      })
      expect((await download(port, '/')).body).toHaveLength(80_000)
      expect(heard.filter((each) => each !== 'always')).toEqual(['written'])
      expect(heard).toContain('always')
    })
  })
}

function pieces(whole: Buffer, bytes: number): Buffer[] {
  return Array.from({ length: whole.length / bytes }, (_, i) => whole.subarray(i * bytes, (i + 1) * bytes))
}

/** As `compression` does it: what is written, and who listens for `drain`, goes to a stream of its own. */
function gzipped(res: ServerResponse): void {
  const { write, end, on } = res
  const gzip = createGzip({ flush: constants.Z_SYNC_FLUSH })
  res.setHeader('content-encoding', 'gzip')
  gzip.on('data', (piece) => write.call(res, piece, 'utf8') || gzip.pause())
  gzip.on('end', () => end.call(res, undefined, 'utf8'))
  on.call(res, 'drain', () => gzip.resume())
  res.write = ((piece: Buffer) => gzip.write(piece)) as never
  res.end = ((piece?: Buffer) => gzip.end(piece) && res) as never
  res.on = ((event: string, listener: () => void) => {
    if (event === 'drain') gzip.on(event, listener)
    else on.call(res, event, listener)
    return res
  }) as never
}
