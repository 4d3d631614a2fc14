import { createGate, memory } from 'headgate'
import { type PoliteFetch, politeFetch } from 'headgate/client'
import { headgate } from 'headgate/fetch'
import { describe, expect, test } from 'vitest'
import { type Handler, peak, type World, world } from '../../test/virtual.ts'

const url = 'https://api.example/things'

/** A server behind one of our limits, with the header fields that a test is about. */
function limited({ clock }: World, limit: unknown, headers: unknown = 'ietf'): Handler {
  const guard = headgate({ limit, headers, clock, by: () => 'all' } as never)
  return guard(async () => new Response('ok')) as Handler
}

/** A window that starts with its first call, as most middlewares count, told in the fields that they send. */
function windowed(
  { clock }: World,
  limit: number,
  windowMs: number,
  fields: (left: number, endMs: number) => Record<string, string>,
) {
  let [endMs, used] = [-Infinity, 0]
  return () => {
    if (clock.now() >= endMs) [endMs, used] = [clock.now() + windowMs, 0]
    used++
    const headers = new Headers(fields(Math.max(0, limit - used), endMs))
    headers.set('date', new Date(clock.now()).toUTCString())
    if (used > limit) headers.set('retry-after', String(Math.ceil((endMs - clock.now()) / 1000)))
    return new Response('', { status: used > limit ? 429 : 200, headers })
  }
}

const all = (count: number, polite: PoliteFetch, init = {}) =>
  Promise.all(Array.from({ length: count }, () => polite(url, init)))

