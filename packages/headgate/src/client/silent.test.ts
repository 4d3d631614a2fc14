import { createGate } from 'headgate'
import { describe, expect, test } from 'vitest'
import { type Handler, peak, type World, world } from '../../test/virtual.ts'

const url = 'https://api.example/things'

interface Verdict {
  readonly ok: boolean
  readonly waitMs: number
}
type Judge = (nowMs: number) => Verdict

/** From the first call on, as most middlewares count. */
function firstHit(limit: number, windowMs: number): Judge {
  let [endMs, used] = [-Infinity, 0]
  return (nowMs) => {
    if (nowMs >= endMs) [endMs, used] = [nowMs + windowMs, 0]
    used++
    return { ok: used <= limit, waitMs: endMs - nowMs }
  }
}

/** By the wall clock. */
function byTheClock(limit: number, windowMs: number): Judge {
  let [window, used] = [0, 0]
  return (nowMs) => {
    const current = Math.floor(nowMs / windowMs)
    if (current !== window) [window, used] = [current, 0]
    used++
    return { ok: used <= limit, waitMs: (current + 1) * windowMs - nowMs }
  }
}

function ours(here: World, limit: object): Judge {
  const gate = createGate({ limit, clock: here.clock } as never)
  return () => {
    const { ok, retryAfterMs } = gate.take('all' as never) as { ok: boolean; retryAfterMs: number }
    return { ok, waitMs: retryAfterMs }
  }
}

type Fields = (waitMs: number) => Record<string, string>
const nothing: Fields = () => ({})
const wholeSeconds: Fields = (waitMs) => ({ 'retry-after': `${Math.max(1, Math.ceil(waitMs / 1000))}` })
const milliseconds: Fields = (waitMs) => ({ 'retry-after-ms': `${Math.ceil(waitMs)}` })

/** Says nothing but 429, and with it what is told there. */
function refusing(here: World, judge: Judge, told: Fields): Handler {
  return () => {
    const { ok, waitMs } = judge(here.clock.now())
    return ok ? new Response('ok') : new Response('', { status: 429, headers: told(waitMs) })
  }
}

async function sixty(judge: (here: World) => Judge, told = nothing, roundTripMs = 4) {
  const here = world()
  const { fetch, arrivals } = here.serve(refusing(here, judge(here), told), roundTripMs)
  const polite = here.client({ fetch, random: () => 0.5 })
  const answers = await here.settle(Promise.all(Array.from({ length: 60 }, () => polite(url))))
  expect(answers.every(({ status }) => status === 200)).toBe(true)
  expect(here.timers()).toBe(0)
  const refused = arrivals.filter(({ status }) => status === 429).length
  return { refused, tookMs: arrivals.at(-1)?.atMs as number, polite, arrivals }
}

