import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { canStartRedis } from '../../test/redis-server.ts'
import { patient, rig } from '../../test/redis-store.ts'
import { stopwatch } from '../../test/stalls.ts'
import { until } from '../../test/until.ts'
import { startWorker, type Worker } from '../../test/workers.ts'
import { createGate } from '../index.ts'
import { fakeClock } from '../testing/index.ts'

describe.skipIf(!canStartRedis)('slots of several processes', () => {
  const own = rig()
  let worker: Worker
  beforeAll(async () => {
    worker = await startWorker()
  }, 60_000)
  afterAll(() => worker?.kill())

  const pair = async (options: object) => {
    const stores = [await own.store(), await own.store({}, 'node-redis')]
    const [one, two] = stores.map((store) => createGate({ atOnce: 2, store, ...options, ...patient }))
    if (one === undefined || two === undefined) throw new Error('no gates')
    return [one, two] as const
  }

  test('are counted together, and free once released, by whoever holds them', async () => {
    const [one, two] = await pair({ clock: fakeClock(1e12) })
    const [first, second] = [await one.take('a'), await two.take('a')]
    expect([first.remaining, second.remaining]).toEqual([1, 0])
    const refused = await one.take('a')
    expect([refused.ok, refused.violated]).toEqual([false, ['default']])
    expect(refused.retryAfterMs).toBeGreaterThan(0)
    await first.release()
    await first.release()
    expect((await two.peek('a')).remaining).toBe(1)
    expect((await two.take('a', { cost: 2 })).ok).toBe(false)
    expect((await two.take('a')).ok).toBe(true)
    expect((await one.take('b', { cost: 2 })).ok).toBe(true)
  })

  test('come back after the hold time, each by itself', async () => {
    const clock = fakeClock(1e12)
    const [one, two] = await pair({ clock, holdMs: 10_000 })
    await one.take('a')
    clock.advance(4_000)
    await two.take('a')
    clock.advance(5_999.999)
    expect((await one.take('a')).ok).toBe(false)
    clock.advance(0.001)
    expect((await one.peek('a')).remaining).toBe(1)
    clock.advance(4_000)
    expect((await one.take('a', { cost: 2 })).ok).toBe(true)
  })

  test('stay with a request that runs for many hold times, and are free once it ends', async () => {
    const [one, two] = await pair({ holdMs: 250 })
    const held = await one.take('a', { cost: 2 })
    const start = performance.now()
    await until('four hold times', async () => {
      expect((await two.peek('a')).remaining).toBe(0)
      return performance.now() - start > 1_000 || undefined
    })
    await held.release()
    const next = await two.take('a', { cost: 2 })
    expect(next.ok).toBe(true)
    await next.release()
  })

  test('are renewed by nobody once released', async () => {
    const [one] = await pair({ holdMs: 60 })
    const held = await Promise.all([one.take('a'), one.take('b')])
    await Promise.all(held.map((decision) => decision.release()))
    await until('the keys to end', async () => ((await own.server.call('DBSIZE')) === 0 ? true : undefined))
    const start = performance.now()
    const made = await own.calls(() => until('three hold times', () => performance.now() - start > 180 || undefined))
    expect(made).toEqual({})
  })

  test('come back within the hold time when their holder is killed', async () => {
    const HOLD_MS = 500
    const limits = { busy: { atOnce: 2, holdMs: HOLD_MS } }
    const { port } = own.server
    const requests = [{ cost: '1' }, { cost: '1' }]
    const taken = await worker.work({ port, limits, inFlight: 2, requests })
    expect(taken.map(({ ok }) => ok)).toEqual([true, true])
    const gate = createGate({ limits, store: await own.store(), ...patient })
    const start = performance.now()
    await until('two hold times', async () => {
      expect((await gate.peek({})).remaining).toBe(0)
      return performance.now() - start > 2 * HOLD_MS || undefined
    })
    await worker.kill()
    const sinceKilledMs = stopwatch()
    await until('the slots', async () => (await gate.take({}, { cost: 2 })).ok || undefined)
    expect(sinceKilledMs()).toBeLessThan(HOLD_MS + 300)
  })

  test('count the same as before when one is renewed after a reset', async () => {
    const [one, two] = await pair({ holdMs: 120 })
    const held = await one.take('a', { cost: 2 })
    await two.reset('a')
    const start = performance.now()
    await until('two renewals', () => performance.now() - start > 120 || undefined)
    expect((await two.peek('a')).remaining).toBe(2)
    const next = await two.take('a')
    await held.release()
    expect((await one.peek('a')).remaining).toBe(1)
    await next.release()
  })
})
