import { describe, expect, test } from 'vitest'
import { canStartRedis } from '../../test/redis-server.ts'
import { patient, rig } from '../../test/redis-store.ts'
import { ifStalled } from '../../test/stalls.ts'
import { until } from '../../test/until.ts'
import { createGate, memory } from '../index.ts'
import { type LayeredRedisStore, redis } from './index.ts'

const SYNC_MS = 50
const BEAT_MS = 100
const YEAR = { per: '1year', algorithm: 'fixed-window' } as const
const all = (request: { readonly hot?: true }) => request.hot === undefined

/** One limit of each kind. */
const limits = {
  month: { limit: { limit: 400, ...YEAR }, when: all },
  key: { limit: { limit: 1000, ...YEAR }, hold: 'lease' },
  part: { limit: { limit: 600, ...YEAR }, hold: 'share', when: all },
  told: { limit: { limit: 700, ...YEAR }, hold: 'sync', when: all },
  split: { limit: { limit: 800, ...YEAR }, hold: 'shards', when: all },
} as const
const modes = { lease: true, share: { beatMs: BEAT_MS }, sync: { syncMs: SYNC_MS }, shards: 4 } as const
type Name = keyof typeof limits

describe.skipIf(!canStartRedis)('limits of one gate, each held in its own way', { retry: ifStalled }, () => {
  const own = rig()
  const made: LayeredRedisStore[] = []

  async function processOf() {
    const store = redis(await own.client(), modes)
    made.push(store)
    const gate = createGate({ limits, store, ...patient })
    const take = async (times: number, request = {}) => {
      let [passed, atOnce] = [0, 0]
      for (let i = 0; i < times; i++) {
        const answer = gate.take(request)
        if (!(answer instanceof Promise)) atOnce++
        if ((await answer).ok) passed++
      }
      return { passed, atOnce }
    }
    const left = async (name: Name) => (await gate.peekKey(name)).remaining
    return { store, gate, take, left }
  }
  const end = async () => {
    for (const store of made.splice(0)) await store.close()
  }

  test('are decided as one: what one of them refuses is charged to none', async () => {
    const one = await processOf()
    const { passed } = await one.take(500)
    expect(passed).toBe(400)
    expect(await one.gate.take({})).toMatchObject({ ok: false, violated: ['month'] })
    await end()
    const names: Name[] = ['month', 'key', 'part', 'told']
    expect(await Promise.all(names.map((name) => one.left(name)))).toEqual([0, 600, 200, 300])
    // Of a limit in parts `remaining` is an estimate: what is there is what can be taken.
    expect((await one.gate.peekKey('split', undefined, { cost: 360 })).ok).toBe(true)
    expect((await one.gate.peekKey('split', undefined, { cost: 500 })).ok).toBe(false)
  })

  test('hold over several processes as each of the ways does', async () => {
    const both = [await processOf(), await processOf()] as const
    await until('both to be known', async () => {
      for (const { gate } of both) await gate.take({}, { cost: 0 })
      return both.every(({ store }) => store.nodes === 2) || undefined
    })
    const passed = await Promise.all(both.map(async (each) => (await each.take(150)).passed))
    expect(passed).toEqual([150, 150])
    expect(await both[0].left('month')).toBe(100)
    for (const each of both) expect(await each.left('part')).toBe(150)
    for (const each of both)
      await until('the others', async () => ((await each.left('told')) === 400 ? true : undefined))
    await end()
    for (const each of both) expect(await each.left('key')).toBe(700)
  })

  test('are asked for where they are not here: only a request of leased ones is decided at once', async () => {
    const one = await processOf()
    await until('a lease', async () => ((await one.take(50, { hot: true })).atOnce > 0 ? true : undefined))
    const made = await own.calls(async () => {
      expect((await one.take(100)).atOnce).toBe(0)
    })
    expect(made.evalsha).toBeGreaterThanOrEqual(100)
    const { lease, nodes, lagMs } = one.store.stats()
    expect(lease?.decided).toBeGreaterThan(0)
    expect(lease?.messages).toBeGreaterThan(0)
    expect(nodes).toBe(1)
    await until('a round', () => ((one.store.stats().lagMs?.sync ?? Infinity) < 10_000 ? true : undefined))
    expect(lagMs?.regions).toBeUndefined()
    await end()
    expect(one.store.stats().lease?.heldUnits).toBe(0)
  })

  test('are all asked for each time but those that say otherwise, where there are several ways', async () => {
    const store = redis(await own.client(), { lease: true, shards: 4 })
    const gate = createGate({ limit: '1000/day', store, ...patient })
    for (let i = 0; i < 60; i++) expect(gate.take('k')).toBeInstanceOf(Promise)
    await until('all to be counted', async () => ((await gate.peek('k')).remaining === 940 ? true : undefined))
    expect(store.stats().lease).toEqual({ heldUnits: 0, decided: 0, messages: 0 })
  })

  test('are asked for each time if they say so, where there is one way', async () => {
    const calls = (hold: 'central' | 'lease') => async () => {
      const store = redis(await own.client(), { lease: true, prefix: hold })
      const gate = createGate({ limit: '100000/s', hold, store, ...patient })
      for (let i = 0; i < 2_000; i++) await gate.take('k')
      await store.close()
    }
    expect((await own.calls(calls('central'))).evalsha).toBeGreaterThanOrEqual(1_990)
    expect((await own.calls(calls('lease'))).evalsha).toBeLessThan(500)
  })

  test('of a share are decided here while Redis is away, and those beside them as their gate says', async () => {
    const store = redis(await own.client(), { share: { beatMs: BEAT_MS } })
    const limits = {
      here: { limit: '100/day' },
      there: { limit: '100/day', hold: 'central', when: (which: string) => which === 'both' },
    } as const
    const gate = createGate({ limits, store, timeoutMs: 50, onStoreError: 'deny' })
    await until('it to be known', async () => ((await gate.take('here')).ok ? true : undefined))
    own.server.pause()
    try {
      for (let i = 0; i < 8; i++) expect(await gate.take('both')).toMatchObject({ ok: false, degraded: 'deny' })
      // What was refused for the one is not charged to the other, though nobody has answered yet.
      await until('all to be back', async () => ((await gate.peek('here')).remaining === 99 ? true : undefined))
      expect(gate.take('here')).toMatchObject({ ok: true, degraded: false, remaining: 98 })
    } finally {
      own.server.resume()
    }
    await store.close()
  })

  test('of leases are decided by what is held while the store is held to be down, and not asked for', async () => {
    const store = redis(await own.client(), { lease: { lifeMs: 60_000 } })
    const limits = {
      hot: { limit: '100000/day' },
      also: { limit: '100000/day' },
      there: { limit: '100/day', hold: 'central', when: (which: string) => which === 'all' },
    } as const
    const gate = createGate({ limits, store, timeoutMs: 50, onStoreError: 'deny' })
    await until('leases', async () => {
      for (let i = 0; i < 50; i++) await gate.take('hot')
      return (store.stats().lease?.heldUnits ?? 0) > 100 ? true : undefined
    })
    own.server.pause()
    try {
      for (let i = 0; i < 8; i++) await gate.take('all')
      expect(gate.health().state).toBe('down')
      expect(gate.take('hot')).toMatchObject({ ok: true, degraded: false })
      expect(await gate.take('all')).toMatchObject({ ok: false, degraded: 'deny' })
    } finally {
      own.server.resume()
    }
    await until('an answer', async () => ((await gate.take('all')).degraded === false ? true : undefined))
    await store.close()
  })

  test('grant nothing when they change between ways that count in one place, and start anew in another', async () => {
    const store = redis(await own.client(), modes)
    const limit = { limit: 100, ...YEAR }
    const spend = async (hold: 'central' | 'lease' | 'share' | 'sync' | 'shards') => {
      const gate = createGate({ limit, hold, store, ...patient })
      let passed = 0
      for (let i = 0; i < 150; i++) if ((await gate.take('k')).ok) passed++
      return passed
    }
    const first = createGate({ limit, hold: 'lease', store, ...patient })
    for (let i = 0; i < 60; i++) expect((await first.take('k')).ok).toBe(true)
    // What is borrowed and not spent comes back, as nobody asks for it any more.
    const asked = createGate({ limit, hold: 'central', store, ...patient })
    await until('it to be back', async () => ((await asked.peek('k')).remaining === 40 ? true : undefined))
    expect(await spend('central')).toBe(40)
    expect(await spend('lease')).toBe(0)
    // At most the limit, once.
    for (const hold of ['share', 'sync', 'shards'] as const)
      expect([await spend(hold), await spend(hold)]).toEqual([100, 0])
    expect(await spend('central')).toBe(0)
    await store.close()
  })

  test('know a repeat by its id in all processes, also of what is counted here', async () => {
    const both = [await processOf(), await processOf()] as const
    for (const { gate } of [...both, ...both])
      expect(await gate.take({}, { id: 'order-7', cost: 3 })).toMatchObject({ ok: true, cost: 3 })
    expect(await both[0].left('month')).toBe(397)
    for (const each of both) await until('3', async () => ((await each.left('told')) === 697 ? true : undefined))
    await end()
  })

  test('are refused where their store does not know the way', async () => {
    const client = await own.client()
    const gateOf = (hold: 'lease' | 'share') => () =>
      createGate({ limit: '10/s', hold, store: redis(client, { lease: true }) })
    expect(gateOf('lease')).not.toThrow()
    expect(gateOf('share')).toThrow(
      `HG_OPTION_CONFLICT: limit "default" says hold: 'share', but its store has 'central', 'lease'`,
    )
    const slots = () => createGate({ atOnce: 5, hold: 'lease', store: redis(client, { lease: true }) })
    expect(slots).toThrow('HG_OPTION_CONFLICT: limit "default" counts slots')
    expect(() => createGate({ limit: '10/s', hold: 'leased' as 'lease' })).toThrow('HG_OPTION_INVALID')
    // In one process all ways are one.
    expect(createGate({ limit: '10/s', hold: 'share', store: memory() }).take('k').ok).toBe(true)
  })
})
