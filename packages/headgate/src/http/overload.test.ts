import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { type AnyOptions, apps, type Running } from '../../test/apps.ts'
import { until } from '../../test/until.ts'
import { createGate, memory, type Store } from '../index.ts'
import { createOverload, type Outcome, type Overload, type Priority } from '../overload/index.ts'
import { fakeClock } from '../testing/index.ts'
import { headgate as nodeGate } from './node.ts'

/** No share is kept, so that as many fit as the number says. */
const open = { reserve: { critical: 0, high: 0, normal: 0 }, utilisation: false } as const
const patient = { size: 10, targetMs: 60_000, intervalMs: 60_000 }

/** Whatever a framework calls a request. */
function priorityOf(request: unknown): Priority | undefined {
  const { headers, req } = request as {
    headers?: Headers | Record<string, string>
    req?: IncomingMessage & { header?: (name: string) => string | undefined }
  }
  if (typeof req?.header === 'function') return req.header('x-priority') as Priority
  const all = headers ?? (req?.headers as Record<string, string>)
  return (all instanceof Headers ? (all.get('x-priority') ?? undefined) : all['x-priority']) as Priority
}

/** Remembers how work ended. */
function noting(overload: Overload): { overload: Overload; outcomes: Outcome[] } {
  const outcomes: Outcome[] = []
  const noted: Overload = {
    enter(work) {
      const ticket = overload.enter(work)
      const note = (each: Awaited<typeof ticket>) => {
        if (!each.ok) return each
        return {
          ...each,
          done(outcome: Outcome = 'success') {
            outcomes.push(outcome)
            each.done(outcome)
          },
        }
      }
      return ticket instanceof Promise ? ticket.then(note) : note(ticket)
    },
    refusal: (work) => overload.refusal(work),
    state: () => overload.state(),
    tune: (tuning) => overload.tune(tuning),
    close: () => overload.close(),
  }
  return { overload: noted, outcomes }
}

/** Asks by a connection of its own, which can be cut. */
function dial(port: number, path: string): Socket {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
  return socket
}

