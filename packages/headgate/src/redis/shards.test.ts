import { createGate } from 'headgate'
import { redis } from 'headgate/redis'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { connectCluster } from '../../test/clients.ts'
import { type RedisCluster, startCluster } from '../../test/redis-cluster.ts'
import { canStartRedis } from '../../test/redis-server.ts'

const SHARDS = 16
const LIMIT = 1_000

describe.skipIf(!canStartRedis)('a hot key in a cluster, split into parts', { timeout: 60_000 }, () => {
  let cluster: RedisCluster
  beforeAll(async () => {
    cluster = await startCluster()
  })
  afterAll(async () => cluster?.stop())
  const endings: (() => Promise<unknown>)[] = []
  afterEach(async () => {
    for (const end of endings.splice(0).reverse()) await end()
  })

  async function gateOf(prefix: string, timeoutMs = 10_000) {
    const { client, close } = await connectCluster('ioredis', cluster)
    endings.push(close)
    const store = redis(client, { shards: SHARDS, onProblem: () => {} })
    const limits = { hot: { limit: `${LIMIT}/day`, by: (key: string) => key } } as const
    return createGate({ limits, store, prefix, timeoutMs, onStoreError: 'deny' })
  }

  test('lies on all nodes, and lets through its limit and no more, to several processes', async () => {
    const gates = [await gateOf('hot'), await gateOf('hot'), await gateOf('hot')]
    let passed = 0
    await Promise.all(
      gates.map(async (gate) => {
        for (let i = 0; i < 60; i++) {
          const decisions = await Promise.all(Array.from({ length: 10 }, () => gate.take('{acme}')))
          for (const decision of decisions) {
            expect(decision.degraded).toBe(false)
            if (decision.ok) passed++
          }
        }
      }),
    )
    // What came back meanwhile is less than a unit.
    expect(passed).toBeLessThanOrEqual(LIMIT)
    expect(passed).toBeGreaterThan(LIMIT - Math.sqrt(SHARDS * LIMIT * Math.log(SHARDS)))
    const keys = await Promise.all(cluster.servers.map(async (server) => server.call('KEYS', 'hot:*')))
    for (const own of keys) expect((own as unknown[]).length).toBeGreaterThan(1)
    expect(keys.flat()).toHaveLength(SHARDS)
  })

  test('takes a cost larger than a part from all of them, or from none', async () => {
    const gate = await gateOf('large')
    expect(await gate.take('k', { cost: 900 })).toMatchObject({ ok: true })
    expect(await gate.take('k', { cost: 200 })).toMatchObject({ ok: false })
    expect(await gate.take('k', { cost: 90 })).toMatchObject({ ok: true })
    expect(await gate.take('k', { cost: 200 })).toMatchObject({ ok: false })
  })

  test('gets back what is refunded, in the part that it came from', async () => {
    const [gate, other] = [await gateOf('back'), await gateOf('back')]
    const decisions = await Promise.all(Array.from({ length: 200 }, () => gate.take('k')))
    await Promise.all(decisions.map((decision) => decision.refund()))
    expect(await other.take('k', { cost: LIMIT })).toMatchObject({ ok: true })
  })

  test('is blocked and reset as one', async () => {
    const [gate, other] = [await gateOf('block'), await gateOf('block')]
    await gate.take('k', { cost: LIMIT })
    await gate.reset('hot', 'k')
    await gate.block('hot', 'k', 60_000)
    for (let i = 0; i < SHARDS; i++) expect((await other.take('k')).ok).toBe(false)
    await gate.block('hot', 'k', 0)
    expect(await (await gateOf('block')).take('k', { cost: LIMIT })).toMatchObject({ ok: true })
  })

  test('refuses options that make no sense', async () => {
    const { client, close } = await connectCluster('ioredis', cluster)
    endings.push(close)
    const wrong = (options: object) => () => redis(client, options)
    expect(wrong({ shards: 1 })).toThrow('HG_OPTION_INVALID')
    expect(wrong({ shards: 65 })).toThrow('HG_OPTION_INVALID')
    expect(wrong({ shards: 65, lease: true })).toThrow('HG_OPTION_INVALID')
  })

  // The last: nobody starts it again.
  test('goes on in the parts of the other nodes when one is killed, and has no more units for that', async () => {
    const gate = await gateOf('killed', 300)
    await gate.take('k', { cost: 100 })
    await cluster.servers[1]?.kill()
    let [passed, failed] = [100, 0]
    for (let i = 0; i < 150; i++) {
      const decision = await gate.take('k')
      if (decision.ok) passed++
      else if (decision.degraded) failed++
    }
    expect(passed).toBeGreaterThan(100)
    expect(failed).toBeGreaterThan(0)
    expect(passed).toBeLessThanOrEqual(LIMIT)
  })
})
