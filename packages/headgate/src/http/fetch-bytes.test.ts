import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { describe, expect, onTestFinished, test } from 'vitest'
import { rig } from '../../test/redis-store.ts'
import { download, upload } from '../../test/transfers.ts'
import { until } from '../../test/until.ts'
import { createGate, memory, type Store } from '../index.ts'
import { fakeClock } from '../testing/index.ts'
import { type FetchHandler, headgate } from './fetch.ts'
import { headgate as honoGate } from './hono.ts'

const NOW = 1_800_000_000_000
const shared = rig()

const stores: Record<string, () => Promise<Store>> = {
  memory: async () => memory(),
  Redis: async () => await shared.store(),
}

async function listen(fetch: FetchHandler<[unknown]>): Promise<number> {
  const server = serve({ fetch: fetch as never, port: 0, hostname: '127.0.0.1' }) as Server
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return await until('it listens', () => (server.address() as AddressInfo | null)?.port)
}

/** Options for one caller, and what is charged to it once that stays. */
function world(store: Store, cost: string, limit = '100000/day') {
  const common = { limit: limit as '1/day', store, clock: fakeClock(NOW), timeoutMs: 5_000 }
  const gate = createGate(common)
  const size = Number(limit.split('/')[0])
  const charged = async () => size - (await gate.peek('me', { cost: 0 })).remaining
  const used = async (bytes: number) => {
    await until(`${bytes} bytes charged`, async () => (await charged()) === bytes || undefined)
    expect(await charged()).toBe(bytes)
  }
  return { options: { ...common, by: () => 'me', cost } as never, used, charged }
}

/** Hands on nothing of Node, as elsewhere. */
function honoApp(options: never, front?: (body: Request) => Promise<unknown>): FetchHandler<[unknown]> {
  const app = new Hono()
  if (front !== undefined)
    app.use(async (c, next) => {
      await front(c.req.raw)
      await next()
    })
  app.use(honoGate(options))
  app.post('/upload', (c) => c.text('read'))
  return (request) => app.fetch(request, {})
}

function streamOf(...pieces: unknown[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    pull(controller) {
      const piece = pieces.shift()
      if (piece === undefined) controller.close()
      else controller.enqueue(piece as Uint8Array)
    },
  })
}

for (const [name, storeOf] of Object.entries(stores)) {
  describe(`bytes of fetch handlers, counted in ${name}`, () => {
    test('a response that streams strings costs what they take, and is cut off like any other', async () => {
      const { options, used } = world(await storeOf(), 'bytes-out')
      const port = await listen(headgate(options)(() => new Response(streamOf('ü'.repeat(20_000), 'a'.repeat(5_000)))))
      expect((await download(port, '/')).body).toHaveLength(45_000)
      await used(45_000)
      expect((await download(port, '/')).whole).toBe(true)
      await used(90_000)
      expect((await download(port, '/')).body.length).toBeLessThan(1_000)
      await used(90_000)
    })

    const readers: Record<string, (options: never) => FetchHandler<[unknown]>> = {
      fetch(options) {
        const handler = headgate(options)((request: Request) => new Response(String(request.bodyUsed)))
        return async (request) => {
          await request.arrayBuffer()
          return handler(request)
        }
      },
      Hono: (options) => honoApp(options, (request) => request.arrayBuffer()),
    }
    test.each(Object.entries(readers))('a body that was read in front costs what it said, on %s', async (_, appOf) => {
      const { options, used } = world(await storeOf(), 'bytes-in')
      const port = await listen(appOf(options))
      expect(await upload(port, [30_000], 30_000)).toMatchObject({ status: 200 })
      await used(30_000)
      expect(await upload(port, [60_000], 60_000)).toMatchObject({ status: 200 })
      await used(90_000)
      expect(await upload(port, [30_000], 30_000)).toMatchObject({ status: 429 })
    })

    test('what is read after the response has ended is paid for, too', async () => {
      const { options, used } = world(await storeOf(), 'bytes-in')
      const late: Promise<unknown>[] = []
      let answered = () => {}
      const handler = headgate(options)((request: Request) => {
        late.push(new Promise<void>((resolve) => (answered = resolve)).then(() => request.arrayBuffer()))
        return new Response('early')
      })
      const send = async (...pieces: number[]) => {
        const body = streamOf(...pieces.map((bytes) => new Uint8Array(bytes)))
        const headers = { 'content-length': String(pieces.reduce((a, b) => a + b)) }
        const response = await handler(
          new Request('http://x/', { method: 'POST', headers, body, duplex: 'half' } as never),
        )
        expect(await response.text()).toBe('early')
      }
      await send(10_000, 30_000)
      await used(0) // nothing of it came
      answered()
      await late[0]
      await used(40_000)
      await send(20_000, 30_000)
      answered()
      await late[1]
      await used(90_000)
    })

    test('what is read after the response has ended is cut off when nothing is left', async () => {
      const { options, used } = world(await storeOf(), 'bytes-in')
      const [late, reads]: [Promise<unknown>[], (() => void)[]] = [[], []]
      const handler = headgate(options)((request: Request) => {
        late.push(new Promise<void>((resolve) => reads.push(resolve)).then(() => request.arrayBuffer()))
        return new Response('early')
      })
      for (let i = 0; i < 2; i++) {
        const headers = { 'content-length': '60000' }
        const body = streamOf(new Uint8Array(60_000))
        await (
          await handler(new Request('http://x/', { method: 'POST', headers, body, duplex: 'half' } as never))
        ).text()
        await used(0)
      }
      for (const read of reads) read()
      const ends = await Promise.allSettled(late)
      expect(ends.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
      await used(60_000)
    })
  })
}

test('what a framework gives its requests is there for a handler whose upload is counted', async () => {
  class OwnRequest extends Request {
    readonly params = { id: '7' }
    user: string | undefined
    readonly #query = new URL(this.url).searchParams
    get query(): URLSearchParams {
      return this.#query
    }
    ask(name: string): string | null {
      return this.#query.get(name)
    }
  }
  const { options, used } = world(memory(), 'bytes-in')
  const handler = headgate(options)(async (request: Request) => {
    const { params, query, ask } = Object.assign(request as OwnRequest, { user: 'ann' })
    const { length } = await request.text()
    return Response.json([params.id, query.get('q'), ask('q'), (request as OwnRequest).user, length])
  })
  const request = new OwnRequest('http://x/?q=1', { method: 'POST', body: 'u'.repeat(5_000) })
  expect(await (await handler(request)).json()).toEqual(['7', '1', '1', 'ann', 5_000])
  await used(5_000)
})
