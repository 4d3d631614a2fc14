import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { canStartRedis, type OwnRedis, startRedis } from '../../test/redis-server.ts'
import { until } from '../../test/until.ts'
import { createGate } from '../index.ts'
import { type LayeredRedisStore, redis } from './index.ts'

const LIMIT = 100
const SYNC_MS = 50

describe.skipIf(!canStartRedis)('processes that decide at once and tell each other', () => {
  let server: OwnRedis
  const endings: (() => unknown)[] = []
  beforeAll(async () => {
    server = await startRedis()
  })
  afterEach(async () => {
    for (const end of endings.splice(0).reverse()) await end()
  })
  afterAll(() => server?.stop())

  function processOf(prefix: string) {
    const client = new Redis(server.url, { retryStrategy: () => 20, maxRetriesPerRequest: 0 })
    client.on('error', () => {})
    const store = redis(client, { sync: { syncMs: SYNC_MS }, prefix })
    endings.push(async () => {
      await store.close()
      client.disconnect()
    })
    const gate = createGate({ limit: { limit: LIMIT, per: '1year', algorithm: 'fixed-window' }, store })
    const take = (times: number) => {
      let passed = 0
      for (let i = 0; i < times; i++) {
        const decision = gate.take('k')
        if (decision instanceof Promise) throw new Error('it took its time')
        if (decision.ok) passed++
      }
      return passed
    }
    const left = () => (gate.peek('k') as { remaining: number }).remaining
    return { gate, store, client, take, left }
  }

  /** Until a process has heard all that the others had told by now, several times. */
  async function rounds(store: LayeredRedisStore, count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      const startMs = performance.now()
      await until('a round', () => (performance.now() - store.lagMs > startMs ? true : undefined))
    }
  }

  const same = (expected: number, ask: () => number) =>
    until(`${expected}`, () => (ask() === expected ? true : undefined))

  test('count what passed in all of them, once, and then let through no more than the limit', async () => {
    const all = [processOf('all'), processOf('all'), processOf('all')]
    for (const each of all) expect(each.take(20)).toBe(20)
    for (const each of all) await same(LIMIT - 60, each.left)
    for (const each of all) await rounds(each.store, 4)
    for (const each of all) expect(each.left()).toBe(LIMIT - 60)
    expect(all[0]?.take(50)).toBe(40)
    for (const each of all) await same(0, each.left)
    for (const each of all) expect(each.take(10)).toBe(0)
  })

  test('let through each the limit, at most, before they have heard of each other', async () => {
    const all = [processOf('most'), processOf('most'), processOf('most')]
    const passed = all.map((each) => each.take(200))
    expect(passed).toEqual([LIMIT, LIMIT, LIMIT])
    for (const each of all) await until('it to be told', () => (each.take(1) === 0 ? true : undefined))
  })

  test('go on while Redis is away, each for itself, and agree when it is back', async () => {
    const all = [processOf('away'), processOf('away')] as const
    server.pause()
    expect([all[0].take(10), all[1].take(5)]).toEqual([10, 5])
    for (const { store } of all) await until('silence', () => (store.lagMs > 4 * SYNC_MS ? true : undefined))
    expect([all[0].left(), all[1].left()]).toEqual([LIMIT - 10, LIMIT - 5])
    server.resume()
    for (const each of all) await same(LIMIT - 15, each.left)
  })

  test('know what passed before they started', async () => {
    const first = processOf('late')
    first.take(30)
    await until('a round', () => (first.store.lagMs < Infinity ? true : undefined))
    await first.store.close()
    await same(LIMIT - 30, processOf('late').left)
  })

  test('tell how old what they know is', async () => {
    const { store, client } = processOf('lag')
    expect(store.lagMs).toBe(Infinity)
    await until('a round', () => (store.lagMs < 1_000 ? true : undefined))
    client.disconnect()
    await until('age', () => (store.lagMs > 6 * SYNC_MS ? true : undefined))
  })

  test('ask Redis three times a round at most, however much they decide', async () => {
    const { take, store } = processOf('calls')
    await rounds(store, 2)
    await server.call('CONFIG', 'RESETSTAT')
    const startMs = performance.now()
    for (let i = 0; i < 5; i++) {
      take(10_000)
      await rounds(store, 1)
    }
    const most = Math.ceil((performance.now() - startMs) / SYNC_MS) + 1
    const stats = String(await server.call('INFO', 'commandstats'))
    // A round that found something looks once more whether there is anything behind it.
    expect(Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1])).toBeLessThanOrEqual(3 * most)
  })

  test('refuse options that make no sense', () => {
    const { client } = processOf('wrong')
    const wrong = (options: object) => () => redis(client, options as { sync: true })
    expect(wrong({ sync: { syncMs: 1 } })).toThrow('HG_OPTION_INVALID')
    expect(wrong({ sync: { beatMs: 100 } })).toThrow('HG_OPTION_UNKNOWN')
    expect(wrong({ sync: true, hashKeys: 'x' })).toThrow('HG_OPTION_CONFLICT')
  })
})
