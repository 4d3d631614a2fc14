import { memory } from 'headgate'
import { type PoliteFetch, politeFetch } from 'headgate/client'
import { redis } from 'headgate/redis'
import { Redis } from 'ioredis'
import { describe, expect, onTestFinished, test } from 'vitest'
import { randomBy } from '../../test/random.ts'
import { startRedis } from '../../test/redis-server.ts'
import { dependsOn, ifStalled } from '../../test/stalls.ts'
import { until } from '../../test/until.ts'
import { peak, type World, world } from '../../test/virtual.ts'

const url = 'https://api.example/things'

/** One fixed window for all callers, told in whole seconds. */
function hundredASecond(here: World) {
  let [second, used] = [0, 0]
  return here.serve(() => {
    const now = Math.floor(here.clock.now() / 1000)
    if (now !== second) [second, used] = [now, 0]
    used++
    const headers = {
      ratelimit: `"all";r=${Math.max(0, 100 - used)};t=1`,
      'ratelimit-policy': '"all";q=100;w=1',
      ...(used > 100 && { 'retry-after': '1' }),
    }
    return new Response('', { status: used > 100 ? 429 : 200, headers })
  })
}

test('a thousand clients that share nothing but a limit of 100 a second come back as no herd', async () => {
  const here = world()
  const { fetch, arrivals } = hundredASecond(here)
  const random = randomBy(7)
  const clients = Array.from({ length: 1000 }, () => here.client({ fetch, random }))
  const answers = await here.settle(Promise.all(clients.map((polite) => polite(url))))
  expect(answers.every(({ status }) => status === 200)).toBe(true)
  // All of them come at once before anybody has told them anything; after the reset nobody does.
  const afterReset = arrivals.filter(({ atMs }) => atMs > 500)
  expect(peak(afterReset, 100)).toBeLessThanOrEqual(15)
  expect(afterReset.filter(({ status }) => status === 429).length).toBe(0)
})

test.each([
  ['Retry-After alone', { 'retry-after': '1' }],
  ['nothing at all', {}],
])('a thousand that are told %s lose no call, and come as no herd once they were refused twice', async (_, headers) => {
  const here = world()
  let [second, used] = [0, 0]
  const { fetch, arrivals } = here.serve(() => {
    const now = Math.floor(here.clock.now() / 1000)
    if (now !== second) [second, used] = [now, 0]
    return ++used > 100 ? new Response('', { status: 429, headers: headers as never }) : new Response('ok')
  })
  const random = randomBy(7)
  const clients = Array.from({ length: 1000 }, () => here.client({ fetch, random }))
  const answers = await here.settle(Promise.all(clients.map((polite) => polite(url))))
  expect(answers.every(({ status }) => status === 200)).toBe(true)
  expect(
    peak(
      arrivals.filter(({ atMs }) => atMs > 1_500),
      100,
    ),
  ).toBeLessThanOrEqual(15)
})

describe('clients that share a store', () => {
  test('a thousand of them behind one limit of 100 a second are no herd', async () => {
    const here = world()
    const { fetch, arrivals } = hundredASecond(here)
    const store = memory({ clock: here.clock })
    const clients = Array.from({ length: 1000 }, () => here.client({ fetch, store, limit: '100/s burst 5' }))
    const answers = await here.settle(Promise.all(clients.map((polite) => polite(url))))
    expect(answers.every(({ status }) => status === 200)).toBe(true)
    expect(peak(arrivals, 100)).toBeLessThanOrEqual(15)
    expect(arrivals.filter(({ status }) => status === 429).length).toBeLessThanOrEqual(10)
    expect(arrivals.at(-1)?.atMs).toBeLessThanOrEqual(11_500)
  })

  test('what one learns of a limit, all count together', async () => {
    const here = world()
    const { fetch, arrivals } = hundredASecond(here)
    const store = memory({ clock: here.clock })
    const clients = Array.from({ length: 10 }, () => here.client({ fetch, store }))
    const burst = (polite: PoliteFetch) => Array.from({ length: 60 }, () => polite(url))
    await here.settle(Promise.all(clients.flatMap(burst)))
    expect(arrivals.filter(({ status }) => status === 429).length).toBeLessThanOrEqual(10)
    expect(peak(arrivals.slice(20), 100)).toBeLessThanOrEqual(25)
  })

  test('a pause that one was asked for holds for all, and starts them one by one', async () => {
    const here = world()
    let isOpen = false
    const { fetch, arrivals } = here.serve(() =>
      isOpen ? new Response('ok') : new Response('', { status: 429, headers: { 'retry-after': '5' } }),
    )
    const store = memory({ clock: here.clock })
    const [first, ...others] = Array.from({ length: 50 }, () => here.client({ fetch, store }))
    const refused = (first as PoliteFetch)(url)
    await here.pass(50)
    isOpen = true
    await here.settle(Promise.all([refused, ...others.map((polite) => polite(url))]))
    expect(arrivals).toHaveLength(51)
    for (const { atMs } of arrivals.slice(1)) expect(atMs).toBeGreaterThanOrEqual(5_000)
  })

  test.each([
    ['a window of a hundred years', 1, 100 * 365 * 86_400_000],
    ['a window of two years', 1, 2 * 365 * 86_400_000],
    ['more than can be counted', Number.MAX_SAFE_INTEGER, 60_000],
    ['a window of next to nothing', 5, 0.001],
  ])('are not harmed by a server that tells %s', async (_, limit, windowMs) => {
    const here = world()
    const { fetch, arrivals } = here.serve(() => new Response('ok'))
    const dialect = () => ({ policies: [{ name: 'a', limit, windowMs, remaining: 5, source: 'vendor' as const }] })
    const polite = here.client({ fetch, store: memory({ clock: here.clock }), dialect })
    for (let call = 0; call < 3; call++) await here.settle(polite(url))
    expect(arrivals).toHaveLength(3)
  })

  test('in Redis: two clients keep to one limit of 20 a second', { retry: ifStalled }, async ({ onTestFailed }) => {
    const server = await startRedis()
    dependsOn(onTestFailed, server.pid)
    const connection = new Redis(server.url)
    onTestFinished(async () => {
      connection.disconnect()
      await server.stop()
    })
    const sentMs: number[] = []
    const fetch = async () => {
      sentMs.push(performance.now())
      return new Response('ok')
    }
    const prefix = `client-${process.pid}`
    const clients = [1, 2].map(() =>
      politeFetch({ limit: '20/s burst 2', store: redis(connection, { prefix }), fetch }),
    )
    const startMs = performance.now()
    await Promise.all(clients.flatMap((polite) => Array.from({ length: 15 }, () => polite(url))))
    expect(sentMs).toHaveLength(30)
    // Twenty a second after the first two: 28 units are 1.4 s. Sending lags behind deciding by what the machine takes, which
    // could make the time since the first one shorter, but not that since before it was decided.
    expect((sentMs.at(-1) ?? 0) - startMs).toBeGreaterThanOrEqual(1_390)
  })
})

