import { describe, expect, test } from 'vitest'
import { canStartRedis } from '../../test/redis-server.ts'
import { patient, rig } from '../../test/redis-store.ts'
import { ifStalled, stopwatch } from '../../test/stalls.ts'
import { until } from '../../test/until.ts'
import { createGate, type Decision } from '../index.ts'
import { fakeClock } from '../testing/index.ts'
import { type LeaseOptions, redis } from './index.ts'

const DAY = { limit: '1000/day', ...patient } as const

describe.skipIf(!canStartRedis)('leases of a process', { retry: ifStalled }, () => {
  const own = rig()
  /** A store as another process has it, which knows the script. */
  async function leased(lease: true | LeaseOptions = true) {
    const store = redis(await own.client(), { lease })
    await until('EVALSHA', async () => (await own.calls(async () => store.run([{ ops: [] }]))).evalsha)
    await store.selfTest()
    return store
  }

  /** Takes one after the other, and says how many passed at once. */
  async function takes(gate: { take(key: string): Decision<unknown> | Promise<Decision<unknown>> }, count: number) {
    const decisions: Decision<unknown>[] = []
    let atOnce = 0
    for (let i = 0; i < count; i++) {
      const answer = gate.take('k')
      if (!(answer instanceof Promise) && answer.ok) atOnce++
      decisions.push(await answer)
    }
    return { decisions, atOnce, passed: decisions.filter(({ ok }) => ok).length }
  }

  test('are not made of keys that are asked for now and then: those cost what they cost without', async () => {
    const gate = createGate({ ...DAY, store: await leased() })
    const made = await own.calls(async () => {
      for (let i = 0; i < 15; i++) for (const key of ['a', 'b', 'c', 'd']) expect((await gate.take(key)).ok).toBe(true)
    })
    expect(made).toEqual({ evalsha: 60, time: 60, get: 60, set: 60 })
  })

  test('answer takes of a hot key at once, in a hundredth of the calls', async () => {
    const gate = createGate({ limit: '100000/s', ...patient, store: await leased() })
    await until('a lease', async () => (await takes(gate, 100)).atOnce || undefined)
    await takes(gate, 3_000)
    const made = await own.calls(async () => {
      const { atOnce, passed } = await takes(gate, 10_000)
      expect(passed).toBe(10_000)
      expect(atOnce).toBeGreaterThan(9_800)
    })
    expect(made.evalsha).toBeLessThan(100)
  })

  test('let through the limit exactly where one process has all the traffic', async () => {
    const gate = createGate({ ...DAY, store: await leased() })
    const { passed, atOnce, decisions } = await takes(gate, 1_300)
    expect(passed).toBe(1_000)
    expect(atOnce).toBeGreaterThan(500)
    const last = decisions.at(-1) as Decision<unknown>
    expect([last.ok, last.remaining, last.degraded]).toEqual([false, 0, false])
    expect(last.retryAfterMs).toBeGreaterThan(60_000)
  })

  test('tell what is left, of this process and of the rest', async () => {
    const gate = createGate({ ...DAY, store: await leased() })
    const { decisions } = await takes(gate, 200)
    // Never more than there is; and just that, but for takes that were asked for while a lease was on its way.
    for (const [i, { remaining }] of decisions.entries()) expect(remaining).toBeLessThanOrEqual(999 - i)
    expect(decisions.filter(({ remaining }, i) => remaining === 999 - i).length).toBeGreaterThan(150)
    expect((decisions.at(-1) as Decision<unknown>).remaining).toBeGreaterThan(0)
    expect((decisions.at(-1) as Decision<unknown>).resetAfterMs).toBeGreaterThan(86_400 * 150)
  })

  test('are given back for a request that needs more than there is here', async () => {
    const gate = createGate({ ...DAY, store: await leased() })
    await takes(gate, 100)
    await until('the others to be back', async () => (await gate.take('k', { cost: 900 })).ok || undefined)
    expect((await gate.take('k')).ok).toBe(false)
  })

  test('are spent by costs above one, all or nothing', async () => {
    const gate = createGate({
      limits: { a: { limit: '1000/day', by: String, cost: () => 7 } },
      ...patient,
      store: await leased(),
    })
    let passed = 0
    for (let i = 0; i < 300; i++) if ((await gate.take('k')).ok) passed++
    expect(passed).toBe(Math.floor(1000 / 7))
  })

  test('and limits that are not leased refuse together: what one refuses is charged to none', async () => {
    const limits = {
      user: { limit: '1000/day', by: String },
      log: { limit: '300/day', algorithm: 'sliding-log', by: String },
    } as const
    const store = await leased()
    const gate = createGate({ limits, ...patient, store })
    const { passed, decisions } = await takes(gate, 400)
    expect(passed).toBe(300)
    const last = decisions.at(-1) as Decision<unknown>
    expect(last.limits.map(({ name, ok, remaining }) => [name, ok, remaining])).toEqual([
      ['user', true, 700],
      ['log', false, 0],
    ])
    await store.close()
    const asked = createGate({ limits, ...patient, store: await own.store() })
    expect((await asked.peek('k')).limits.map(({ remaining }) => remaining)).toEqual([700, 0])
  })

  test('are given back when the process ends, and nothing is borrowed after that', async () => {
    const store = await leased()
    const [gate, other] = [createGate({ ...DAY, store }), createGate({ ...DAY, store: await own.store() })]
    await takes(gate, 100)
    expect((await other.peek('k')).remaining).toBeLessThan(900)
    await store.close()
    expect((await other.peek('k')).remaining).toBe(900)
    expect((await takes(gate, 50)).atOnce).toBe(0)
    expect((await other.peek('k')).remaining).toBe(850)
  })

  test('are given back when nobody needs them any more', async () => {
    const gate = createGate({ ...DAY, store: await leased({ lifeMs: 60_000 }) })
    const brief = createGate({ ...DAY, prefix: 'brief', store: await leased({ lifeMs: 800 }) })
    const other = createGate({ ...DAY, prefix: 'brief', store: await own.store({ quickDeny: false }) })
    await takes(gate, 30)
    await takes(brief, 100)
    expect((await other.peek('k')).remaining).toBeLessThan(900)
    await until('all to be back', async () => ((await other.peek('k')).remaining === 900 ? true : undefined))
  })

  test('are given back in a refund, once', async () => {
    const store = await leased()
    const gate = createGate({ ...DAY, store })
    const { decisions } = await takes(gate, 200)
    for (const decision of decisions) await decision.refund()
    for (const decision of decisions) await decision.refund()
    await store.close()
    expect((await gate.peek('k')).remaining).toBe(1000)
  })

  test('end in this process when a key is blocked or reset', async () => {
    const gate = createGate({ ...DAY, store: await leased() })
    await takes(gate, 100)
    await gate.block('k', 60_000)
    expect((await gate.take('k')).ok).toBe(false)
    await gate.block('k', 0)
    await takes(gate, 100)
    await gate.reset('k')
    // What was lent stays counted, so some of the last hundred may: those that were spent and not told of yet.
    await until('the rest to be there', async () => ((await gate.peek('k')).remaining >= 900 ? true : undefined))
  })

  test('come back to a caller that was refused while they were out, within a second', async () => {
    const store = await leased()
    const gate = createGate({ ...DAY, store })
    const other = createGate({ ...DAY, store: await leased() })
    await takes(gate, 100)
    for (let i = 0; i < 3; i++) expect((await other.take('k', { cost: 900 })).ok).toBe(false)
    await store.close()
    await until('the refusal to end', async () => (await other.take('k', { cost: 900 })).ok || undefined)
  })

  test('are spent while Redis is away, and no longer than they last', async () => {
    const gate = createGate({ limit: '1000000/day', timeoutMs: 100, store: await leased({ lifeMs: 1_000 }) })
    await until('a lease', async () => (await takes(gate, 100)).atOnce || undefined)
    await takes(gate, 5_000)
    own.server.pause()
    try {
      const elapsedMs = stopwatch()
      const first = gate.take('k')
      expect([first instanceof Promise, (await first).degraded]).toEqual([false, false])
      await until('the lease to end', () => (gate.take('k') instanceof Promise ? true : undefined))
      expect(elapsedMs()).toBeLessThan(1_100)
      expect((await gate.take('k')).degraded).toBe('local')
    } finally {
      own.server.resume()
    }
  })

  test('are not made where the time is told, or of limits too small to share', async () => {
    const clock = fakeClock(Date.UTC(2026, 0, 1))
    const gate = createGate({ ...DAY, clock, store: await leased() })
    expect((await takes(gate, 100)).atOnce).toBe(0)
    const small = createGate({ limit: '19/day', ...patient, store: await leased() })
    expect(await takes(small, 30)).toMatchObject({ atOnce: 0, passed: 19 })
  })

  test.each([
    ['a log of every instant', { limit: '1000/day', algorithm: 'sliding-log' }],
    ['slots in flight', { atOnce: 1000 }],
  ] as const)('are not made of %s', async (_, limit) => {
    const gate = createGate({ limits: { a: { ...limit, by: String } }, ...patient, store: await leased() })
    expect((await takes(gate, 100)).atOnce).toBe(0)
  })

  test('are refused with options that make no sense', async () => {
    const client = await own.client()
    const wrong = (lease: object) => () => redis(client, { lease: lease as LeaseOptions })
    expect(wrong({ lifeMs: 5 })).toThrow('HG_OPTION_INVALID: "lifeMs" of "lease" is 5: give 100 to 60,000 ms')
    expect(wrong({ share: 0 })).toThrow('HG_OPTION_INVALID: "share" of "lease" is 0: give more than 0, up to 1')
    expect(wrong({ replicas: 0.5 })).toThrow('HG_OPTION_INVALID: "replicas" of "lease" is 0.5')
    expect(wrong({ lifetime: 5 })).toThrow('HG_OPTION_UNKNOWN')
  })
})
