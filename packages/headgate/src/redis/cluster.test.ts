import { createGate, type Key } from 'headgate'
import { type RedisStore, redis } from 'headgate/redis'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type ClientKind, connectCluster } from '../../test/clients.ts'
import { type RedisCluster, startCluster } from '../../test/redis-cluster.ts'
import { canStartRedis, type OwnRedis } from '../../test/redis-server.ts'
import { changes, inTime, keepAsking } from '../../test/traffic.ts'
import { until } from '../../test/until.ts'

const kinds: readonly ClientKind[] = ['ioredis', 'node-redis', 'glide']
const MANY = 1_000_000

describe.skipIf(!canStartRedis)('in a cluster', { timeout: 60_000 }, () => {
  let cluster: RedisCluster
  beforeAll(async () => {
    cluster = await startCluster()
  })
  afterAll(async () => cluster?.stop())

  const endings: (() => Promise<unknown>)[] = []
  afterEach(async () => {
    for (const end of endings.splice(0).reverse()) await end()
  })

  async function store(kind: ClientKind = 'ioredis', onProblem: (problem: Error) => void = () => {}) {
    const { client, close } = await connectCluster(kind, cluster)
    endings.push(close)
    return redis(client, { onProblem })
  }

  /** Two limits for each request, in slots of their own. */
  function twoLimits(on: RedisStore, prefix: string, tight: number) {
    return createGate({
      limits: {
        tight: { limit: { limit: tight, per: '1year' }, by: (user: string) => user },
        wide: { limit: { limit: MANY, per: '1year' }, by: () => 'all' },
      },
      store: on,
      prefix,
      timeoutMs: 5_000,
    })
  }

  /** What has been counted, by the eyes of another; a client that has just lost sight of a slot is asked again. */
  async function used(on: RedisStore, prefix: string, name: string, limit: number, key: Key): Promise<number> {
    const auditor = createGate({
      limits: { [name]: { limit: { limit, per: '1year' }, by: () => key } },
      store: on,
      prefix,
      timeoutMs: 5_000,
    })
    return until('the count in the store', async () => {
      const { remaining, degraded } = await auditor.peek({})
      return degraded === false ? limit - remaining : undefined
    })
  }

  async function scriptCalls(): Promise<number> {
    const stats = await Promise.all(cluster.servers.map((server) => server.call('INFO', 'commandstats')))
    const calls = [...stats.join().matchAll(/cmdstat_evalsha:calls=(\d+)/g)].map(([, count]) => Number(count))
    return calls.reduce((sum, each) => sum + each, 0)
  }

  test.each(kinds)('limits with one tag are decided in one step by %s', async (kind) => {
    const problems: Error[] = []
    const gate = createGate({
      limits: {
        org: { limit: '1000/day', by: ({ org }: { org: string; user: string }) => `{${org}}` },
        user: { limit: '500/day', by: ({ org, user }) => [`{${org}}`, user] },
      },
      store: await store(kind, (problem) => problems.push(problem)),
      prefix: `tag-${kind}`,
      timeoutMs: 2_000,
    })
    await until('the script to be known there', async () => {
      const before = await scriptCalls()
      await gate.take({ org: 'acme', user: 'ann' })
      return (await scriptCalls()) > before || undefined
    })
    const before = await scriptCalls()
    expect(await gate.take({ org: 'acme', user: 'ann' })).toMatchObject({ ok: true, degraded: false })
    expect((await scriptCalls()) - before).toBe(1)
    expect(problems).toEqual([])
  })

  test.each(kinds)('limits in several slots are charged all or none by %s, whoever comes at once', async (kind) => {
    const problems: Error[] = []
    const on = await store(kind, (problem) => problems.push(problem))
    const prefix = `all-${kind}`
    const gate = twoLimits(on, prefix, 100)
    expect(cluster.slotOf(`${prefix}:tight:u`)).not.toBe(cluster.slotOf(`${prefix}:wide:all`))
    let admitted = 0
    for (let round = 0; round < 10; round++) {
      const decisions = await Promise.all(Array.from({ length: 64 }, (_, i) => gate.take(i % 2 ? 'ann' : 'bob')))
      for (const { ok, degraded } of decisions) {
        expect(degraded).toBe(false)
        if (ok) admitted++
      }
    }
    expect(admitted).toBe(200)
    expect(await used(on, prefix, 'tight', 100, 'ann')).toBe(100)
    expect(await used(on, prefix, 'tight', 100, 'bob')).toBe(100)
    await until('what was given back', async () => (await used(on, prefix, 'wide', MANY, 'all')) === 200 || undefined)
    expect(problems).toMatchObject([{ code: 'HG_REDIS_SETUP' }])
  })

  test('as many units as fit everywhere are charged everywhere', async () => {
    const on = await store()
    const gate = twoLimits(on, 'up-to', 10)
    expect(await gate.take('ann', { upTo: 7 })).toMatchObject({ ok: true, cost: 7, degraded: false })
    expect(await used(on, 'up-to', 'wide', MANY, 'all')).toBe(7)
    expect(await gate.take('ann', { upTo: 7 })).toMatchObject({ ok: true, cost: 3, degraded: false })
    expect(await used(on, 'up-to', 'tight', 10, 'ann')).toBe(10)
    expect(await used(on, 'up-to', 'wide', MANY, 'all')).toBe(10)
    expect(await gate.take('ann', { upTo: 7 })).toMatchObject({ ok: false, degraded: false })
    expect(await used(on, 'up-to', 'wide', MANY, 'all')).toBe(10)
  })

  test('a cost is given back as a whole', async () => {
    const on = await store()
    const gate = twoLimits(on, 'cost', 10)
    expect(await gate.take('ann', { cost: 8 })).toMatchObject({ ok: true, cost: 8 })
    expect(await gate.take('ann', { cost: 8 })).toMatchObject({ ok: false, violated: ['tight'] })
    expect(await used(on, 'cost', 'wide', MANY, 'all')).toBe(8)
    const some = await gate.take('bob', { cost: 5 })
    await some.settle(2)
    expect(await used(on, 'cost', 'wide', MANY, 'all')).toBe(10)
    const more = await gate.take('bob', { cost: 5 })
    await more.refund()
    expect(await used(on, 'cost', 'wide', MANY, 'all')).toBe(10)
    expect(await used(on, 'cost', 'tight', 10, 'bob')).toBe(2)
  })

  test('slots in flight are freed when another limit refuses', async () => {
    const on = await store()
    const gate = createGate({
      limits: { busy: { atOnce: 3 }, tight: { limit: '1/day', by: (user: string) => user } },
      store: on,
      prefix: 'flight',
      timeoutMs: 5_000,
    })
    const first = await gate.take('ann')
    expect(first.ok).toBe(true)
    for (let i = 0; i < 5; i++) expect((await gate.take('ann')).violated).toEqual(['tight'])
    expect((await gate.take('bob')).ok).toBe(true)
    expect((await gate.take('cid')).ok).toBe(true)
    expect((await gate.take('dan')).violated).toEqual(['busy'])
    await first.release()
    expect((await gate.take('dan')).ok).toBe(true)
  })

  test('an id is charged once, also when two processes come with it at once', async () => {
    const stores = [await store(), await store('node-redis')] as const
    const [one, two] = [twoLimits(stores[0], 'ids', 1_000), twoLimits(stores[1], 'ids', 1_000)]
    const ids = Array.from({ length: 50 }, (_, i) => `request ${i}`)
    const told = await Promise.all(
      ids.flatMap((id) => [one.take('ann', { id, cost: 3 }), two.take('ann', { id, cost: 3 })]),
    )
    for (const decision of told) expect(decision).toMatchObject({ ok: true, cost: 3, degraded: false })
    expect(await used(stores[0], 'ids', 'tight', 1_000, 'ann')).toBe(150)
    expect(await used(stores[0], 'ids', 'wide', MANY, 'all')).toBe(150)
    const again = await two.take('ann', { id: 'request 7', cost: 3 })
    expect(again).toMatchObject({ ok: true, cost: 3 })
    await again.refund()
    await (await one.take('ann', { id: 'request 8' })).settle(1)
    expect(await used(stores[0], 'ids', 'tight', 1_000, 'ann')).toBe(150 - 3 - 2)
    expect(await used(stores[0], 'ids', 'wide', MANY, 'all')).toBe(150 - 3 - 2)
    await told[16]?.settle(1)
    expect(await used(stores[0], 'ids', 'tight', 1_000, 'ann')).toBe(150 - 3 - 2)
  })

  test('a receipt is settled once, by whichever process', async () => {
    const stores = [await store(), await store('node-redis')] as const
    const [one, two] = [twoLimits(stores[0], 'receipts', 1_000), twoLimits(stores[1], 'receipts', 1_000)]
    const receipts = await Promise.all(
      Array.from({ length: 20 }, async () => (await one.take('ann', { cost: 3 })).receipt()),
    )
    const told = await Promise.all(
      receipts.flatMap((receipt) => [two.resume(receipt)?.settle(1), one.resume(receipt)?.settle(1)]),
    )
    expect(told.filter((applied) => applied)).toHaveLength(20)
    expect(await used(stores[0], 'receipts', 'tight', 1_000, 'ann')).toBe(20)
    expect(await used(stores[0], 'receipts', 'wide', MANY, 'all')).toBe(20)
  })

  test.each(kinds)('nothing is lost when slots move to another node while %s asks', async (kind) => {
    const on = await store(kind)
    const prefix = `move-${kind}`
    const limits = {
      one: { limit: { limit: 500, per: '1year' }, by: () => '{moving}' },
      two: { limit: { limit: MANY, per: '1year' }, by: () => ['{moving}', 'too'] },
      far: { limit: { limit: MANY, per: '1year' }, by: () => 'far' },
    } as const
    const gate = createGate({ limits, store: on, prefix, timeoutMs: 800 })
    expect((await gate.take({})).degraded).toBe(false)
    const load = keepAsking(() => gate.take({}), { callers: 16 })
    const slot = cluster.slotOf(`${prefix}:one:{moving}`)
    const from = await cluster.ownerOf(slot)
    const traffic = () => {
      const { admitted, refused } = load.tally
      return until('traffic', () => load.tally.admitted + load.tally.refused > admitted + refused + 50 || undefined)
    }
    await traffic()
    for (const to of [(from + 1) % 3, (from + 2) % 3, from]) {
      const move = await cluster.beginMove(slot, to)
      await traffic()
      await move.moveKeys(1) // from here on those who need both keys hear TRYAGAIN
      await move.finish()
      await traffic()
    }
    await until('the limit to be reached', () => load.tally.centralRefused > 100 || undefined)
    const { central, degraded } = await load.stop()
    // GLIDE may wait longer than its own 250 ms until it finds a slot again, and then does not tell what became of the call.
    if (kind !== 'glide') expect(gate.health()).toMatchObject({ failures: {}, changes: 0 })
    const admitted = central + 1
    const [one, two, far] = [
      await used(on, prefix, 'one', 500, '{moving}'),
      await used(on, prefix, 'two', MANY, ['{moving}', 'too']),
      await used(on, prefix, 'far', MANY, 'far'),
    ]
    expect(admitted).toBeLessThanOrEqual(500)
    expect(one).toBe(500)
    expect(Math.min(two, far)).toBeGreaterThanOrEqual(admitted)
    if (degraded === 0) expect([admitted, two, far]).toEqual([500, 500, 500])
  })

  test.each(kinds)(
    'what a node that hangs keeps from being decided is not charged elsewhere, with %s',
    async (kind) => {
      const on = await store(kind)
      const prefix = `hang-${kind}`
      const gate = createGate({
        limits: {
          hanging: { limit: { limit: MANY, per: '1year' }, by: () => keyOn(0, `${prefix}:hanging`) },
          living: { limit: { limit: MANY, per: '1year' }, by: () => keyOn(2, `${prefix}:living`) },
        },
        store: on,
        prefix,
        timeoutMs: 200,
      })
      await until('a decision by the store', async () => !(await inTime(gate.take({}))).degraded || undefined)
      const before = await used(on, prefix, 'living', MANY, keyOn(2, `${prefix}:living`))
      const [server] = cluster.servers as [OwnRedis]
      server.pause()
      const told = await inTime(Promise.all(Array.from({ length: 20 }, () => gate.take({}))))
      for (const { degraded } of told) expect(degraded).toBe('local')
      const count = () => used(on, prefix, 'living', MANY, keyOn(2, `${prefix}:living`))
      await until('all to be given back', async () => (await count()) === before || undefined)
      server.resume()
      const back = await until('a decision by the store', async () => {
        const decision = await inTime(gate.take({}))
        return decision.degraded === false ? decision : undefined
      })
      expect(back.ok).toBe(true)
      expect(await count()).toBe(before + 1)
      expect(await used(on, prefix, 'hanging', MANY, keyOn(0, `${prefix}:hanging`))).toBe(before + 1)
    },
  )

  test('only the keys of a node that is killed are decided without it', async () => {
    await Promise.all(
      cluster.servers.map((server) => server.call('CONFIG', 'SET', 'cluster-require-full-coverage', 'no')),
    )
    const users = await Promise.all(kinds.map(userOf))
    const dead = cluster.servers[1] as OwnRedis
    for (const { ask } of users)
      await until('decisions by the store', async () => !(await ask()).flat().some(Boolean) || undefined)
    await dead.kill()
    await Promise.all(
      users.map(async ({ ask, states, gate }) => {
        for (let round = 0; round < 20; round++) {
          const [first, second, third] = await inTime(ask())
          expect(new Set([...(first as []), ...(third as [])])).toEqual(new Set([false]))
          expect(new Set(second)).toEqual(new Set(['local']))
        }
        expect(states).toEqual(['down'])
        expect(gate.health().state).toBe('down')
      }),
    )
    await dead.restart()
    for (const { ask, states } of users) {
      await until('decisions by the store', async () => !(await ask()).flat().some(Boolean) || undefined)
      expect(states).toEqual(['down', 'up'])
    }
  })

  /** Asks for keys at each of the nodes, and tells what was degraded. */
  async function userOf(kind: ClientKind) {
    const { states, listen } = changes()
    const prefix = `kill-${kind}`
    const on = await store(kind)
    const gate = createGate({ limit: '1_000_000/year', store: on, prefix, timeoutMs: 200, onStoreChange: listen })
    const keys = [0, 1, 2].map((node) => Array.from({ length: 10 }, (_, i) => keyOn(node, `${prefix}:default`, i)))
    const ask = () =>
      Promise.all(
        keys.map(async (own) => {
          const told = await Promise.all(own.map((key) => gate.take(key)))
          return told.map(({ degraded }) => degraded)
        }),
      )
    return { gate, ask, states }
  }

  /** The nth key that lies at a node, in order of slots; nodes have equal shares. */
  function keyOn(node: number, space: string, nth = 0): string {
    for (let i = 0, found = 0; ; i++)
      if (Math.floor((3 * cluster.slotOf(`${space}:k${i}`)) / 16_384) === node && found++ === nth) return `k${i}`
  }
})
