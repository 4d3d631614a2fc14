import { beforeEach, describe, expect, test } from 'vitest'
import { canStartRedis } from '../../test/redis-server.ts'
import { patient, rig } from '../../test/redis-store.ts'
import { until } from '../../test/until.ts'
import { createGate, memory } from '../index.ts'
import { type FakeClock, fakeClock } from '../testing/index.ts'
import type { RedisStore } from './index.ts'

describe.skipIf(!canStartRedis)('a gate on Redis', () => {
  const own = rig()
  let clock: FakeClock
  let store: RedisStore
  beforeEach(async () => {
    clock = fakeClock(Date.UTC(2026, 0, 1))
    store = await own.store()
  })

  test('lets those who wait through in order of arrival, each as soon as it fits', async () => {
    const gate = createGate({ limit: '1/s burst 1', store, clock, ...patient })
    await gate.take('a')
    const done: string[] = []
    const waits = ['first', 'second', 'third'].map((name) =>
      gate.wait('a').then(({ ok }) => done.push(`${name} ${ok} at ${clock.now() % 60_000}`)),
    )
    // Answers come in order: by now all stand in line, and nobody gets past them.
    await gate.peek('b')
    expect((await gate.take('a')).ok).toBe(false)
    for (const count of [1, 2, 3]) {
      clock.advance(1_000)
      await until('the next', () => done.length === count || undefined)
    }
    await Promise.all(waits)
    expect(done).toEqual(['first true at 1000', 'second true at 2000', 'third true at 3000'])
  })

  test('refuses a wait that is too long at once, and lets go of one that is aborted without a trace', async () => {
    const gate = createGate({ limit: '1/min', store, clock, ...patient })
    await gate.take('a')
    expect((await gate.wait('a', { maxMs: 5_000 })).ok).toBe(false)
    const controller = new AbortController()
    const waiting = gate.wait('a', { signal: controller.signal })
    controller.abort(new Error('gone'))
    await expect(waiting).rejects.toThrow('gone')
    clock.advance(60_000)
    expect((await gate.take('a')).ok).toBe(true)
  })

  test('gives a key another limit for a time, and what it has used stays used', async () => {
    const gate = createGate({ limit: '2/min', store, clock, ...patient })
    await gate.take('a', { cost: 2 })
    gate.override('a', '10/min', 3_000)
    expect((await gate.take('a')).remaining).toBe(7)
    clock.advance(3_000)
    expect((await gate.take('a')).ok).toBe(false)
    expect((await gate.take('b')).remaining).toBe(1)
  })

  test('judges by tier, and keeps the count when somebody changes tier', async () => {
    const gate = createGate({
      limits: {
        plan: {
          limit: { free: '3/min', pro: '30/min', all: 'unlimited' },
          tier: (request: { plan: string }) => request.plan,
          by: () => 'somebody',
        },
      },
      store,
      clock,
      ...patient,
    })
    await gate.take({ plan: 'free' }, { cost: 3 })
    expect((await gate.take({ plan: 'free' })).ok).toBe(false)
    expect((await gate.take({ plan: 'pro' })).remaining).toBe(26)
    expect((await gate.take({ plan: 'all' })).ok).toBe(true)
  })

  test('watches without refusing, and leaves out what is off or does not concern the request', async () => {
    const gate = createGate({
      limits: {
        hard: { limit: '10/min' },
        watched: { limit: '1/min', mode: 'observe' },
        off: { limit: '1/min', mode: 'off' },
        exports: { limit: '1/min', when: (path: string) => path === '/export' },
      },
      store,
      clock,
      ...patient,
    })
    await gate.take('/')
    const second = await gate.take('/')
    expect([second.ok, second.violated, second.limits.map(({ name, ok }) => [name, ok])]).toEqual([
      true,
      [],
      [
        ['hard', true],
        ['watched', false],
      ],
    ])
    expect((await gate.take('/export')).ok).toBe(true)
    expect((await gate.take('/export')).violated).toEqual(['exports'])
    expect((await gate.peek('/')).limits[0]?.remaining).toBe(7)
  })

  test('keeps nobody out who goes to and fro between two limits, as in memory', async () => {
    const plan = { limit: { read: '60/min', write: '70/min' }, tier: (kind: 'read' | 'write') => kind }
    const stores = [memory({ clock }), await own.store({ quickDeny: false })]
    const gates = stores.map((each) => createGate({ limits: { plan }, store: each, clock, ...patient }))
    const told: unknown[][] = [[], []]
    let admitted = 0
    for (let i = 0; i < 400; i++) {
      if (i >= 150) clock.advance(250)
      for (const [n, gate] of gates.entries()) {
        const { ok, remaining, retryAfterMs } = await gate.take(i % 2 ? 'read' : 'write')
        told[n]?.push([ok, remaining, retryAfterMs])
        if (ok && n === 1 && i >= 150) admitted++
      }
    }
    expect(told[1]).toEqual(told[0])
    expect(admitted).toBeGreaterThanOrEqual(60)
  })

  test('gives all that is asked for where no limit applies, as in memory', async () => {
    const limits = { writes: { limit: '10/min', when: (method: string) => method !== 'GET' } }
    const gates = [createGate({ limits }), createGate({ limits, store, clock, ...patient })]
    for (const gate of gates) expect((await gate.take('GET', { upTo: 100 })).cost).toBe(100)
  })

  test('takes as many as fit in all limits, and says how many', async () => {
    const gate = createGate({
      limits: { ten: { limit: '10/min' }, four: { limit: '4/min strict' }, own: { limit: '9/min', cost: () => 2 } },
      store,
      clock,
      ...patient,
    })
    const first = await gate.take({}, { upTo: 7 })
    expect([first.ok, first.cost, first.limits.map(({ remaining }) => remaining)]).toEqual([true, 4, [6, 0, 7]])
    const second = await gate.take({}, { upTo: 7 })
    expect([second.ok, second.violated]).toEqual([false, ['four']])
    await first.settle(1)
    expect((await gate.take({}, { upTo: 7 })).cost).toBe(3)
  })

  test('settles below and above what was taken, once', async () => {
    const gate = createGate({ limit: '10/min', store, clock, ...patient })
    const first = await gate.take('a', { cost: 5 })
    await first.settle(2)
    await first.settle(0)
    await first.refund()
    expect((await gate.peek('a')).remaining).toBe(8)
    const second = await gate.take('a')
    await second.settle(20)
    const refused = await gate.take('a')
    expect([refused.ok, refused.retryAfterMs]).toEqual([false, 78_000])
    clock.advance(78_000)
    expect((await gate.take('a')).ok).toBe(true)
  })

  test('blocks a key, lifts that, and forgets on reset: all seen by another process', async () => {
    const gate = createGate({ limit: '10/min', store, clock, ...patient })
    const other = createGate({ limit: '10/min', store: await own.store({}, 'glide'), clock, ...patient })
    await gate.take('a', { cost: 10 })
    await gate.block('a', 90_000)
    expect((await other.take('a')).retryAfterMs).toBe(90_000)
    await gate.reset('a')
    expect((await other.take('a', { cost: 10 })).ok).toBe(true)
    await other.block('b', 90_000)
    expect((await gate.take('b')).ok).toBe(false)
    await other.block('b', 0)
    expect((await gate.take('b')).remaining).toBe(9)
  })

  test('gives nothing back of what a reset has forgotten, also when another process made it', async () => {
    const [gate, other] = [store, await own.store()].map((each) =>
      createGate({ limit: '10/min', store: each, clock, ...patient }),
    )
    const before = await gate?.take('a', { cost: 6 })
    await other?.reset('a')
    await other?.take('a', { cost: 4 })
    await before?.refund()
    expect((await gate?.peek('a'))?.remaining).toBe(6)
  })

  test('tells the time of Redis: processes whose clocks differ agree', async () => {
    const gate = createGate({ limit: '2/day', store, ...patient })
    const { resetAfterMs } = await gate.take('a')
    expect(resetAfterMs).toBe(43_200_000)
    const refused = await gate.take('a', { cost: 2 })
    expect(refused.retryAfterMs).toBeLessThanOrEqual(43_200_000)
    expect(refused.retryAfterMs).toBeGreaterThan(43_199_000)
  })
})
