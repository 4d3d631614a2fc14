import { createGate } from 'headgate'
import { type RedisStore, redis } from 'headgate/redis'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { connect } from '../test/clients.ts'
import { freePort } from '../test/redis-server.ts'
import { inTime } from '../test/traffic.ts'
import { until } from '../test/until.ts'

describe('while nobody answers at the address of the store', { timeout: 60_000 }, () => {
  let store: RedisStore
  let close: () => Promise<void>
  beforeEach(async () => {
    const nobody = await connect('ioredis', { port: await freePort() }, { ready: false })
    close = nobody.close
    store = redis(nobody.client, { onProblem: () => {} })
    const gate = createGate({ limit: '1000/day', store, prefix: 'other', timeoutMs: 1 })
    await until('that to be known', async () => {
      await gate.take('anybody')
      return gate.health().state === 'down' || undefined
    })
  })
  afterEach(() => close())

  async function taken(gate: { take(key: string): Promise<{ ok: boolean }> }, times: number): Promise<number> {
    let count = 0
    for (let i = 0; i < times; i++) if ((await inTime(gate.take('user'))).ok) count++
    return count
  }

  test('a process that counts for itself enforces the whole limit', async () => {
    expect(await taken(createGate({ limit: '10/day', store }), 20)).toBe(10)
  })

  test('one of several that are known to be as many enforces its part', async () => {
    expect(await taken(createGate({ limit: '10/day', store, nodes: 5 }), 20)).toBe(2)
    expect(await taken(createGate({ atOnce: 10, store, nodes: 5, prefix: 'slots' }), 20)).toBe(2)
    expect(await taken(createGate({ limit: '10/day strict', store, nodes: 5, prefix: 'strict' }), 20)).toBe(2)
  })

  test('one of more than there are units still lets somebody through', async () => {
    expect(await taken(createGate({ limit: '10/day', store, nodes: 50 }), 20)).toBe(1)
  })

  test('gates on one store share what is counted here as they share what is counted there', async () => {
    const [one, two] = [createGate({ limit: '10/day', store }), createGate({ limit: '10/day', store })]
    expect(await taken(one, 6)).toBe(6)
    expect(await taken(two, 6)).toBe(4)
    expect(await taken(createGate({ limit: '10/day', store, prefix: 'own' }), 6)).toBe(6)
  })

  test('what was counted here is settled, refunded and released here', async () => {
    const gate = createGate({ limit: '10/day', store })
    const [first, second] = [await gate.take('user', { cost: 4 }), await gate.take('user', { cost: 4 })]
    expect(second).toMatchObject({ ok: true, degraded: 'local', remaining: 2 })
    await first.settle(1)
    expect((await gate.peek('user')).remaining).toBe(5)
    await second.refund()
    expect((await gate.peek('user')).remaining).toBe(9)
    await second.refund()
    expect((await gate.peek('user')).remaining).toBe(9)

    const slots = createGate({ atOnce: 1, store, prefix: 'slots' })
    const running = await slots.take('user')
    expect((await slots.take('user')).ok).toBe(false)
    await running.release()
    expect((await slots.take('user')).ok).toBe(true)
  })

  test('an id is charged once, and as many as fit are taken', async () => {
    const gate = createGate({ limit: '10/day', store })
    for (let i = 0; i < 3; i++) expect((await gate.take('user', { id: 'a', cost: 2 })).ok).toBe(true)
    expect((await gate.peek('user')).remaining).toBe(8)
    expect(await gate.take('user', { upTo: 100 })).toMatchObject({ ok: true, cost: 8, degraded: 'local' })
    expect(await gate.take('user', { upTo: 100 })).toMatchObject({ ok: false, degraded: 'local' })
  })

  test('a limit that refuses says when to come again', async () => {
    const gate = createGate({ limit: '10/day', store, onStoreError: 'deny' })
    const denied = await gate.take('user')
    expect(denied).toMatchObject({ ok: false, degraded: 'deny', violated: ['default'] })
    expect(denied.retryAfterMs).toBeGreaterThan(0)
    expect(denied.retryAfterMs).toBeLessThan(10_000)
    expect(Number(denied.headers()['Retry-After'])).toBeGreaterThanOrEqual(1)
  })

  test('the strictest of what the limits of a request say is what is told of it', async () => {
    const limits = {
      counted: { limit: '2/day', by: ({ user }: Request) => user, when: ({ counted }: Request) => counted === true },
      paid: { limit: '9/day', onStoreError: 'deny', when: ({ paid }: Request) => paid === true },
      open: { limit: '1/day', onStoreError: 'allow' },
    } as const
    const gate = createGate({ limits, store })
    const degraded = async (request: Request) => (await gate.take(request)).degraded
    expect(await degraded({ user: 'a' })).toBe('allow')
    expect(await degraded({ user: 'a' })).toBe('allow')
    expect(await degraded({ user: 'a', paid: true })).toBe('deny')
    for (let i = 0; i < 5; i++) expect(await degraded({ user: 'a', counted: true, paid: true })).toBe('deny')
    // Those were refused, so nothing was counted for them.
    expect(await gate.take({ user: 'a', counted: true })).toMatchObject({ ok: true, degraded: 'local' })
    expect(await gate.take({ user: 'a', counted: true })).toMatchObject({ ok: true, degraded: 'local' })
    expect(await gate.take({ user: 'a', counted: true })).toMatchObject({ ok: false, violated: ['counted'] })
  })

  test('a limit that is only observed refuses nobody', async () => {
    const gate = createGate({
      limits: {
        tried: { limit: '1/day', mode: 'observe', onStoreError: 'deny' },
        real: { limit: '10/day' },
      },
      store,
    })
    expect(await gate.take({})).toMatchObject({ ok: true, degraded: 'local', violated: [] })
  })

  test('who waits is told in time as well', async () => {
    const counted = createGate({ limit: '10/day', store })
    expect(await inTime(counted.wait('user'))).toMatchObject({ ok: true, degraded: 'local' })
    const denied = createGate({ limit: '10/day', store, onStoreError: 'deny' })
    expect(await inTime(denied.wait('user', { maxMs: 300 }))).toMatchObject({ ok: false, degraded: 'deny' })
  })

  interface Request {
    readonly user: string
    readonly counted?: boolean
    readonly paid?: boolean
  }
})
