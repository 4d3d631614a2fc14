import { once } from 'node:events'
import { connect, createServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createGate, memory, type Store } from 'headgate'
import { headgate as fetchGate } from 'headgate/fetch'
import { headgate as honoGate } from 'headgate/hono'
import { headgate as nodeGate } from 'headgate/node'
import { createOverload } from 'headgate/overload'
import { Hono } from 'hono'
import { describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../test/until.ts'

type Handler = (request: Request) => Response | Promise<Response>
type Fetch = (request: Request) => Response | Promise<Response>

/** Both kinds of slots, and how many are taken. */
function slots() {
  const overload = createOverload({ concurrency: 20, queue: false, utilisation: false })
  const gate = createGate({ limits: { busy: { atOnce: 20 } } })
  const taken = () => [overload.state().inFlight, 20 - gate.peekKey('busy').remaining]
  return { options: { overload, gate }, taken }
}

const kinds: Record<string, (options: object, handler: Handler) => Fetch> = {
  fetch: (options, handler) => fetchGate(options as never)(handler) as Fetch,
  hono: (options, handler) => {
    const app = new Hono()
    app.use(honoGate(options as never))
    app.all('*', (c) => handler(c.req.raw))
    app.onError((_error, c) => c.text('broken', 500))
    return (request) => app.fetch(request)
  },
}

const used = async () => {
  const response = new Response('read before')
  await response.text()
  return response
}

function locked(): Response {
  const response = new Response('somebody reads this')
  response.body?.getReader()
  return response
}

for (const [name, make] of Object.entries(kinds)) {
  describe(`what a request holds on ${name}`, () => {
    function start(handler: Handler) {
      const { options, taken } = slots()
      return { ask: make(options, handler), taken }
    }

    const url = 'http://example.com/'

    test('is given back by a request for the head alone, whose body nobody reads', async () => {
      const { ask, taken } = start(() => new Response('hello'))
      for (let i = 0; i < 3; i++) expect((await ask(new Request(url, { method: 'HEAD' }))).status).toBe(200)
      expect(taken()).toEqual([0, 0])
    })

    test.each<[string, Handler]>([
      ['throws', () => Promise.reject(new Error('broken'))],
      [
        'throws at once',
        () => {
          throw new Error('broken')
        },
      ],
      ['answers nothing', async () => undefined as never],
      ['answers nothing at once', () => undefined as never],
      ['answers with a body that was read', used],
      ['answers with a body that somebody reads', async () => locked()],
      ['answers at once with a body that somebody reads', locked],
    ])('is given back by a handler that %s', async (_, handler) => {
      const { ask, taken } = start(handler)
      for (let i = 0; i < 3; i++) {
        const response = await Promise.resolve(new Request(url))
          .then(ask)
          .catch(() => undefined)
        await response?.text().catch(() => {})
      }
      expect(taken()).toEqual([0, 0])
    })

    test('is given back when the caller goes while it is worked on', async () => {
      const { ask, taken } = start(() => new Promise(() => {}))
      const caller = new AbortController()
      void ask(new Request(url, { signal: caller.signal }))
      expect(taken()).toEqual([1, 1])
      caller.abort()
      expect(taken()).toEqual([0, 0])
    })

    test('is given back when the caller goes and nobody reads on', async () => {
      const { ask, taken } = start(() => new Response('hello'))
      const caller = new AbortController()
      await ask(new Request(url, { signal: caller.signal }))
      expect(taken()).toEqual([1, 1])
      caller.abort()
      expect(taken()).toEqual([0, 0])
    })

    test('is held while a body is read, and given back at its end', async () => {
      const { ask, taken } = start(() => new Response('hello'))
      const response = await ask(new Request(url))
      expect(taken()).toEqual([1, 1])
      expect(await response.text()).toBe('hello')
      expect(taken()).toEqual([0, 0])
    })

    // Who calls the collector is no matter of other runtimes.
    test.skipIf('Bun' in globalThis || 'Deno' in globalThis)(
      'is given back by a response that was thrown away unread',
      async () => {
        const { ask, taken } = start(() => new Response('replaced by somebody further out'))
        await ask(new Request(url))
        expect(taken()).toEqual([1, 1])
        setFlagsFromString('--expose-gc')
        const collect = runInNewContext('gc') as () => void
        await until('it is collected', () => {
          collect()
          return taken().every((each) => each === 0) || undefined
        })
      },
    )
  })
}

test('on HTTP/2, too, a caller that goes while the store is asked gives back what it holds', async () => {
  const counts = memory()
  const asked: (() => void)[] = []
  const store: Store = {
    async run(groups, nowUs) {
      if (asked.length === 0) await new Promise<void>((resolve) => asked.push(resolve))
      return counts.run(groups, nowUs)
    },
  }
  const gate = createGate({ limits: { busy: { atOnce: 5 } }, store, timeoutMs: 60_000 })
  const limit = nodeGate({ gate: gate as never })
  let [left, decided]: [boolean | undefined, unknown] = [undefined, undefined]
  const server = createServer(async (req, res) => {
    res.once('close', () => {
      left = true
    })
    decided = await limit(req as never, res as never)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  onTestFinished(() => {
    client.destroy()
    server.close()
  })
  const stream = client.request()
  stream.on('error', () => {})
  await until('the store is asked', () => asked.length === 1 || undefined)
  stream.close(8)
  await until('the caller has gone', () => left)
  asked[0]?.()
  await until('it is decided', () => (decided === undefined ? undefined : true))
  expect(decided).toBe(false)
  expect((await gate.peekKey('busy')).remaining).toBe(5)
})