for (const app of apps) {
  describe(`overload protection on ${app.name}`, () => {
    const closing: Running[] = []
    afterEach(async () => {
      for (const each of closing.splice(0)) {
        each.held.letGo()
        await each.close()
      }
    })

    async function start(options: AnyOptions): Promise<Running> {
      const server = await app.start(options)
      closing.push(server)
      return server
    }

    const inFlight = (overload: Overload, count: number) =>
      until(`${count} in flight`, () => overload.state().inFlight === count || undefined)

    test('works without any limit, and says nothing while there is room', async () => {
      const overload = createOverload({ concurrency: 2, queue: false, ...open })
      const { url } = await start({ overload })
      const response = await fetch(`${url}/ok`)
      expect(response.status).toBe(200)
      expect(await response.text()).toBe('ok')
      expect(response.headers.has('ratelimit')).toBe(false)
      await inFlight(overload, 0)
    })

    test('sheds with 503, the reason and a wait, and charges no limit for it', async () => {
      const overload = createOverload({ concurrency: 2, queue: false, ...open })
      const { url, held } = await start({ limit: '10/day', overload, priority: 'low' })
      const slow = [fetch(`${url}/hold`), fetch(`${url}/hold`)]
      await held.reached(2)
      const shed = await fetch(`${url}/ok`)
      expect(shed.status).toBe(503)
      expect(shed.headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
      expect(shed.headers.get('content-type')).toMatch(/^application\/problem\+json/)
      expect(shed.headers.get('ratelimit')).toMatch(/^"overload";r=0;t=\d+$/)
      expect(shed.headers.get('ratelimit-policy')).toBe('"overload";q=2;qu="concurrent-requests"')
      expect(await shed.json()).toEqual({
        type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity',
        title: 'Service short of capacity',
        status: 503,
        detail: expect.stringMatching(/^As many requests as fit are being worked on\. Try again in /),
        code: 'overloaded',
        reason: 'concurrency',
        priority: 'low',
        limit: 'overload',
        'violated-policies': ['overload'],
        retryAfterMs: expect.any(Number),
        docs: 'https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/',
      })
      held.letGo()
      for (const response of await Promise.all(slow)) expect(await response.text()).toBe('held')
      await inFlight(overload, 0)
      const after = await fetch(`${url}/ok`)
      expect(after.headers.get('x-ratelimit-remaining')).toBe('7')
    })

    test.each(['observe', 'off'] as const)('fields tell of no shortage while it is %s', async (mode) => {
      const overload = createOverload({ mode, concurrency: 1, queue: false, ...open })
      const { url, held } = await start({ limit: '10/day', overload })
      const slow = [fetch(`${url}/hold`), fetch(`${url}/hold`)]
      await held.reached(2)
      const { status, headers } = await fetch(`${url}/ok`)
      expect([status, headers.get('ratelimit')]).toEqual([200, expect.stringMatching(/^"default";r=7;/)])
      held.letGo()
      for (const response of await Promise.all(slow)) await response.text()
    })

    test('what would be shed anyway asks no store', async () => {
      let asked = 0
      const counts = memory()
      const store: Store = {
        async run(groups) {
          asked++
          return counts.run(groups)
        },
      }
      const overload = createOverload({ concurrency: 1, queue: false, ...open })
      const { url, held } = await start({ limits: { all: { limit: '10/day' } }, store, timeoutMs: 60_000, overload })
      const slow = fetch(`${url}/hold`)
      await held.reached(1)
      const before = asked
      expect((await fetch(`${url}/ok`)).status).toBe(503)
      expect(asked).toBe(before)
      held.letGo()
      await slow
    })

    test('what is shed after it was counted gets everything back, slots too', async () => {
      const overload = createOverload({ concurrency: 1, queue: { ...patient, size: 1 }, ...open })
      const gate = createGate({ limits: { all: { limit: '10/day' }, busy: { atOnce: 9 } } })
      const { url, held, port } = await start({ gate, overload, priority: priorityOf })
      const slow = fetch(`${url}/hold`)
      await held.reached(1)
      const waiting = fetch(`${url}/ok`, { headers: { 'x-priority': 'low' } })
      await until('a queue', () => overload.state().queued === 1 || undefined)
      expect(gate.peek({}).limits.map(({ remaining }) => remaining)).toEqual([8, 7])
      // Whoever matters more takes its place.
      const critical = connect(port, '127.0.0.1')
      critical.write('GET /ok HTTP/1.1\r\nHost: a\r\nX-Priority: critical\r\n\r\n')
      const shed = await waiting
      expect(shed.status).toBe(503)
      expect(await shed.json()).toMatchObject({ reason: 'queue-full', priority: 'low' })
      expect(gate.peek({}).limits.map(({ remaining }) => remaining)).toEqual([8, 7])
      critical.destroy()
      await until('an empty queue', () => overload.state().queued === 0 || undefined)
      await until('what it was charged', () => gate.peek({}).limits[0]?.remaining === 9 || undefined)
      held.letGo()
      await (await slow).text()
      await until('slots', () => gate.peek({}).limits[1]?.remaining === 9 || undefined)
      expect(overload.state().inFlight).toBe(0)
    })

    test('a limit that is used up is told as ever, and takes no slot', async () => {
      const overload = createOverload({ concurrency: 1, queue: false, ...open })
      const { url } = await start({ limit: '1/day', overload })
      expect((await fetch(`${url}/ok`)).status).toBe(200)
      expect((await fetch(`${url}/ok`)).status).toBe(429)
      await inFlight(overload, 0)
    })

    test('whoever waits gets its turn, and whoever leaves is out of the queue at once', async () => {
      const overload = createOverload({ concurrency: 1, queue: patient, ...open })
      const { url, held, port } = await start({ overload })
      const slow = fetch(`${url}/hold`)
      await held.reached(1)
      const leaving = dial(port, '/ok')
      await until('one who waits', () => overload.state().queued === 1 || undefined)
      const patientOne = fetch(`${url}/ok`)
      await until('two who wait', () => overload.state().queued === 2 || undefined)
      leaving.destroy()
      await until('one who waits', () => overload.state().queued === 1 || undefined)
      held.letGo()
      expect(await (await slow).text()).toBe('held')
      expect(await (await patientOne).text()).toBe('ok')
      await inFlight(overload, 0)
    })

    test('slots come back from those who leave before they are answered', async () => {
      const { overload, outcomes } = noting(createOverload({ concurrency: 1, queue: false, ...open }))
      const { held, port } = await start({ overload })
      const socket = dial(port, '/hold')
      await held.reached(1)
      socket.destroy()
      // On some platforms nobody hears of it before there is a response.
      setTimeout(() => held.letGo(), 50)
      await inFlight(overload, 0)
      await until('an outcome', () => outcomes.length === 1 || undefined)
      expect(outcomes).toEqual([app.name === 'fetch' || app.name === 'hono elsewhere' ? expect.any(String) : 'ignore'])
    })

    test('slots come back from requests for the head alone, and from handlers that throw', async () => {
      const overload = createOverload({ concurrency: 1, queue: false, ...open })
      const gate = createGate({ limits: { busy: { atOnce: 1 } } })
      const { url } = await start({ gate, overload })
      for (const [path, method] of [
        ['/ok', 'HEAD'],
        ['/stream', 'HEAD'],
        ['/throw', 'GET'],
        ['/not-modified', 'GET'],
      ]) {
        await (await fetch(url + path, { method })).text()
        await inFlight(overload, 0)
        expect(gate.peek({}).remaining).toBe(1)
      }
    })

    test('says how each ended, once', async () => {
      const { overload, outcomes } = noting(createOverload({ concurrency: 5, queue: false, ...open }))
      const { url } = await start({ overload })
      for (const path of ['/ok', '/login?wrong', '/stream']) await (await fetch(url + path)).text()
      await until('three outcomes', () => outcomes.length >= 3 || undefined)
      expect(outcomes).toEqual(['success', 'ignore', 'success'])
      await inFlight(overload, 0)
    })

    test('a refusal by a limit that keeps the fleet is 503 with that reason', async () => {
      const overload = createOverload({ concurrency: 5, queue: false, ...open })
      const { url } = await start({
        overload,
        priority: priorityOf,
        limits: {
          mine: { limit: '100/day', by: 'ip' },
          fleet: { limit: '1/day', overload: true, when: (request: unknown) => priorityOf(request) !== 'critical' },
        },
      })
      const ask = (priority: Priority) => fetch(`${url}/ok`, { headers: { 'x-priority': priority } })
      expect((await ask('low')).status).toBe(200)
      const refused = await ask('low')
      expect(refused.status).toBe(503)
      expect(await refused.json()).toMatchObject({
        code: 'overloaded',
        reason: 'fleet',
        priority: 'low',
        'violated-policies': ['fleet'],
      })
      const critical = await ask('critical')
      expect(critical.status).toBe(200)
      // Who was refused was charged nowhere.
      expect(critical.headers.get('ratelimit')).toContain('"mine";r=98')
    })
  })
}

describe('what overload protection makes of it', () => {
  async function ask(options: AnyOptions, status: number): Promise<Response> {
    const limit = nodeGate(options as never)
    const server = createServer((req, res) => {
      limit(req, res, () => {
        res.statusCode = status
        res.end()
      })
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
    await new Promise((resolve) => server.close(resolve))
    return response
  }

  test.each([
    [200, 'success'],
    [302, 'success'],
    [404, 'ignore'],
    [429, 'ignore'],
    [500, 'success'],
    [503, 'drop'],
    [504, 'drop'],
  ])('a response of %i is a %s', async (status, outcome) => {
    const { overload, outcomes } = noting(createOverload({ concurrency: 5, ...open }))
    await ask({ overload }, status)
    expect(outcomes).toEqual([outcome])
  })

  test('what callers are told shrinks with the share that is let in', async () => {
    let busy = 0
    const clock = { now: () => 1_800_000_000_000 }
    const overload = createOverload({ concurrency: false, clock })
    const state = overload.state()
    const half: Overload = {
      ...noting(overload).overload,
      state: () => ({ ...state, shedding: { ...state.shedding, low: busy } }),
    }
    const remaining = async () =>
      (await ask({ limit: '100/day', overload: half, priority: 'low', headers: ['ietf', 'legacy'] }, 200)).headers
    expect((await remaining()).get('ratelimit')).toMatch(/^"default";r=99;/)
    busy = 0.5
    expect((await remaining()).get('ratelimit')).toMatch(/^"default";r=49;/)
    expect((await remaining()).get('x-ratelimit-remaining')).toBe('49')
    busy = 1
    expect((await remaining()).get('x-ratelimit-remaining')).toBe('0')
  })

  test('a request that finds room is answered in the turn in which it came', async () => {
    const limit = nodeGate({ limit: '10/s', overload: createOverload({ concurrency: 5, ...open }) })
    const answers: unknown[] = []
    const server = createServer((req, res) => {
      answers.push(limit(req, res))
      res.end()
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
    await new Promise((resolve) => server.close(resolve))
    expect(answers).toEqual([true])
  })

  test('who says that it has no time is refused at once', async () => {
    const overload = createOverload({ concurrency: 5, ...open })
    const response = await ask({ overload, deadlineMs: () => 0 }, 200)
    expect(response.status).toBe(503)
    expect(await response.json()).toMatchObject({ reason: 'deadline', priority: 'normal' })
  })

  describe('a deadline counts from when a request came', () => {
    /** Asks a server whose overload protection notes how much time is left when somebody enters. */
    async function timed(options: AnyOptions) {
      const clock = fakeClock(1_800_000_000_000)
      const left: (number | undefined)[] = []
      const inside = createOverload({ concurrency: 5, clock, ...open })
      const overload: Overload = {
        ...noting(inside).overload,
        enter: (work) => {
          left.push(work?.deadlineMs)
          return inside.enter(work)
        },
      }
      const limit = nodeGate({ clock, overload, timeoutMs: 60_000, ...options } as never)
      const server = createServer((req, res) => void limit(req, res, () => res.end()))
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
      onTestFinished(() => {
        server.closeAllConnections()
        server.close()
      })
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
      return { clock, left, ask: () => fetch(url, { signal: AbortSignal.timeout(10_000) }) }
    }

    test('who would be held back beyond it is refused at once', async () => {
      const { ask } = await timed({ limit: '1/s', delay: 3_000, deadlineMs: 200 })
      expect((await ask()).status).toBe(200)
      const refused = await ask()
      expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1'])
    })

    test('who was held back has the less time left', async () => {
      let asked = 0
      const by = () => {
        asked++
        return 'me'
      }
      const { clock, left, ask } = await timed({ limit: '1/s', by, delay: 3_000, deadlineMs: 1_500 })
      expect((await ask()).status).toBe(200)
      const before = asked
      const late = ask()
      await until('it is held back', () => asked > before || undefined)
      clock.advance(1_000)
      expect((await late).status).toBe(200)
      expect(left).toEqual([1_500, 500])
    })

    test('who had to wait for the store for so long is shed, and charged nothing', async () => {
      const counts = memory()
      const asked: (() => void)[] = []
      const store: Store = {
        async run(groups, nowUs) {
          await new Promise<void>((resolve) => asked.push(resolve))
          return counts.run(groups, nowUs)
        },
      }
      const { clock, ask } = await timed({ limits: { all: { limit: '10/day' } }, store, deadlineMs: 200 })
      const answer = ask()
      await until('the store is asked', () => asked.length === 1 || undefined)
      clock.advance(300)
      asked[0]?.()
      await until('it is asked to give back', () => asked.length === 2 || undefined)
      asked[1]?.()
      const shed = await answer
      expect([shed.status, await shed.json()]).toEqual([503, expect.objectContaining({ reason: 'deadline' })])
      const gate = createGate({ limits: { all: { limit: '10/day' } }, store: counts, clock })
      expect(gate.peek({}).remaining).toBe(10)
    })
  })

  const day = { limit: '10/day' } as const
  test.each<[string, AnyOptions, Priority]>([
    ['as the limit says', { limits: { a: { ...day, priority: 'high' } } }, 'high'],
    [
      'the least that a limit says: to meet one more raises nobody',
      { limits: { a: { ...day, priority: 'low' }, b: { ...day, priority: 'critical' }, c: day } },
      'low',
    ],
    [
      'not as limits say that do not concern it',
      {
        limits: {
          a: { ...day, priority: 'low', when: () => false },
          b: { ...day, priority: 'low', mode: 'off' },
          c: { ...day, priority: 'high' },
        },
      },
      'high',
    ],
    ['as the middleware says before', { limits: { a: { ...day, priority: 'low' } }, priority: 'critical' }, 'critical'],
    [
      'as a limit says if the middleware does not',
      { limits: { a: { ...day, priority: 'low' } }, priority: () => {} },
      'low',
    ],
    ['as a limit of its gate says', { gate: createGate({ ...day, priority: 'low' }) }, 'low'],
    ['normal if nobody says', { limits: { a: day } }, 'normal'],
  ])('a request matters %s', async (_, options, priority) => {
    const overload = createOverload({ concurrency: 5, ...open })
    const response = await ask({ overload, deadlineMs: () => 0, ...options }, 200)
    expect(await response.json()).toMatchObject({ reason: 'deadline', priority })
  })

  test('a priority that nobody knows is normal', async () => {
    const overload = createOverload({ concurrency: 5, ...open })
    const response = await ask({ overload, priority: () => 'utmost', deadlineMs: () => 0 }, 200)
    expect(await response.json()).toMatchObject({ priority: 'normal' })
  })

  test.each([
    [{ overload: {} }, /"overload" is .* give what createOverload\(\) returned/],
    [{ overload: 5 }, /"overload" is 5/],
    [{ overload: createOverload(), priority: 'hihg' }, /"priority".*did you mean "high"/],
    [{ overload: createOverload(), deadlineMs: -1 }, /"deadlineMs" is -1/],
    [{ limits: { a: { limit: '1/s', overload: 'yes' } } }, /"overload" of limit "a" is "yes"/],
  ])('options that mean nothing are refused: %#', (options, message) => {
    expect(() => nodeGate(options as never)).toThrow(message)
  })
})
