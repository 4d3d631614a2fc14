import { describe, expect, test } from 'vitest'
import { canStartRedis } from '../../test/redis-server.ts'
import { rig } from '../../test/redis-store.ts'
import { ifStalled } from '../../test/stalls.ts'
import { until } from '../../test/until.ts'
import { createGate } from '../index.ts'
import { compileLimit } from '../limit.ts'
import { type LayeredRedisStore, redis } from './index.ts'

const BEAT_MS = 100
const JOINS = { verb: 'take', counter: { space: 's', policy: compileLimit('100/day') }, key: 'joins', cost: 0 } as const

describe.skipIf(!canStartRedis)('a part of each limit for each process', { retry: ifStalled }, () => {
  const own = rig()
  const shared = async (prefix = 'hg') => redis(await own.client(), { share: { beatMs: BEAT_MS }, prefix })
  const gateOn = (store: LayeredRedisStore) =>
    createGate({ limit: '100/day', store, timeoutMs: 5_000, onStoreError: 'deny' })

  async function known(stores: readonly LayeredRedisStore[], nodes: number): Promise<void> {
    await until(`${nodes} nodes`, async () => {
      for (const store of stores) if (store.nodes === 0) await store.run([{ ops: [JOINS] }])
      return stores.every((store) => store.nodes === nodes) || undefined
    })
  }

  test('is decided at once, without a call per decision, and all parts are the limit', async () => {
    const stores = [await shared(), await shared(), await shared(), await shared()]
    await known(stores, 4)
    let passed = 0
    const made = await own.calls(async () => {
      for (const store of stores) {
        const gate = gateOn(store)
        for (let i = 0; i < 100; i++) {
          const decision = gate.take('k')
          expect(decision).not.toBeInstanceOf(Promise)
          if ((await decision).ok) passed++
        }
      }
    })
    expect(passed).toBe(100)
    expect(made.evalsha ?? 0).toBeLessThan(40)
    for (const store of stores) await store.close()
  })

  test('grows when a process leaves, or is not heard of any more, and shrinks when one comes', async () => {
    const stores = [await shared(), await shared()] as [LayeredRedisStore, LayeredRedisStore]
    await known(stores, 2)
    const third = await shared()
    await known([...stores, third], 3)
    await third.close()
    await known(stores, 2)
    await stores[1].close()
    await known([stores[0]], 1)
    expect(gateOn(stores[0]).peek('k')).toMatchObject({ remaining: 100 })
    await stores[0].close()
    expect(await own.server.call('ZCARD', 'hg:~nodes')).toBe(0)
  })

  test('is for those who count: who only looks, resets or blocks sees the whole limit, and takes no part', async () => {
    const [serving, looking] = [await shared(), await shared()]
    await known([serving], 1)
    const gate = gateOn(looking)
    expect(await gate.peek('k')).toMatchObject({ ok: true, remaining: 100 })
    await gate.reset('k')
    await gate.block('k', 1_000)
    expect(await gate.peek('k')).toMatchObject({ ok: false })
    expect(await own.server.call('ZCARD', 'hg:~nodes')).toBe(1)
    expect(looking.nodes).toBe(0)
    const limits = { fails: { limit: '100/day', countWhen: () => true } } as const
    const counting = createGate({ limits, store: looking, timeoutMs: 5_000 })
    await (await counting.take('other')).count({ status: 401 })
    await known([serving, looking], 2)
    expect(await gateOn(looking).peek('new')).toMatchObject({ remaining: 50 })
    for (const store of [serving, looking]) await store.close()
  })

  test('is larger for the others when a process is killed', async () => {
    const client = (await own.client()) as { disconnect(): void }
    const stores = [await shared(), redis(client, { share: { beatMs: BEAT_MS } })] as [
      LayeredRedisStore,
      LayeredRedisStore,
    ]
    await known(stores, 2)
    client.disconnect()
    await known([stores[0]], 1)
    await stores[0].close()
  })

  test('stays what it is while the server is away, and when it comes back with nothing', async () => {
    const stores = [await shared(), await shared()]
    await known(stores, 2)
    await own.server.restart()
    for (const store of stores) expect(store.nodes).toBe(2)
    await until('both to be heard of again', async () =>
      (await own.server.call('ZCARD', 'hg:~nodes')) === 2 ? true : undefined,
    )
    for (const store of stores) expect(store.nodes).toBe(2)
    for (const store of stores) await store.close()
  })

  test('is not known before the first answer: until then the gate does as told', async () => {
    const store = await shared('late')
    own.server.pause()
    const gate = createGate({ limit: '10/day', store, timeoutMs: 50, onStoreError: 'deny', prefix: 'late' })
    expect(await gate.take('k')).toMatchObject({ ok: false, degraded: 'deny' })
    own.server.resume()
    await known([store], 1)
    expect(gate.take('k')).toMatchObject({ ok: true, degraded: false })
    await store.close()
  })

  test('belongs to those of one prefix', async () => {
    const [one, other] = [await shared('one'), await shared('other')]
    await known([one, other], 1)
    await one.close()
    await other.close()
  })

  test('refuses options that make no sense', async () => {
    const client = await own.client()
    const wrong = (options: object) => () => redis(client, options as { share: true })
    expect(wrong({ share: { beatMs: 5 } })).toThrow('HG_OPTION_INVALID')
    expect(wrong({ share: { beats: 5 } })).toThrow('HG_OPTION_UNKNOWN')
    expect(wrong({ share: true, hashKeys: '' })).toThrow('HG_OPTION_INVALID')
  })
})