describe('60 calls to a server that takes 10 a second and only ever refuses', () => {
  test.each([
    ['a window from the first call on, without a word', () => firstHit(10, 1000), nothing, 4],
    ['a window from the first call on, Retry-After', () => firstHit(10, 1000), wholeSeconds, 4],
    ['a window from the first call on, retry-after-ms', () => firstHit(10, 1000), milliseconds, 4],
    ['a window from the first call on, far away', () => firstHit(10, 1000), nothing, 60],
    ['a bucket, without a word', (here: World) => ours(here, { limit: 10, per: '1s' }), nothing, 4],
    ['a bucket, Retry-After', (here: World) => ours(here, { limit: 10, per: '1s' }), wholeSeconds, 4],
  ] as const)('are refused 3 times at most and take 1.1 times the ideal: %s', async (_, judge, told, roundTripMs) => {
    const { refused, tookMs } = await sixty(judge, told, roundTripMs)
    expect(refused).toBeLessThanOrEqual(3)
    expect(tookMs).toBeLessThanOrEqual(5_500)
  })

  test('are refused 3 times at most and take 1.1 times the ideal where some calls take longer than others', async () => {
    const here = world()
    const { fetch: send, arrivals } = here.serve(refusing(here, firstHit(10, 1000), nothing))
    let calls = 0
    const fetch: typeof send = async (input, init) => {
      // The first ones of the second and the fourth window, after ten and two that are refused.
      const delayMs = [12, 32].includes(calls++) ? 60 : 0
      await new Promise<void>((resolve) => void here.clock.after(delayMs, resolve))
      return send(input, init)
    }
    const polite = here.client({ fetch, random: () => 0.5 })
    await here.settle(Promise.all(Array.from({ length: 60 }, () => polite(url))))
    expect(arrivals.filter(({ status }) => status === 429).length).toBeLessThanOrEqual(3)
    expect(arrivals.at(-1)?.atMs).toBeLessThanOrEqual(5_500)
  })

  test.each([
    ['windows by the clock', () => byTheClock(10, 1000), 3, 6_500],
    ['a log', (here: World) => ours(here, { limit: 10, per: '1s', algorithm: 'sliding-log' }), 3, 6_500],
    [
      'a weighted counter',
      (here: World) => ours(here, { limit: 10, per: '1s', algorithm: 'sliding-window' }),
      4,
      7_500,
    ],
    ['ours, strict', (here: World) => ours(here, { limit: 10, per: '1s', algorithm: 'strict-window' }), 4, 7_500],
    ['a bucket without room', (here: World) => ours(here, { limit: 10, per: '1s', burst: 1 }), 5, 10_000],
    ['a bucket with little room', (here: World) => ours(here, { limit: 10, per: '1s', burst: 3 }), 5, 10_000],
  ] as const)('cost little more where it counts in another way: %s', async (_, judge, most, ms) => {
    const { refused, tookMs } = await sixty(judge)
    expect(refused).toBeLessThanOrEqual(most)
    expect(tookMs).toBeLessThanOrEqual(ms)
  })
})

describe('a limit that was found out', () => {
  test('of a hundred a minute: few ask in between, and it is used in full', async () => {
    const here = world()
    const { fetch, arrivals } = here.serve(refusing(here, firstHit(100, 60_000), nothing))
    const polite = here.client({ fetch, maxWaitMs: 600_000, retries: 20, random: () => 0.5 })
    await here.settle(Promise.all(Array.from({ length: 300 }, () => polite(url))))
    const afterwards = arrivals.filter(({ atMs }) => atMs > 500)
    expect(afterwards.filter(({ status }) => status === 429).length).toBeLessThanOrEqual(12)
    expect(arrivals.at(-1)?.atMs).toBeLessThanOrEqual(200_000)
    expect(polite.state().hosts[0]?.perSecond).toBeCloseTo(100 / 60, 0)
  })

  test('is exceeded a little after a while, and so grows with the server', async () => {
    const here = world()
    const limits = [firstHit(10, 1000), firstHit(40, 1000)]
    let at = 0
    const { fetch, arrivals } = here.serve((request) => refusing(here, limits[at] as Judge, nothing)(request))
    const polite = here.client({ fetch, maxWaitMs: 600_000, retries: 20, random: () => 0.5 })
    const calls = Array.from({ length: 1_000 }, () => polite(url))
    await here.pass(5_000)
    const before = peak(arrivals.slice(20), 1_000)
    at = 1
    await here.settle(Promise.all(calls))
    expect(before).toBeLessThanOrEqual(11)
    // At ten a second a thousand calls would be a hundred seconds.
    expect(arrivals.at(-1)?.atMs).toBeLessThanOrEqual(50_000)
  })

  test('is forgotten when nothing was refused for two minutes', async () => {
    const { polite } = await (async () => {
      const here = world()
      let isStrict = true
      const judge = firstHit(10, 1000)
      const { fetch } = here.serve((request) =>
        isStrict ? refusing(here, judge, nothing)(request) : new Response('ok'),
      )
      const polite = here.client({ fetch, random: () => 0.5 })
      await here.settle(Promise.all(Array.from({ length: 20 }, () => polite(url))))
      expect(polite.state().hosts[0]?.perSecond).toBeCloseTo(10, 0)
      isStrict = false
      await here.pass(121_000)
      return { polite }
    })()
    expect(polite.state().hosts[0]?.perSecond).toBeUndefined()
  })

  test('of one route does not hold up the others', async () => {
    const here = world()
    const judge = firstHit(10, 1000)
    const { fetch, arrivals } = here.serve(({ url: to }) => {
      const isOver = to.includes('/charges') && !judge(here.clock.now()).ok
      const headers = {
        'stripe-version': '2026-01-01',
        ...(isOver && { 'stripe-rate-limited-reason': 'endpoint-rate' }),
      }
      return new Response('', { status: isOver ? 429 : 200, headers })
    })
    const polite = here.client({ fetch, random: () => 0.5 })
    const charges = Array.from({ length: 60 }, () => polite('https://api.example/v1/charges'))
    await here.pass(1_500)
    await here.settle(Promise.all(Array.from({ length: 100 }, () => polite('https://api.example/v1/customers'))))
    expect(here.clock.now() - Date.UTC(2026, 1, 3, 4, 5, 6, 789)).toBeLessThanOrEqual(1_700)
    await here.settle(Promise.all(charges))
    expect(arrivals.filter(({ status }) => status === 429).length).toBeLessThanOrEqual(3)
    expect(arrivals.at(-1)?.atMs).toBeLessThanOrEqual(5_500)
  })
})