describe('60 calls to a server that takes 10 a second', () => {
  const epoch = (limit: number) => (left: number, endMs: number) => ({
    'x-ratelimit-limit': `${limit}`,
    'x-ratelimit-remaining': `${left}`,
    'x-ratelimit-reset': `${Math.ceil(endMs / 1000)}`,
  })
  const servers: [string, (world: World) => Handler][] = [
    ['ours, in the current draft', (world) => limited(world, '10/s')],
    ['ours, in draft 7', (world) => limited(world, '10/s', 'draft-7')],
    ['ours, in draft 6', (world) => limited(world, '10/s', 'draft-6')],
    ['ours, with all fields', (world) => limited(world, '10/s', ['ietf', 'legacy'])],
    ['X-RateLimit with an epoch', (world) => windowed(world, 10, 1000, epoch(10))],
    [
      'X-RateLimit with seconds left',
      (world) =>
        windowed(world, 10, 1000, (left, endMs) => ({
          'x-ratelimit-limit': '10',
          'x-ratelimit-remaining': `${left}`,
          'x-ratelimit-reset': `${Math.ceil((endMs - world.clock.now()) / 1000)}`,
        })),
    ],
    [
      'X-Rate-Limit with a date',
      (world) =>
        windowed(world, 10, 1000, (left, endMs) => ({
          'x-rate-limit-limit': '10',
          'x-rate-limit-remaining': `${left}`,
          'x-rate-limit-reset': new Date(Math.ceil(endMs / 1000) * 1000).toUTCString(),
        })),
    ],
    [
      'X-RateLimit-Reset-After',
      (world) =>
        windowed(world, 10, 1000, (left, endMs) => ({
          'x-ratelimit-limit': '10',
          'x-ratelimit-remaining': `${left}`,
          'x-ratelimit-reset-after': `${(endMs - world.clock.now()) / 1000}`,
        })),
    ],
  ]
  test.each(servers)('fail never, are refused 3 times at most, and take 1.1 times the ideal: %s', async (_, make) => {
    const here = world()
    const { fetch, arrivals } = here.serve(make(here))
    const answers = await here.settle(all(60, here.client({ fetch })))
    expect(answers.every(({ status }) => status === 200)).toBe(true)
    expect(arrivals.filter(({ status }) => status === 429).length).toBeLessThanOrEqual(3)
    // The first ten at once, then ten a second.
    expect(arrivals.at(-1)?.atMs).toBeLessThanOrEqual(5_000 * 1.1)
    expect(here.timers()).toBe(0)
  })

  const counted = (algorithm: string) => ({ limit: 10, per: '1s', algorithm })
  test.each([
    ['a log', 'sliding-log', 'ietf', 6_000],
    ['a log, old fields', 'sliding-log', 'legacy', 6_000],
    ['a log, far away', 'sliding-log', 'ietf', 6_000, 60],
    ['strict', 'strict-window', 'ietf', 6_600],
    ['strict, draft 6', 'strict-window', 'draft-6', 6_600],
    ['strict, all fields', 'strict-window', ['ietf', 'legacy'], 6_600],
    ['strict, far away', 'strict-window', 'ietf', 6_600, 60],
    ['windows by the clock', 'fixed-window', 'ietf', 5_500],
    ['a bucket', 'token-bucket', 'ietf', 5_500],
  ] as [string, string, unknown, number, number?][])(
    'are not refused once, however it counts: %s',
    async (_, algorithm, headers, mostMs, roundTripMs = 4) => {
      const here = world()
      const { fetch, arrivals } = here.serve(limited(here, counted(algorithm), headers), roundTripMs)
      await here.settle(all(60, here.client({ fetch })))
      expect(arrivals.every(({ status }) => status === 200)).toBe(true)
      expect(arrivals.at(-1)?.atMs).toBeLessThanOrEqual(mostMs)
    },
  )

  test('are refused 3 times at most where it is strict and says so in old fields only, or counts by weights', async () => {
    for (const [algorithm, headers] of [
      ['strict-window', 'legacy'],
      ['sliding-window', 'ietf'],
    ] as const) {
      const here = world()
      const { fetch, arrivals } = here.serve(limited(here, counted(algorithm), headers))
      await here.settle(all(60, here.client({ fetch, random: () => 0.5 })))
      expect(arrivals.filter(({ status }) => status === 429).length).toBeLessThanOrEqual(3)
      expect(arrivals.at(-1)?.atMs).toBeLessThanOrEqual(12_000)
    }
  })

  test('that says of ten that none is left, but takes one every tenth of a second: none fails, and none is sent in vain', async () => {
    const here = world()
    const gate = createGate({ limit: '10/s burst 1', clock: here.clock })
    const { fetch, arrivals } = here.serve(() => {
      const { ok } = gate.take('all')
      const reset = `${Math.ceil((here.clock.now() + 100) / 1000)}`
      const headers = { 'x-ratelimit-limit': '10', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': reset }
      return new Response('', { status: ok ? 200 : 429, headers })
    })
    await here.settle(all(20, here.client({ fetch, random: () => 0.5 })))
    expect(arrivals.filter(({ status }) => status === 429).length).toBeLessThanOrEqual(3)
  })

  test.each([
    ['draft 6', 'draft-6'],
    ['the current draft', 'ietf'],
  ])('are not refused once where the first call takes longer, as over a new connection: %s', async (_, headers) => {
    const here = world()
    const { fetch: send, arrivals } = here.serve(
      limited(here, { limit: 10, per: '1s', algorithm: 'fixed-window', align: 'first-hit' }, headers),
    )
    let calls = 0
    const fetch: typeof send = async (input, init) => {
      if (calls++ === 0) await new Promise<void>((resolve) => void here.clock.after(80, resolve))
      return send(input, init)
    }
    await here.settle(all(60, here.client({ fetch })))
    expect(arrivals.every(({ status }) => status === 200)).toBe(true)
    expect(arrivals.at(-1)?.atMs).toBeLessThanOrEqual(5_500)
  })

  test('are spread: no second without a call', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(windowed(here, 10, 1000, epoch(10)))
    await here.settle(all(60, here.client({ fetch })))
    const gaps = arrivals.slice(1).map(({ atMs }, index) => atMs - (arrivals[index]?.atMs ?? 0))
    expect(Math.max(...gaps)).toBeLessThanOrEqual(300)
  })
})

describe('a limit that is given', () => {
  test('holds for a server that says nothing', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(() => new Response('ok'))
    await here.settle(all(40, here.client({ fetch, limit: '10/s burst 1' })))
    expect(peak(arrivals, 1000)).toBeLessThanOrEqual(10)
    expect(arrivals.at(-1)?.atMs).toBeLessThanOrEqual(3_950)
  })

  test('holds for each host by itself', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(() => new Response('ok'))
    const polite = here.client({ fetch, limit: '1/min' })
    await here.settle(
      Promise.all(['https://a.example', 'https://b.example', 'http://a.example'].map((to) => polite(to))),
    )
    expect(arrivals.at(-1)?.atMs).toBe(2)
  })

  test.each(['here', 'in a store'])(
    'lets a call that is heavier go when all of it is there, and others after it, counted %s',
    async (where) => {
      const here = world()
      const { fetch, arrivals } = here.serve(() => new Response('ok'))
      const store = where === 'here' ? {} : { store: memory({ clock: here.clock }) }
      const polite = here.client({ fetch, limit: '10/s', ...store })
      await here.settle(polite(url))
      await here.settle(Promise.all([polite(url, { weight: 25 }), polite(url), polite(url)]))
      expect(arrivals).toHaveLength(4)
      expect(arrivals[1]?.atMs).toBeGreaterThanOrEqual(100)
      expect(arrivals[2]?.atMs).toBeGreaterThanOrEqual(200)
      expect(arrivals.at(-1)?.atMs).toBeLessThanOrEqual(3_000)
    },
  )

  test('that lets nothing through is told at once', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(() => new Response('ok'))
    const polite = here.client({ fetch, limit: '0/s' })
    const startMs = here.clock.now()
    await expect(here.settle(polite(url))).rejects.toThrow(/HG_WAIT_TOO_LONG/)
    expect([arrivals.length, here.timers(), here.clock.now() - startMs]).toEqual([0, 0, 0])
  })

  test('is refused at construction when it makes no sense', () => {
    expect(() => politeFetch({ limit: '10 per s' as never })).toThrow(/HG_LIMIT_TEXT/)
  })
})

