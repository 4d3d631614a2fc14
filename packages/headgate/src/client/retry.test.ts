import { createServer } from 'node:http'
import { createGate } from 'headgate'
import { type Attempt, ClientError, type ClientEvent, politeFetch } from 'headgate/client'
import { idempotency } from 'headgate/idempotency'
import { describe, expect, test } from 'vitest'
import { urlOf } from '../../../../examples/serving.ts'
import { type Handler, type World, world } from '../../test/virtual.ts'
import { denial } from '../http/denial.ts'

const url = 'https://api.example/things'

const limited = { message: 'slow down', extensions: { code: 'RATE_LIMITED' } }

/** Answers so often with a status, then with 200. */
function failing(times: number, status: number, headers: Record<string, string> = {}): Handler {
  let left = times
  return () => (left-- > 0 ? new Response('', { status, headers }) : new Response('done'))
}

async function codeOf(here: World, promise: Promise<unknown>): Promise<string> {
  return here.settle(
    promise.then(
      () => 'answered',
      (error) => (error as ClientError).code ?? String(error),
    ),
  )
}

describe('what is repeated', () => {
  test.each([
    ['GET', 503, {}, 2],
    ['GET', 502, {}, 2],
    ['GET', 504, {}, 2],
    ['GET', 408, {}, 2],
    ['PUT', 503, {}, 2],
    ['DELETE', 503, {}, 2],
    ['POST', 503, {}, 1],
    ['PATCH', 502, {}, 1],
    ['POST', 429, {}, 2],
    ['GET', 503, { 'retry-after': '1' }, 2],
    ['POST', 503, { 'retry-after': '1' }, 1],
    ['GET', 500, {}, 1],
    ['GET', 404, {}, 1],
    ['GET', 403, {}, 1],
    ['GET', 403, { 'retry-after': '1' }, 2],
    ['POST', 403, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '1' }, 2],
  ])('%s answered %i with %o is sent %i times', async (method, status, headers, times) => {
    const here = world()
    const { fetch, arrivals } = here.serve(failing(1, status, headers as Record<string, string>))
    const response = await here.settle(here.client({ fetch })(url, { method }))
    expect(arrivals).toHaveLength(times)
    expect(response.status).toBe(times === 2 ? 200 : status)
  })

  test('a call that got no answer is repeated if that is safe, else its error is the one of fetch', async () => {
    const here = world()
    let calls = 0
    const { fetch } = here.serve(() => {
      if (++calls % 2 === 1) throw new TypeError('fetch failed')
      return new Response('done')
    })
    const polite = here.client({ fetch })
    expect(await here.settle(polite(url).then((response) => response.text()))).toBe('done')
    await expect(here.settle(polite(url, { method: 'POST' }))).rejects.toThrow('fetch failed')
    expect(calls).toBe(3)
  })

  test('a GraphQL answer of 200 that says "too many" in its errors is a refusal', async () => {
    const here = world()
    let calls = 0
    const { fetch, arrivals } = here.serve(() =>
      Response.json(
        calls++ === 0 ? { errors: [{ type: 'RATE_LIMITED', message: 'slow down' }] } : { data: { ok: true } },
      ),
    )
    const send = here.client({ fetch })('https://api.example/graphql', { method: 'POST', body: '{}' })
    expect(await here.settle(send.then((response) => response.json()))).toEqual({ data: { ok: true } })
    expect(arrivals).toHaveLength(2)
  })

  test.each([
    ['has data', { data: { order: { id: 1 }, hints: null }, errors: [{ ...limited, path: ['hints'] }] }],
    ['says null where it was', { data: { order: null }, errors: [{ ...limited, path: ['order', 'hints'] }] }],
    ['has lost its data to an error within', { data: null, errors: [{ ...limited, path: ['order', 'hints'] }] }],
  ])('a GraphQL answer that %s has been run: it is the answer, and the next call pauses', async (_, body) => {
    const here = world()
    let calls = 0
    const { fetch, arrivals } = here.serve(() =>
      Response.json(calls++ === 0 ? body : { data: {} }, { headers: { 'retry-after': '5' } }),
    )
    const polite = here.client({ fetch })
    const send = () => polite('https://api.example/graphql', { method: 'POST', body: '{}' })
    expect(await here.settle(send().then((response) => response.json()))).toEqual(body)
    expect(arrivals).toHaveLength(1)
    await here.settle(send())
    expect(arrivals[1]?.atMs).toBeGreaterThanOrEqual(5_000)
  })

  test('a GraphQL answer whose data is null before anything was run is a refusal', async () => {
    const here = world()
    let calls = 0
    const { fetch, arrivals } = here.serve(() =>
      Response.json(calls++ === 0 ? { data: null, errors: [limited] } : { data: { ok: true } }),
    )
    await here.settle(here.client({ fetch })('https://api.example/graphql', { method: 'POST', body: '{}' }))
    expect(arrivals).toHaveLength(2)
  })

  test('a 503 that says by its type that nothing was done is repeated, as one of Headgate is', async () => {
    const gate = createGate({ limits: { slots: { atOnce: 1 } } })
    gate.take({})
    const decision = gate.take({})
    const here = world()
    let calls = 0
    const { fetch, arrivals } = here.serve(() => {
      if (calls++ > 0) return new Response('done')
      const { status, type, body } = denial(decision, { status: 503, message: undefined }, 0)
      return new Response(body, { status, headers: { 'content-type': type, 'retry-after': '1' } })
    })
    const response = await here.settle(here.client({ fetch })(url, { method: 'POST', body: 'x' }))
    expect([response.status, arrivals.length]).toEqual([200, 2])
  })
})

