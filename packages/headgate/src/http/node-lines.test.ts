import { once } from 'node:events'
import { createServer, get, type IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo, Server as NetServer } from 'node:net'
import fastify from 'fastify'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { randomBelow, seed } from '../../test/random.ts'
import { until } from '../../test/until.ts'
import { fakeClock } from '../testing/index.ts'
import { headgate as fastifyGate } from './fastify.ts'
import { headgate, lined, setLines, takesLines } from './node.ts'

const LinedResponse = lined(ServerResponse)
const request = { method: 'GET', httpVersionMajor: 1, httpVersionMinor: 1 } as IncomingMessage
const fields = [
  ['ratelimit', '"a";r=1;t=2'],
  ['ratelimit-policy', '"a";q=2;w=60'],
  ['x-ratelimit-limit', '2'],
] as const

const open: { close(): void }[] = []
afterEach(() => {
  for (const each of open.splice(0)) each.close()
})

async function start(server: NetServer): Promise<string> {
  open.push(server)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function rawHeaders(url: string): Promise<string[]> {
  return new Promise((resolve, reject) => {
    get(url, (res) => resolve(res.resume().rawHeaders)).on('error', reject)
  })
}

describe('lines', () => {
  test('are sent as they are, behind the status line', async () => {
    const server = createServer({ ServerResponse: LinedResponse }, (_req, res) => {
      expect(takesLines(res)).toBe(true)
      setLines(res, 'ratelimit: "a";r=1\r\nratelimit-policy: "a";q=2\r\n')
      res.writeHead(200, ['content-length', '2']).end('ok')
    })
    const sent = await rawHeaders(await start(server))
    expect(sent.slice(0, 6)).toEqual(['ratelimit', '"a";r=1', 'ratelimit-policy', '"a";q=2', 'content-length', '2'])
  })

  test('are not taken by a response that would not send them, or has fields or another setHeader already', () => {
    expect(takesLines(new ServerResponse(request))).toBe(false)
    const early = new LinedResponse(request)
    early.setHeader('ratelimit', 'of somebody')
    expect(takesLines(early)).toBe(false)
    const replaced = new LinedResponse(request)
    replaced.setHeader = () => replaced
    expect(takesLines(replaced)).toBe(false)
    expect(takesLines({})).toBe(false)
  })

  test.each([
    ['names of other fields', 'x-powered-by', () => {}],
    ['a name of theirs', 'X-RateLimit-Limit', () => {}],
    ['whatever was asked for before', 'etag', (res: ServerResponse) => res.getHeaders()],
  ])('leave a list all that it has of a name: with %s', (_, name, before) => {
    const response = new LinedResponse(request)
    setLines(response, 'ratelimit: "a";r=1\r\nx-ratelimit-limit: 2\r\n')
    before(response)
    response.writeHead(200, ['Set-Cookie', 'a=1', name, '7', 'Set-Cookie', 'b=2', name, '8'])
    const sent = ['Set-Cookie: a=1', 'Set-Cookie: b=2', `${name}: 7`, `${name}: 8`, 'ratelimit: "a";r=1']
    expect(headOf(response)).toEqual(expect.arrayContaining(sent))
  })

  test('need a Node whose heads they reach', () => {
    class Otherwise extends ServerResponse {
      _storeHeader(_first: string, list: unknown): void {
        const { _storeHeader: store } = ServerResponse.prototype as unknown as {
          _storeHeader(...args: unknown[]): void
        }
        store.call(this, 'HTTP/1.1 200 Other\r\n', list)
      }
    }
    expect(lined(Otherwise)).toBe(Otherwise)
  })
})

/** Not in its types. */
interface WithRawNames extends ServerResponse {
  getRawHeaderNames(): string[]
}

/** What a head says, but for the time. */
function headOf(response: ServerResponse): string[] {
  const { _header: head } = response as unknown as { _header: string | null }
  const lines = (head ?? '').split('\r\n').filter((line) => !line.startsWith('Date:'))
  return [...lines.slice(0, 1), ...lines.slice(1).sort()]
}

test(`to whoever uses a response, lines are fields like any (HEADGATE_SEED=${seed})`, () => {
  const below = randomBelow(seed)
  const pick = <T>(...values: T[]): T => values[below(values.length)] as T
  const name = () =>
    pick('RateLimit', 'ratelimit-policy', 'X-RateLimit-Limit', 'x-other', 'Content-Type', 'Retry-After')
  const value = () => pick<string | string[]>('1', 'two', ['3', '4'])
  type Act = (response: ServerResponse) => unknown
  const acts: (() => Act)[] = [
    () => by(name(), (each) => (res) => res.getHeader(each)),
    () => by(name(), (each) => (res) => res.hasHeader(each)),
    () => (res) => ({ ...res.getHeaders() }),
    () => (res) => res.getHeaderNames().sort(),
    () => (res) => (res as WithRawNames).getRawHeaderNames().sort(),
    () => by([name(), value()] as const, (each) => (res) => res.setHeader(...each).headersSent),
    () => by([name(), value()] as const, (each) => (res) => res.appendHeader(...each).headersSent),
    () => by(name(), (each) => (res) => res.removeHeader(each)),
    () => (res) => res.hasHeader(undefined as never),
    () => (res) => res.setHeader('x-bad', 'a\r\nb'),
  ]
  const ends: (() => Act)[] = [
    () => (res) => res.writeHead(201).headersSent,
    () => (res) => res.writeHead(200, 'Fine').headersSent,
    () => by({ [name()]: value(), etag: 'e' }, (each) => (res) => res.writeHead(200, each).headersSent),
    () => by({ [name()]: value() }, (each) => (res) => res.writeHead(200, 'Fine', each).headersSent),
    () => by([name(), '5', 'etag', 'e'], (each) => (res) => res.writeHead(200, each).headersSent),
    () => by([[name(), '6']], (each) => (res) => res.writeHead(200, each as never).headersSent),
    () => (res) => res.flushHeaders(),
    () => (res) => res.end('body').headersSent,
  ]
  for (let i = 0; i < 2_000; i++) {
    const [plain, other] = [new ServerResponse(request), new LinedResponse(request)]
    for (const [each, text] of fields) plain.setHeader(each, text)
    setLines(other, fields.map(([each, text]) => `${each}: ${text}\r\n`).join(''))
    const chosen = [...Array.from({ length: below(5) }, () => pick(...acts)()), pick(...ends)()]
    for (const act of chosen) expect(outcome(act, other)).toEqual(outcome(act, plain))
    expect(headOf(other)).toEqual(headOf(plain))
    // Not all: what `writeHead` was given Node forgets once it is sent, unless there are other fields.
    for (const [each] of fields) expect(other.getHeader(each)).toEqual(plain.getHeader(each))
  }
})

/** The same for both responses. */
function by<T>(
  given: T,
  act: (given: T) => (response: ServerResponse) => unknown,
): (response: ServerResponse) => unknown {
  return act(given)
}

function outcome(act: (response: ServerResponse) => unknown, response: ServerResponse): unknown {
  try {
    return act(response)
  } catch (error) {
    return (error as { code?: string }).code
  }
}

describe('a server with a middleware', () => {
  const limit = () => headgate({ limit: '10/min', clock: fakeClock() })

  /** Whether the head of each of three responses took lines: then ours come first. */
  async function tookLines(url: string): Promise<boolean[]> {
    const heads = [await rawHeaders(url), await rawHeaders(url), await rawHeaders(url)]
    for (const head of heads) {
      expect(head.filter((each) => each === 'ratelimit')).toHaveLength(1)
      expect(head.filter((each) => each === 'x-ratelimit-remaining')).toHaveLength(1)
    }
    return heads.map(([first]) => first === 'ratelimit')
  }

  test('makes responses that take lines from the second one on', async () => {
    const gate = limit()
    const kinds: unknown[] = []
    const server = createServer((req, res) => {
      kinds.push(res.constructor.name, res instanceof ServerResponse, res.constructor === ServerResponse)
      gate(req, res, () => res.writeHead(200, { etag: 'e' }).end())
    })
    const url = await start(server)
    const heads = [await rawHeaders(url), await rawHeaders(url)]
    expect(heads.map((head) => head.slice(0, 2))).toEqual([
      ['ratelimit', '"default";r=9;t=6'],
      ['ratelimit', '"default";r=8;t=6'],
    ])
    expect(kinds).toEqual(['ServerResponse', true, true, 'ServerResponse', true, false])
  })

  test('keeps the kind of response that it was made with', async () => {
    class Own extends ServerResponse {
      own = true
    }
    const gate = limit()
    const seen: unknown[] = []
    const server = createServer({ ServerResponse: Own }, (req, res) => {
      seen.push(res.own, res instanceof Own)
      gate(req, res, () => res.end())
    })
    expect(await tookLines(await start(server))).toEqual([true, true, true])
    expect(seen).toEqual([true, true, true, true, true, true])
  })

  test('tells of both limits where two middlewares are in line, the last one where they share a name', async () => {
    const [first, second] = [
      limit(),
      headgate({ limit: '5/min', clock: fakeClock(), prefix: 'two', headers: 'legacy' }),
    ]
    const server = createServer((req, res) => {
      first(req, res, () => second(req, res, () => res.end()))
    })
    const url = await start(server)
    for (const left of [4, 3, 2]) {
      const { headers } = await fetch(url)
      expect(headers.get('x-ratelimit-remaining')).toBe(String(left))
      expect(headers.get('ratelimit')).toMatch(`r=${left + 5};`)
    }
  })

  test('knows lines of another copy of this library', async () => {
    vi.resetModules()
    const other = await import('./node.ts')
    expect(other.headgate).not.toBe(headgate)
    const [first, second] = [limit(), other.headgate({ limit: '5/min', clock: fakeClock(), headers: 'legacy' })]
    const server = createServer({ ServerResponse: LinedResponse }, (req, res) => {
      first(req, res, () => second(req, res, () => res.end()))
    })
    const url = await start(server)
    for (const left of [4, 3]) {
      const { headers } = await fetch(url)
      expect(headers.get('x-ratelimit-remaining')).toBe(String(left))
      expect(headers.get('ratelimit')).toMatch(`r=${left + 5};`)
    }
  })

  test('tells the same once it was sent', async () => {
    const gate = limit()
    const told: unknown[] = []
    const server = createServer((req, res) => {
      res.once('finish', () => told.push(res.getHeader('ratelimit'), res.getHeaders()['x-ratelimit-remaining']))
      gate(req, res, () => res.end())
    })
    const url = await start(server)
    await rawHeaders(url)
    await rawHeaders(url)
    expect(told).toEqual(['"default";r=9;t=6', '9', '"default";r=8;t=6', '8'])
  })

  test('hands all fields to who settles by them', async () => {
    const told: unknown[] = []
    const settle = ({ header }: { header(name: string): string | undefined }) => {
      told.push(header('etag'), header('ratelimit'))
    }
    const gate = headgate({ limit: '10/min', clock: fakeClock(), settle: settle as () => undefined })
    const server = createServer({ ServerResponse: LinedResponse }, (req, res) => {
      gate(req, res, () => res.writeHead(200, { etag: 'e' }).end())
    })
    await rawHeaders(await start(server))
    await until('the end of the response', () => told.length > 0 || undefined)
    expect(told).toEqual(['e', '"default";r=9;t=6'])
  })

  test('may be one of Fastify, whose replies tell of lines, replace them and take them away', async () => {
    const app = fastify({ serverFactory: (handler) => createServer({ ServerResponse: LinedResponse }, handler) })
    open.push(app)
    await app.register(fastifyGate, { limit: '10/min', clock: fakeClock() })
    const seen: unknown[] = []
    app.get('/', (_request, reply) => {
      seen.push(reply.getHeader('RateLimit'), reply.hasHeader('ratelimit'), reply.getHeaders().ratelimit)
      reply.removeHeader('X-RateLimit-Resource').header('RateLimit-Policy', 'another').send('hello')
    })
    const url = await app.listen({ port: 0, host: '127.0.0.1' })
    for (const ratelimit of ['"default";r=9;t=6', '"default";r=8;t=6']) {
      const { headers } = await fetch(url)
      expect(Object.fromEntries(headers)).toMatchObject({ ratelimit, 'ratelimit-policy': 'another' })
      expect(headers.has('x-ratelimit-resource')).toBe(false)
      expect(seen.splice(0)).toEqual([ratelimit, true, ratelimit])
    }
  })
})