describe('a thousand that wait for one limit of 100 a second', () => {
  const shared = (here: World) =>
    windowed(here, 100, 1000, (left, endMs) => ({
      'x-ratelimit-limit': '100',
      'x-ratelimit-remaining': `${left}`,
      'x-ratelimit-reset': `${Math.ceil((endMs - here.clock.now()) / 1000)}`,
    }))

  test('as calls of one client never come as a herd', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(shared(here))
    await here.settle(all(1000, here.client({ fetch })))
    expect(peak(arrivals, 100)).toBeLessThanOrEqual(15)
    expect(arrivals).toHaveLength(1000)
  })

  test('come in order', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(shared(here))
    const polite = here.client({ fetch })
    await here.settle(Promise.all(Array.from({ length: 300 }, (_, index) => polite(`${url}?n=${index}`))))
    expect(arrivals.map((each) => Number(each.url.split('=')[1]))).toEqual(Array.from({ length: 300 }, (_, n) => n))
  })
})

describe('who goes first', () => {
  test('is decided by priority, then by arrival', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(limited(here, '1/s'))
    const polite = here.client({ fetch })
    const named = (name: string, priority?: 'critical' | 'high' | 'normal' | 'low') =>
      polite(`${url}?${name}`, { ...(priority && { priority }) })
    await here.settle(
      Promise.all([
        named('first'),
        named('low', 'low'),
        named('normal'),
        named('critical', 'critical'),
        named('normal-2'),
        named('high', 'high'),
      ]),
    )
    const order = arrivals.map((each) => each.url.split('?')[1])
    expect(order).toEqual(['critical', 'high', 'first', 'normal', 'normal-2', 'low'])
  })

  test('a call of ten times the weight takes ten times as much of the limit', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(() => new Response('ok'))
    const polite = here.client({ fetch, limit: '10/s' })
    await here.settle(Promise.all([polite(url, { weight: 10 }), polite(url, { weight: 10 }), polite(url)]))
    expect(arrivals.map(({ atMs }) => Math.round(atMs / 100))).toEqual([0, 10, 11])
  })

  test('no more are without an answer at a time than was said', async () => {
    const here = world()
    let [now, most] = [0, 0]
    const { fetch } = here.serve(async () => {
      most = Math.max(most, ++now)
      await new Promise<void>((resolve) => void here.clock.after(50, resolve))
      now--
      return new Response('ok')
    })
    await here.settle(all(30, here.client({ fetch, concurrency: 3 })))
    expect(most).toBe(3)
  })
})

describe('a dialect', () => {
  test('that is named is read where nothing gives it away', async () => {
    const here = world()
    const headers = { 'x-ratelimit-limit': '5', 'x-ratelimit-remaining': '4', 'x-ratelimit-reset-after': '9' }
    const { fetch } = here.serve(() => new Response('', { headers }))
    const found = async (dialect?: 'discord') => {
      const polite = here.client({ fetch, ...(dialect && { dialect }) })
      await here.settle(polite('https://api.example/api/v10/channels/123456789012345678/messages'))
      return polite.state().hosts[0]?.budgets[0]?.name
    }
    expect([await found(), await found('discord')]).toEqual(['5', ' channels/123456789012345678'])
  })

  test('of your own is obeyed: its limits, its refusals, and whom they concern', async () => {
    const here = world()
    let calls = 0
    const { fetch, arrivals } = here.serve(
      () => new Response('', { status: calls++ === 0 ? 420 : 200, headers: { 'x-calls-left': '3' } }),
    )
    const polite = here.client({
      fetch,
      dialect: ({ status, header }) => ({
        refused: status === 420,
        ...(status === 420 && { retryAfterMs: 7_000 }),
        policies: [
          { name: 'calls', limit: 4, remaining: Number(header('x-calls-left')), windowMs: 1000, source: 'vendor' },
        ],
      }),
    })
    await here.settle(polite(url, { method: 'POST' }))
    expect(arrivals.at(-1)?.atMs).toBeGreaterThanOrEqual(7_000)
    expect(polite.state().hosts[0]?.budgets).toMatchObject([{ name: 'calls', limit: 4, left: 3 }])
  })
})