describe('an Idempotency-Key', () => {
  const keysOf = (arrivals: readonly { headers: Headers }[]) =>
    arrivals.map(({ headers }) => headers.get('idempotency-key'))

  test('is made on request, makes a POST safe to repeat, and stays the same over all attempts', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(failing(2, 502))
    await here.settle(here.client({ fetch })(url, { method: 'POST', body: 'x', idempotencyKey: true }))
    const keys = keysOf(arrivals)
    expect(keys).toHaveLength(3)
    expect(keys[0]).toMatch(/^[\da-f]{32}$/)
    expect(new Set(keys).size).toBe(1)
    expect(arrivals.map(({ body }) => body)).toEqual(['x', 'x', 'x'])
  })

  test('is made for all calls that need one if the client is told to, another for each', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(() => new Response('ok'))
    const polite = here.client({ fetch, idempotencyKey: true })
    await here.settle(Promise.all([polite(url, { method: 'POST' }), polite(url, { method: 'PATCH' }), polite(url)]))
    const keys = keysOf(arrivals)
    expect(new Set(keys).size).toBe(3)
    expect(keys.filter((key) => key === null)).toHaveLength(1)
  })

  test('that the caller has set is kept and counts', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(failing(1, 502))
    const headers = { 'Idempotency-Key': 'mine' }
    await here.settle(here.client({ fetch, idempotencyKey: true })(url, { method: 'POST', headers }))
    expect(keysOf(arrivals)).toEqual(['mine', 'mine'])
  })
})

describe('a 409 with Retry-After', () => {
  const underWay = () => new Response('in progress', { status: 409, headers: { 'retry-after': '1' } })
  const lost = () => {
    throw new TypeError('fetch failed')
  }
  const done = () => new Response('paid')
  const sends = async (answers: Handler[], init: object) => {
    const here = world()
    const { fetch, arrivals } = here.serve((request) => (answers.shift() ?? done)(request))
    const response = await here.settle(here.client({ fetch })(url, { method: 'POST', body: 'x', ...init }))
    return { arrivals, said: [response.status, await response.text()] }
  }

  test('in answer to a repeat with a key is waited for: the first is still at work', async () => {
    const { arrivals, said } = await sends([lost, underWay, underWay], { idempotencyKey: true })
    expect(said).toEqual([200, 'paid'])
    expect((arrivals[1]?.atMs ?? 0) - (arrivals[0]?.atMs ?? 0)).toBeGreaterThanOrEqual(1_000)
    expect((arrivals[2]?.atMs ?? 0) - (arrivals[1]?.atMs ?? 0)).toBeGreaterThanOrEqual(1_000)
  })

  test.each<[string, Handler[], object]>([
    ['the first of its key: another caller has it', [underWay], { idempotencyKey: true }],
    ['a repeat without a key', [lost, underWay], { method: 'PUT' }],
    [
      'a repeat after which nobody says when',
      [lost, () => new Response('no', { status: 409 })],
      { idempotencyKey: 'k' },
    ],
  ])('is the answer to %s', async (_, answers, init) => {
    expect((await sends(answers, init)).said[0]).toBe(409)
  })

  test('of our own idempotency ends in the answer to the first', async () => {
    const guard = idempotency()
    let [runs, go] = [0, () => {}]
    const free = new Promise<void>((resolve) => {
      go = resolve
    })
    const server = createServer(async (req, res) => {
      if (!(await guard.node(req, res))) return
      runs++
      // The network breaks while the handler works.
      req.socket.destroy()
      await free
      res.end('paid')
    }).listen(0, '127.0.0.1')
    const events: ClientEvent[] = []
    const onEvent = (event: ClientEvent) => {
      events.push(event)
      if (event.type === 'retry' && event.attempt.status === 409) go()
    }
    const response = await politeFetch({ idempotencyKey: true, onEvent })(await urlOf(server), {
      method: 'POST',
      body: 'x',
    })
    expect([response.status, await response.text(), runs]).toEqual([200, 'paid', 1])
    expect(events.filter(({ type }) => type === 'pause')).toEqual([])
  })
})