test.each([
  ['for half an hour by its word', { 'retry-after': '1800' }, 1_800_000, 8],
  ['for half a minute without a word', {}, 30_000, 3],
])('a server that refuses after a few calls %s is not starved when that is over', async (_, headers, closedMs, few) => {
  const here = world()
  let calls = 0
  const startMs = here.clock.now()
  const isClosed = () => calls++ >= few && here.clock.now() < startMs + closedMs
  const { fetch, arrivals } = here.serve(() =>
    isClosed() ? new Response('', { status: 429, headers: headers as never }) : new Response('ok'),
  )
  const polite = here.client({ fetch, maxWaitMs: 4_000_000, retries: 20, random: () => 0.5 })
  await here.settle(Promise.all(Array.from({ length: 60 }, () => polite(url))))
  expect(arrivals.filter(({ status }) => status === 429).length).toBeLessThanOrEqual(12)
  expect(arrivals.at(-1)?.atMs).toBeLessThanOrEqual(closedMs * 1.1 + 20_000)
  // Those who have waited do not all come at once then.
  const again = arrivals.filter(({ atMs, status }) => atMs > 1_000 && status === 200)
  expect(again.filter(({ atMs }) => atMs <= (again[0]?.atMs ?? 0) + 200).length).toBeLessThanOrEqual(5)
})

test('a server that took nothing yet and refuses is asked less and less often', async () => {
  const here = world()
  const { fetch, arrivals } = here.serve(() => new Response('', { status: 429 }))
  const polite = here.client({ fetch, retries: 6, maxWaitMs: 600_000, random: () => 0.5 })
  await here.settle(polite(url).catch(() => {}))
  const gaps = arrivals.slice(1).map(({ atMs }, index) => atMs - (arrivals[index]?.atMs ?? 0))
  expect(gaps).toHaveLength(6)
  for (const [index, gap] of gaps.slice(1).entries()) expect(gap).toBeGreaterThan(gaps[index] ?? 0)
})

test('a server that takes thousands a second and refuses once is not slowed down to hundreds', async () => {
  const here = world()
  let isRefusing = false
  const { fetch } = here.serve(() => new Response('', { status: isRefusing ? 429 : 200 }))
  const polite = here.client({ fetch, random: () => 0.5 })
  for (let wave = 0; wave < 10; wave++) await here.settle(Promise.all(Array.from({ length: 400 }, () => polite(url))))
  isRefusing = true
  const refused = polite(url)
  await here.pass(2)
  isRefusing = false
  await here.settle(refused)
  expect(polite.state().hosts[0]?.perSecond).toBeGreaterThanOrEqual(3_500)
})