describe('limits of one host', () => {
  test('are apart where the server says so: who waits for one does not hold up another', async () => {
    const here = world()
    const left: Record<string, number> = { search: 1, core: 1000 }
    const { fetch, arrivals } = here.serve((request) => {
      const resource = new URL(request.url).pathname.startsWith('/search') ? 'search' : 'core'
      const remaining = (left[resource] ?? 0) - 1
      left[resource] = remaining
      const headers = {
        'x-ratelimit-limit': resource === 'search' ? '1' : '1000',
        'x-ratelimit-remaining': `${Math.max(0, remaining)}`,
        'x-ratelimit-reset': '30',
        'x-ratelimit-resource': resource,
      }
      return new Response('', { status: remaining < 0 ? 429 : 200, headers })
    })
    const polite = here.client({ fetch })
    await here.settle(polite('https://api.example/search/a'))
    await here.settle(polite('https://api.example/core/a'))
    const slow = polite('https://api.example/search/b').catch((error) => error.code)
    await here.settle(Promise.all([1, 2, 3].map(() => polite('https://api.example/core/b'))))
    expect(arrivals.at(-1)?.atMs).toBeLessThan(200)
    left.search = 1
    expect(await here.settle(slow)).toMatchObject({ status: 200 })
    expect(arrivals.at(-1)?.atMs).toBeGreaterThanOrEqual(30_000)
  })

  test('are apart where the server names whose they are: what one has used up, another has not', async () => {
    const here = world()
    const { fetch } = here.serve(({ headers }) => {
      const who = headers.get('authorization') ?? ''
      const left = who === 'anna' ? 0 : 9
      return new Response('', {
        headers: { ratelimit: `"user";r=${left};t=30;pk=:${btoa(who)}:`, 'ratelimit-policy': '"user";q=10;w=60' },
      })
    })
    const polite = here.client({ fetch })
    for (const authorization of ['anna', 'berta', 'berta'])
      await here.settle(polite(url, { headers: { authorization } }))
    expect(here.clock.now() - Date.UTC(2026, 1, 3, 4, 5, 6, 789)).toBeLessThan(100)
    const lefts = polite.state().hosts[0]?.budgets.map(({ left }) => left)
    expect(lefts).toEqual([0, 9])
  })

  test('are known on a route that was never called, also where callers are counted apart', async () => {
    const here = world()
    const fields = (left: number) => ({
      ratelimit: `"user";r=${left};t=1;pk=:YQ==:`,
      'ratelimit-policy': '"user";q=10;w=1',
    })
    const { fetch, arrivals } = here.serve(windowed(here, 10, 1000, fields))
    const polite = here.client({ fetch })
    for (let call = 0; call < 8; call++) await here.settle(polite('https://api.example/a/b'))
    await here.settle(Promise.all(Array.from({ length: 8 }, () => polite('https://api.example/c/d'))))
    expect(arrivals.every(({ status }) => status === 200)).toBe(true)
  })

  test('are told by state()', async () => {
    const here = world()
    const { fetch } = here.serve(limited(here, '10/s'))
    const polite = here.client({ fetch })
    await here.settle(polite(url))
    expect(polite.state()).toEqual({
      hosts: [
        {
          host: 'https://api.example',
          waiting: 0,
          underWay: 0,
          pausedForMs: 0,
          budgets: [
            {
              name: 'default',
              unit: 'requests',
              limit: 10,
              windowMs: 1000,
              left: 9,
              resetAfterMs: expect.closeTo(1000, -2),
              pausedForMs: 0,
            },
          ],
        },
      ],
    })
  })
})

test('calls under way count as used: a server far away is not sent more than it has', async () => {
  const here = world()
  const { fetch, arrivals } = here.serve(
    windowed(here, 10, 1000, (left, endMs) => ({
      'x-ratelimit-limit': '10',
      'x-ratelimit-remaining': `${left}`,
      'x-ratelimit-reset-after': `${(endMs - here.clock.now()) / 1000}`,
    })),
    400,
  )
  await here.settle(all(40, here.client({ fetch })))
  expect(arrivals.filter(({ status }) => status === 429).length).toBeLessThanOrEqual(3)
})