describe('when it is repeated', () => {
  test.each([
    ['3', 3_000],
    ['Tue, 03 Feb 2026 05:05:16 GMT', 10_000],
    ['Tuesday, 03-Feb-26 05:05:16 GMT', 10_000],
    ['Tue Feb  3 05:05:16 2026', 10_000],
  ])(
    'never earlier than told by "%s", and at most a tenth of it later, by a clock that is an hour ahead',
    async (text, ms) => {
      const here = world()
      const date = 'Tue, 03 Feb 2026 05:05:06 GMT'
      const { fetch, arrivals } = here.serve(failing(1, 429, { 'retry-after': text, date }))
      await here.settle(here.client({ fetch })(url))
      const gapMs = (arrivals[1]?.atMs ?? 0) - (arrivals[0]?.atMs ?? 0)
      expect(gapMs).toBeGreaterThanOrEqual(ms)
      expect(gapMs).toBeLessThanOrEqual(ms * 1.1 + 110)
    },
  )

  test.each(['-1', 'soon', 'NaN', '', '1e9', 'Thu, 01 Jan 1970 00:00:00 GMT', '0'])(
    'after a while that grows, where Retry-After is "%s"',
    async (text) => {
      const here = world()
      const { fetch, arrivals } = here.serve(failing(9, 429, { 'retry-after': text }))
      await codeOf(here, here.client({ fetch, random: () => 0.5 })(url))
      expect(arrivals).toHaveLength(5)
      expect((arrivals[4]?.atMs ?? 0) - (arrivals[0]?.atMs ?? 0)).toBeGreaterThan(1_000)
    },
  )

  test('with full jitter: anything from 0 to twice as much each time', async () => {
    const gaps = async (random: number) => {
      const here = world()
      const { fetch, arrivals } = here.serve(failing(4, 502), 0)
      await here.settle(here.client({ fetch, random: () => random })(url))
      return arrivals.slice(1).map(({ atMs }, index) => Math.round(atMs - (arrivals[index]?.atMs ?? 0)))
    }
    expect(await gaps(0)).toEqual([0, 0, 0, 0])
    expect(await gaps(0.5)).toEqual([50, 100, 200, 400])
    expect(await gaps(0.999999)).toEqual([100, 200, 400, 800])
  })

  test('all that share the limit pause, not only the call that was refused', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(failing(1, 429, { 'retry-after': '5' }))
    const polite = here.client({ fetch })
    const first = polite(url)
    await here.pass(100)
    await here.settle(Promise.all([first, ...Array.from({ length: 5 }, () => polite(`${url}/other`))]))
    expect(arrivals).toHaveLength(7)
    for (const { atMs } of arrivals.slice(1)) expect(atMs).toBeGreaterThanOrEqual(5_000)
  })

  test('all under a limit that has nothing left pause for as long as was told, not only until its reset', async () => {
    const here = world()
    const fields = { 'x-ratelimit-limit': '10', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '1' }
    const { fetch, arrivals } = here.serve(failing(1, 429, { ...fields, 'retry-after': '5' }))
    const polite = here.client({ fetch })
    const first = polite(url)
    await here.pass(100)
    await here.settle(Promise.all([first, ...Array.from({ length: 5 }, () => polite(`${url}/other`))]))
    for (const { atMs } of arrivals.slice(1)) expect(atMs).toBeGreaterThanOrEqual(5_000)
  })

  test('all routes of a host pause when it says that it means all of them', async () => {
    const here = world()
    const fields = { 'x-ratelimit-limit': '5', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset-after': '1' }
    const headers = { ...fields, 'x-ratelimit-bucket': 'a', 'x-ratelimit-global': 'true', 'retry-after': '5' }
    const { fetch, arrivals } = here.serve(failing(1, 429, headers))
    const polite = here.client({ fetch })
    const first = polite('https://api.example/api/v10/channels/1/messages')
    await here.pass(100)
    await here.settle(Promise.all([first, polite('https://api.example/api/v10/guilds/2/roles')]))
    for (const { atMs } of arrivals.slice(1)) expect(atMs).toBeGreaterThanOrEqual(5_000)
  })
})

