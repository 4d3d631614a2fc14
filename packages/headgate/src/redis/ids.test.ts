import { beforeEach, describe, expect, test } from 'vitest'
import { canStartRedis } from '../../test/redis-server.ts'
import { patient, rig } from '../../test/redis-store.ts'
import { createGate } from '../index.ts'
import { type FakeClock, fakeClock } from '../testing/index.ts'
import type { RedisStore } from './index.ts'

describe.skipIf(!canStartRedis)('an id in two processes', () => {
  const own = rig()
  let clock: FakeClock
  let stores: [RedisStore, RedisStore]
  beforeEach(async () => {
    clock = fakeClock(Date.UTC(2026, 0, 1))
    stores = [await own.store(), await own.store({}, 'node-redis')]
  })
  const gateOn = (store: RedisStore) =>
    createGate({
      limits: {
        user: { limit: '10/min', by: (user: string) => user },
        uneven: { limit: '7/min', by: (user: string) => user },
        log: { limit: '20/min', algorithm: 'sliding-log' },
        plan: { limit: { free: '5/h strict', pro: '50/h' }, tier: (user) => (user === 'a' ? 'free' : 'pro') },
      },
      store,
      clock,
      ...patient,
    })
  const pair = () => [gateOn(stores[0]), gateOn(stores[1])] as const
  type Taken = Awaited<ReturnType<ReturnType<typeof gateOn>['take']>>
  const told = ({ ok, limit, violated, remaining, retryAfterMs, resetAfterMs, cost, degraded, limits }: Taken) => {
    return { ok, limit, violated, remaining, retryAfterMs, resetAfterMs, cost, degraded, limits }
  }
  const left = async (gate: ReturnType<typeof gateOn>, key = 'a') =>
    (await gate.peek(key)).limits.map(({ remaining }) => remaining)

  test('is told apart from another whatever its characters', async () => {
    const [one] = pair()
    await one.take('b', { id: 'order-\ud800' })
    expect((await one.take('c', { id: 'order-\ud801' })).limits[0]?.key).toBe('c')
    expect((await one.peek('c')).limits[0]?.remaining).toBe(9)
    expect((await one.take('c', { id: 'order-\ud800' })).limits[0]?.key).toBe('b')
  })

  test('gets the first decision again, later and whatever the repeat looks like, and is charged once', async () => {
    const [one, two] = pair()
    const first = await one.take('a', { cost: 2, id: 'x' })
    await one.take('a')
    clock.advance(1_000)
    expect(told(await two.take('a', { cost: 2, id: 'x' }))).toEqual(told(first))
    expect(told(await two.take('b', { id: 'x' }))).toEqual(told(first))
    expect(await left(two)).toEqual([7, 4, 17, 2])
    expect(await left(two, 'b')).toEqual([10, 7, 17, 47])
  })

  test('is charged once when both ask at the same time', async () => {
    const [one, two] = pair()
    const decisions = await Promise.all(
      Array.from({ length: 40 }, (_, i) => (i % 2 === 0 ? one : two).take('a', { id: `id-${i % 4}` })),
    )
    expect(decisions.every(({ ok }) => ok)).toBe(true)
    expect(await left(one)).toEqual([6, 3, 16, 1])
  })

  test('that was denied is judged anew', async () => {
    const [one, two] = pair()
    await one.take('a', { cost: 5 })
    expect((await one.take('a', { id: 'x' })).ok).toBe(false)
    clock.advance(7_200_000)
    expect((await two.take('a', { id: 'x' })).ok).toBe(true)
    expect(await left(two)).toEqual([9, 6, 19, 4])
  })

  test('that was refunded is forgotten: the next is charged', async () => {
    const [one, two] = pair()
    await (await one.take('a', { cost: 3, id: 'x' })).refund()
    expect(await left(two)).toEqual([10, 7, 20, 5])
    expect((await two.take('a', { id: 'x' })).remaining).toBe(4)
    expect(await left(one)).toEqual([9, 6, 19, 4])
  })

  test('is settled once, whichever process does it', async () => {
    const [one, two] = pair()
    const first = await one.take('a', { cost: 4, id: 'x' })
    const repeat = await two.take('a', { cost: 4, id: 'x' })
    await repeat.settle(1)
    await first.settle(2)
    await first.refund()
    expect(await left(one)).toEqual([9, 6, 19, 4])
    const again = await one.take('a', { id: 'x' })
    await again.refund()
    expect(told(again)).toEqual(told(first))
    expect(await left(two)).toEqual([9, 6, 19, 4])
  })

  test('is refunded once when both do it at the same time', async () => {
    const [one, two] = pair()
    await one.take('a')
    const [first, repeat] = [await one.take('a', { id: 'x' }), await two.take('a', { id: 'x' })]
    await Promise.all([first.refund(), repeat.refund()])
    expect(await left(one)).toEqual([9, 6, 19, 4])
  })

  test('ends after the longest window', async () => {
    const [one, two] = pair()
    const first = await one.take('a', { id: 'x' })
    clock.advance(3_599_999)
    expect(told(await two.take('a', { id: 'x' }))).toEqual(told(first))
    expect(await left(two)).toEqual([10, 7, 20, 4])
    clock.advance(1)
    await two.take('a', { id: 'x' })
    expect((await left(two)).slice(0, 3)).toEqual([9, 6, 19])
  })

  test('is kept no longer than that, by the clock of Redis', async () => {
    const gate = createGate({ limit: '2/10s', store: stores[0], ...patient })
    await gate.take('a', { id: 'x' })
    const [name = ''] = (await own.server.call('KEYS', '*:~:*')) as string[]
    const ttl = Number(await own.server.call('PTTL', name))
    expect(ttl).toBeGreaterThan(9_000)
    expect(ttl).toBeLessThanOrEqual(10_000)
    const repeat = await gate.take('a', { id: 'x' })
    await repeat.settle(0)
    expect(Number(await own.server.call('PTTL', name))).toBeLessThanOrEqual(ttl)
    expect((await gate.peek('a')).remaining).toBe(2)
  })

  test('says nothing to a gate with other limits', async () => {
    const [one] = pair()
    await one.take('a', { id: 'x' })
    const other = createGate({ limit: '5/min', store: stores[1], clock, ...patient })
    expect((await other.take('a', { id: 'x' })).remaining).toBe(4)
  })
})
