import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { startProxy, type TcpProxy } from '../../test/proxy.ts'
import { canStartRedis, type OwnRedis, startRedis } from '../../test/redis-server.ts'
import { until } from '../../test/until.ts'
import { createGate } from '../index.ts'
import { type Regions, redis } from './index.ts'

const LIMIT = 100
const SYNC_MS = 50

describe.skipIf(!canStartRedis)('two regions, each with a Redis of its own', { timeout: 60_000 }, () => {
  const servers: OwnRedis[] = []
  const networks: TcpProxy[] = []
  const endings: (() => unknown)[] = []
  beforeAll(async () => {
    servers.push(await startRedis(), await startRedis())
    for (const server of servers) networks.push(await startProxy(server))
  })
  afterEach(async () => {
    for (const end of endings.splice(0).reverse()) await end()
    for (const network of networks) await network.heal()
  })
  afterAll(async () => {
    for (const each of [...networks, ...servers]) await each.stop()
  })

  function client(url: string): Redis {
    const made = new Redis(url, { retryStrategy: () => 20, maxRetriesPerRequest: 0, enableOfflineQueue: true })
    made.on('error', () => {})
    endings.push(() => made.disconnect())
    return made
  }

  const limits = {
    month: { limit: { limit: LIMIT, per: '1year', algorithm: 'fixed-window' }, by: (key: string) => key },
    here: {
      limit: { limit: LIMIT, per: '1year', algorithm: 'fixed-window' },
      by: (key: string) => key,
      hold: 'central',
    },
  } as const

  /** A process of a region. What it hears of the other comes through a network that can fail. */
  function processOf(region: 0 | 1, prefix: string) {
    const other = region === 0 ? 1 : 0
    const regions = {
      here: `r${region}`,
      others: { [`r${other}`]: client((networks[other] as TcpProxy).url) },
      syncMs: SYNC_MS,
    }
    const store = redis(client((servers[region] as OwnRedis).url), { prefix, regions })
    endings.push(() => store.close())
    const gate = createGate({ limits, store, timeoutMs: 5_000, onStoreError: 'deny' })
    const take = async (times: number) => {
      let passed = 0
      for (let i = 0; i < times; i++) if ((await gate.take('k')).ok) passed++
      return passed
    }
    const left = async (name: 'month' | 'here' = 'month') => {
      const decision = await gate.peek('k')
      expect(decision.degraded).toBe(false)
      return decision.limits.find((each) => each.name === name)?.remaining
    }
    return { gate, take, left, store }
  }

  /** All tell and hear, several times. */
  async function rounds(...all: readonly { readonly store: Regions }[]): Promise<void> {
    for (let i = 0; i < 4; i++) await Promise.all(all.map(({ store }) => store.sync()))
  }

  /** Until neither has heard of the other for some rounds. */
  async function silence(...all: readonly { readonly store: Regions }[]): Promise<void> {
    for (const { store } of all) await until('silence', () => (store.lagMs > 4 * SYNC_MS ? true : undefined))
  }

  const same = (what: string, expected: unknown, ask: () => Promise<unknown>) =>
    until(what, async () => ((await ask()) === expected ? true : undefined))

  test('hear of what passes in the other, and count it once, with several processes in each', async () => {
    const [a, b] = [processOf(0, 'once'), processOf(1, 'once')]
    const more = [processOf(0, 'once'), processOf(1, 'once')] as const
    expect(await a.take(20)).toBe(20)
    expect(await more[0].take(5)).toBe(5)
    expect(await b.take(30)).toBe(30)
    for (const each of [a, b, ...more]) await same('all to be counted', LIMIT - 55, () => each.left())
    await rounds(a, b, ...more)
    for (const each of [a, b, ...more]) expect(await each.left()).toBe(LIMIT - 55)
    // Others hold in each region.
    expect([await a.left('here'), await b.left('here')]).toEqual([LIMIT - 25, LIMIT - 30])
  })

  test('go on while they are cut off, each up to the limit, and agree when they are not', async () => {
    const [a, b] = [processOf(0, 'cut'), processOf(1, 'cut')]
    expect(await a.take(10)).toBe(10)
    await same('b to hear', LIMIT - 10, () => b.left())
    for (const network of networks) await network.cut()
    const passed = [await a.take(60), await b.take(40)]
    expect(passed).toEqual([60, 40])
    await silence(a, b)
    expect([await a.left(), await b.left()]).toEqual([LIMIT - 70, LIMIT - 50])
    const rest = [await a.take(200), await b.take(200)] as [number, number]
    expect(10 + 100 + rest[0] + rest[1]).toBeLessThanOrEqual(2 * LIMIT)
    for (const network of networks) await network.heal()
    await same('a to agree', 0, () => a.left())
    await same('b to agree', 0, () => b.left())
    expect([await a.take(10), await b.take(10)]).toEqual([0, 0])
  })

  test('agree on counts to the unit after a partition in which messages were lost on either way', async () => {
    const [a, b] = [processOf(0, 'ways'), processOf(1, 'ways')]
    for (const way of ['commands', 'replies', 'both'] as const) {
      for (const network of networks) network.stall(way)
      expect([await a.take(7), await b.take(4)]).toEqual([7, 4])
      await silence(a, b)
      for (const network of networks) await network.cut()
      for (const network of networks) await network.heal()
    }
    for (const each of [a, b]) await same('both to agree', LIMIT - 33, () => each.left())
    await rounds(a, b)
    for (const each of [a, b]) expect(await each.left()).toBe(LIMIT - 33)
  })

  test('count what a process told that is gone, when another of the region comes to read', async () => {
    const a = processOf(0, 'gone')
    const first = processOf(1, 'gone')
    expect(await first.take(3)).toBe(3)
    await same('a to hear', LIMIT - 3, () => a.left())
    await first.store.close()
    expect(await a.take(12)).toBe(12)
    const next = processOf(1, 'gone')
    await same('the next to hear', LIMIT - 15, () => next.left())
  })

  test('tell a call that comes again with its id once', async () => {
    const [a, b] = [processOf(0, 'id'), processOf(1, 'id')]
    for (let i = 0; i < 3; i++) expect((await a.gate.take('k', { cost: 4, id: 'order-7' })).ok).toBe(true)
    await same('b to hear', LIMIT - 4, () => b.left())
    await rounds(a, b)
    expect(await b.left()).toBe(LIMIT - 4)
  })

  test('count no total twice that is read again from the start, and begin anew with a stream that was lost', async () => {
    const [a, b] = [processOf(0, 'again'), processOf(1, 'again')]
    expect(await a.take(9)).toBe(9)
    await same('b to hear', LIMIT - 9, () => b.left())
    await servers[1]?.call('DEL', '{again:~regions}:read:r0')
    await rounds(a, b)
    expect(await b.left()).toBe(LIMIT - 9)
    await servers[1]?.call('SET', '{again:~regions}:read:r0', '99999999999999-0')
    expect(await a.take(1)).toBe(1)
    await same('b to hear again', LIMIT - 10, () => b.left())
  })

  test('are not held up by what cannot be read', async () => {
    const [a, b] = [processOf(0, 'odd'), processOf(1, 'odd')]
    const total = { actor: 'x', space: 'odd:month', key: 'k', limit: '{"limit":-1}', untilMs: 4e12, units: 5 }
    for (const text of ['{', 'null', '[null, 1, {}]', JSON.stringify([total])])
      await servers[0]?.call('XADD', '{odd:~regions}:of:r0', '*', 'totals', text)
    expect(await a.take(6)).toBe(6)
    await same('b to hear', LIMIT - 6, () => b.left())
  })

  test('finish what somebody set out to count, whether it was booked or not', async () => {
    const [a, b] = [processOf(0, 'half'), processOf(1, 'half')]
    expect(await a.take(9)).toBe(9)
    await same('b to hear', LIMIT - 9, () => b.left())
    const there = servers[1] as OwnRedis
    const [seen = ''] = (await there.call('KEYS', '{half:~regions}:seen:*')) as string[]
    const [actor = ''] = (await there.call('HKEYS', seen)) as string[]
    // As of who booked it, and was killed before it said so.
    await there.call('HSET', seen, actor, '0>9')
    await there.call('DEL', '{half:~regions}:read:r0')
    await same('it to be done', '9', async () => there.call('HGET', seen, actor))
    expect(await b.left()).toBe(LIMIT - 9)
    // As of who said so, and was killed before it booked.
    await there.call('HSET', seen, actor, '9>11')
    expect(await a.take(4)).toBe(4)
    await same('the rest to be counted', LIMIT - 13, () => b.left())
  })

  test('refuse options that make no sense', () => {
    const own = client((servers[0] as OwnRedis).url)
    const wrong =
      (regions: object, more: object = {}) =>
      () =>
        redis(own, { regions, ...more } as never)
    expect(wrong({ here: 'a b', others: {} })).toThrow('HG_OPTION_INVALID')
    expect(wrong({ here: 'a', others: { a: own } })).toThrow('HG_OPTION_INVALID')
    expect(wrong({ here: 'a', others: { b: 1 } })).toThrow('HG_OPTION_INVALID')
    expect(wrong({ here: 'a', others: {}, syncMs: 1 })).toThrow('HG_OPTION_INVALID')
    expect(wrong({ here: 'a', others: {}, limit: 1 })).toThrow('HG_OPTION_UNKNOWN')
    expect(wrong({ here: 'a', others: {}, limits: ['month'] })).toThrow('HG_OPTION_UNKNOWN')
    expect(wrong({ here: 'a', others: {} }, { hashKeys: 'secret' })).toThrow('HG_OPTION_CONFLICT')
  })
})