describe('retries end', () => {
  test('after as many as were allowed, with the last response and all attempts in the error', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(() => Response.json({ why: 'because' }, { status: 429 }))
    const error = await here.settle(
      here
        .client({ fetch, retries: 2 })(url)
        .catch((reason) => reason as ClientError),
    )
    expect(error).toBeInstanceOf(ClientError)
    expect(error).toMatchObject({ code: 'HG_RETRIES_EXHAUSTED', value: 429, response: { status: 429 } })
    const { attempts, response } = error as ClientError
    expect(attempts.map(({ status, outcome }: Attempt) => [status, outcome])).toEqual(Array(3).fill([429, 'refused']))
    expect(await response?.json()).toEqual({ why: 'because' })
    expect(arrivals).toHaveLength(3)
  })

  test('at once when the server wants a longer pause than the caller has patience for', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(failing(1, 429, { 'retry-after': '3600' }))
    const error = await here.settle(
      here
        .client({ fetch })(url)
        .catch((reason) => reason as ClientError),
    )
    expect(error).toMatchObject({ code: 'HG_WAIT_TOO_LONG', response: { status: 429 } })
    expect(here.clock.now() - Date.UTC(2026, 1, 3, 4, 5, 6, 789)).toBeLessThan(100)
    expect(arrivals).toHaveLength(1)
  })

  test('with an answer that can be read, also where it is given up while it waits', async () => {
    const here = world()
    const { fetch } = here.serve(() => new Response('used up until May', failure))
    const failure = { status: 429, headers: { 'retry-after': '3600' } }
    for (const [options, code] of [
      [{ maxWaitMs: 5_000 }, 'HG_WAIT_TOO_LONG'],
      [{ deadlineMs: 5_000 }, 'HG_DEADLINE_PASSED'],
    ] as const) {
      const send = here.client({ fetch, ...options })(url, { method: 'POST', body: 'x' })
      const error = await here.settle(send.catch((reason) => reason as ClientError))
      expect((error as ClientError).code).toBe(code)
      expect(await (error as ClientError).response?.text()).toBe('used up until May')
    }
  })

  test('and an answer that nobody gets is let go: before a repeat, and when the caller leaves', async () => {
    const here = world()
    const cancelled: number[] = []
    let calls = 0
    const { fetch } = here.serve(() => {
      const call = ++calls
      const body = new ReadableStream({ cancel: () => void cancelled.push(call) })
      return new Response(body, { status: 429, headers: { 'retry-after': '5' } })
    })
    const leaving = new AbortController()
    const call = here
      .client({ fetch })(url, { signal: leaving.signal })
      .catch((reason) => reason)
    await here.pass(1_000)
    expect(cancelled).toEqual([])
    await here.pass(7_000)
    expect(cancelled).toEqual([1])
    leaving.abort('enough')
    expect(await here.settle(call)).toBe('enough')
    expect(cancelled).toEqual([1, 2])
  })

  test('when a tenth of the calls are retries already: an outage is not made worse', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(() => new Response('', { status: 502 }))
    const polite = here.client({ fetch })
    const codes = await here.settle(
      Promise.all(Array.from({ length: 400 }, () => polite(url).catch((error) => (error as ClientError).code))),
    )
    expect(new Set(codes)).toEqual(new Set(['HG_RETRIES_EXHAUSTED']))
    // A tenth, and one a second for those who send few.
    expect(arrivals.length).toBeLessThanOrEqual(400 + 40 + 12)
  })

  test('when a tenth are retries, also while most calls succeed', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(
      (request) => new Response('', { status: request.url.endsWith('0') ? 502 : 200 }),
    )
    const polite = here.client({ fetch, retries: 10 })
    const codes = await here.settle(
      Promise.all(
        Array.from({ length: 400 }, (_, id) =>
          polite(`${url}/${id}`).then(
            () => 'answered',
            (error) => (error as ClientError).code,
          ),
        ),
      ),
    )
    expect(codes.filter((code) => code === 'answered')).toHaveLength(360)
    expect(arrivals.length).toBeLessThanOrEqual(400 + 40 + 12)
  })

  test.each([
    ['a stream of the web', () => new Blob(['stream']).stream()],
    [
      'a generator',
      () =>
        (async function* () {
          yield new TextEncoder().encode('stream')
        })(),
    ],
  ])('for %s, which can be sent once only; a function makes it anew', async (_, make) => {
    const here = world()
    const { fetch } = here.serve(failing(1, 429))
    const init = { method: 'POST' }
    const once = here.client({ fetch })(url, { ...init, body: make() as never })
    expect(await codeOf(here, once)).toBe('HG_BODY_ONCE')
    const again = here.serve(failing(2, 429))
    const response = here.client({ fetch: again.fetch })(url, { ...init, body: () => make() as never })
    expect(await here.settle(response.then((answer) => answer.text()))).toBe('done')
    expect(again.arrivals.map(({ body }) => body)).toEqual(['stream', 'stream', 'stream'])
  })

  test.each([
    ['a text', 'body'],
    ['bytes', new TextEncoder().encode('body')],
    ['a Blob', new Blob(['body'])],
    ['a form', new URLSearchParams('body')],
  ])('never for %s: it is sent again', async (_, body) => {
    const here = world()
    const { fetch, arrivals } = here.serve(failing(2, 429))
    await here.settle(here.client({ fetch })(url, { method: 'POST', body: body as never }))
    expect(arrivals.map((each) => each.body.replace('=', ''))).toEqual(['body', 'body', 'body'])
  })

  test('never for a Request with a body: it is copied', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(failing(2, 429))
    const request = new Request(url, { method: 'POST', body: 'body', headers: { 'x-mine': 'kept' } })
    await here.settle(here.client({ fetch })(request))
    expect(arrivals.map(({ body, headers }) => [body, headers.get('x-mine')])).toEqual(Array(3).fill(['body', 'kept']))
  })
})