describe('tabs', () => {
  const channels = (here: World) => {
    const open: { close(): void }[] = []
    onTestFinished(() => {
      for (const channel of open) channel.close()
    })
    return (fetch: never) => {
      const channel = new BroadcastChannel(`headgate-test-${process.pid}`)
      open.push(channel)
      return here.client({ fetch, channel })
    }
  }
  test('learn from each other what is left and when to pause', async () => {
    const here = world()
    let left = 10
    const { fetch, arrivals } = here.serve(() => {
      left--
      const headers = {
        'x-ratelimit-limit': '10',
        'x-ratelimit-remaining': `${Math.max(0, left)}`,
        'x-ratelimit-reset': '30',
      }
      return new Response('', { status: left < 0 ? 429 : 200, headers })
    })
    const open = channels(here)
    const [one, two] = [open(fetch as never), open(fetch as never)]
    await here.settle(Promise.all(Array.from({ length: 10 }, () => one(url))))
    await until('the news', () => two.state().hosts[0]?.budgets[0]?.left === 0 || undefined)
    expect(two.state().hosts[0]?.budgets[0]).toMatchObject({ limit: 10, left: 0 })
    left = 11
    await here.settle(two(url))
    expect(arrivals.filter(({ status }) => status === 429)).toHaveLength(0)
    expect(arrivals.at(-1)?.atMs).toBeGreaterThanOrEqual(29_000)
  })

  test('pause together', async () => {
    const here = world()
    let calls = 0
    const { fetch, arrivals } = here.serve(() =>
      calls++ === 0 ? new Response('', { status: 429, headers: { 'retry-after': '10' } }) : new Response('ok'),
    )
    const open = channels(here)
    const [one, two] = [open(fetch as never), open(fetch as never)]
    const first = one(url)
    await here.pass(100)
    await until('the news', () => (two.state().hosts[0]?.pausedForMs ?? 0) > 9_000 || undefined)
    await here.settle(Promise.all([first, two(url)]))
    for (const { atMs } of arrivals.slice(1)) expect(atMs).toBeGreaterThanOrEqual(10_000)
  })

  test('do not mind what others post to the channel', async () => {
    const here = world()
    const { fetch } = here.serve(() => new Response('ok'))
    const two = channels(here)(fetch as never)
    const stranger = new BroadcastChannel(`headgate-test-${process.pid}`)
    const odd = { from: 'x', host: 'https://api.example', route: '/things', pauseMs: -1, policies: [] }
    for (const message of [
      null,
      5,
      'text',
      {},
      odd,
      { ...odd, pauseMs: 0, policies: [null, { limit: 'x', source: 'ietf' }] },
    ])
      stranger.postMessage(message)
    // Messages arrive in order: the last one makes sense, and tells that all have been heard.
    stranger.postMessage({ ...odd, pauseMs: 5_000 })
    await until('the last one', () => (two.state().hosts[0]?.pausedForMs ?? 0) > 0 || undefined)
    stranger.close()
    expect((await here.settle(two(url))).status).toBe(200)
    expect(two.state().hosts[0]?.budgets).toEqual([])
  })
})