test('events tell of waits, pauses, lessons and retries', async () => {
  const here = world()
  const { fetch } = here.serve(
    failing(1, 429, { 'retry-after': '1', 'x-ratelimit-limit': '10', 'x-ratelimit-remaining': '0' }),
  )
  const events: ClientEvent[] = []
  await here.settle(here.client({ fetch, onEvent: (event) => events.push(event) })(url))
  expect(events.map(({ type }) => type)).toEqual(['learnt', 'pause', 'retry', 'wait', 'go'])
  expect(events[1]).toMatchObject({ host: 'https://api.example', url, scope: 'policies' })
  expect(events[2]).toMatchObject({ attempt: { status: 429, outcome: 'refused' } })
})

test.each([
  [{ retries: -1 }, /"retries" is -1/],
  [{ retries: 1.5 }, /"retries" is 1.5/],
  [{ maxWaitMs: 'long' }, /"maxWaitMs" is "long"/],
  [{ deadlineMs: 0 }, /"deadlineMs" is 0/],
  [{ concurrency: 0 }, /"concurrency" is 0/],
  [{ dialect: 'githbu' }, /"dialect" is "githbu"; did you mean "github"\?/],
  [{ store: {} }, /"store" is an object: give redis\(client\)/],
  [{ onEvent: 1 }, /"onEvent" is 1/],
  [{ fetch: null }, /"fetch" is null/],
  [{ retrys: 3 }, /unknown option "retrys" in politeFetch\(\); did you mean "retries"\?/],
])('refuses %o', (options, message) => {
  expect(() => politeFetch(options as never)).toThrow(message)
})

test.each([
  [{ priority: 'urgent' }, /"priority" is "urgent"/],
  [{ weight: -1 }, /"weight" is -1/],
  [{ weight: { tokens: Number.NaN } }, /"weight" is NaN/],
  [{ deadlineMs: -5 }, /"deadlineMs" is -5/],
  [{ idempotencyKey: 'a b' }, /"idempotencyKey" is "a b"/],
])('refuses a call with %o', async (init, message) => {
  await expect(politeFetch()(url, init as never)).rejects.toThrow(message)
})
