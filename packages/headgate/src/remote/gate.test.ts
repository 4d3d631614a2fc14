import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Serving, serve } from '../../test/remote-server.ts'
import { until } from '../../test/until.ts'
import { createGate, memory } from '../index.ts'
import { fakeClock } from '../testing/index.ts'
import { type RemoteStore, remote } from './index.ts'

const patient = { timeoutMs: 10_000, onStoreError: 'deny' } as const

describe('a gate on a store behind a port', () => {
  const clock = fakeClock(Date.UTC(2026, 0, 1))
  let serving: Serving
  let stores: RemoteStore[]
  beforeEach(async () => {
    serving = await serve(memory({ clock }))
    stores = []
  })
  afterEach(async () => {
    for (const store of stores) store.close()
    await serving.close()
  })

  /** As another process has it. */
  function store(): RemoteStore {
    const made = remote(serving.url)
    stores.push(made)
    return made
  }

  test('shares its counts with all gates of the same name', async () => {
    const [one, two] = [0, 1].map(() => createGate({ limit: '3/min', store: store(), ...patient }))
    expect((await one?.take('a', { cost: 2 }))?.remaining).toBe(1)
    expect(await two?.take('a', { cost: 2 })).toMatchObject({ ok: false, retryAfterMs: 20_000, degraded: false })
    expect((await two?.peek('a'))?.remaining).toBe(1)
  })

  test('charges all limits of a request or none', async () => {
    const limits = {
      key: { limit: '5/min', by: (r: { key: string }) => r.key },
      all: { limit: '2/min' },
      seen: { limit: '1/min', mode: 'observe' as const },
    }
    const gate = createGate({ limits, store: store(), ...patient })
    const taken = [await gate.take({ key: 'a' }), await gate.take({ key: 'a' }), await gate.take({ key: 'a' })]
    expect(taken.map(({ ok }) => ok)).toEqual([true, true, false])
    expect(taken[2]).toMatchObject({ violated: ['all'], limit: 'all' })
    expect((await gate.peek({ key: 'a' })).limits.map(({ remaining }) => remaining)).toEqual([3, 0, 0])
  })

  test('settles, refunds and takes up to what fits', async () => {
    const gate = createGate({ limit: '10/min', store: store(), ...patient })
    const first = await gate.take('a', { cost: 5 })
    await first.settle(2)
    expect((await gate.peek('a')).remaining).toBe(8)
    const second = await gate.take('a', { upTo: 20 })
    expect(second.cost).toBe(8)
    await second.refund()
    await second.refund()
    expect((await gate.peek('a')).remaining).toBe(8)
  })

  test('charges an id once, whichever process repeats it', async () => {
    const [one, two] = [0, 1].map(() => createGate({ limit: '3/min', store: store(), ...patient }))
    const [first, again] = [await one?.take('a', { id: 'x' }), await two?.take('a', { id: 'x' })]
    expect([first?.remaining, again?.remaining, (await one?.peek('a'))?.remaining]).toEqual([2, 2, 2])
    await again?.refund()
    await first?.refund()
    expect((await one?.peek('a'))?.remaining).toBe(3)
    await one?.take('a', { id: 'x' })
    expect((await one?.peek('a'))?.remaining).toBe(2)
  })

  test('judges by tiers, unlimited ones too, and by overrides', async () => {
    const gate = createGate({
      limits: {
        plan: {
          limit: { free: '1/min', pro: '3/min burst 5', enterprise: 'unlimited' },
          tier: (r: { plan: string }) => r.plan,
          by: (r) => r.plan,
        },
      },
      store: store(),
      ...patient,
    })
    expect((await gate.take({ plan: 'free' })).remaining).toBe(0)
    expect((await gate.take({ plan: 'pro' })).remaining).toBe(4)
    expect((await gate.take({ plan: 'enterprise' })).remaining).toBe(Infinity)
    gate.override('plan', 'free', { limit: 10, per: '1min' }, 60_000)
    expect((await gate.take({ plan: 'free' })).remaining).toBe(8)
  })

  test('blocks and resets', async () => {
    const gate = createGate({ limit: '3/min', store: store(), ...patient })
    await gate.block('a', 5_000)
    expect(await gate.take('a')).toMatchObject({ ok: false, retryAfterMs: 5_000 })
    await gate.reset('a')
    expect((await gate.take('a')).ok).toBe(true)
  })

  test('holds slots and gives them back, also those that were renewed', async () => {
    const limits = { busy: { atOnce: 2, holdMs: 30 } }
    const [one, two] = [0, 1].map(() => createGate({ limits, store: store(), ...patient }))
    const held = await one?.take({}, { cost: 2 })
    const renewed = () => serving.bodies.filter((body) => body.includes('"renew"')).length
    for (let i = 0; i < 3; i++) {
      const before = renewed()
      await until('a renewal', () => renewed() > before || undefined)
      clock.advance(25)
      expect((await two?.peek({}))?.remaining).toBe(0)
    }
    await held?.release()
    expect((await two?.take({}, { cost: 2 }))?.ok).toBe(true)
  })

  test('frees the slots of a gate that is no more after their hold time', async () => {
    const limits = { busy: { atOnce: 2, holdMs: 30_000 } }
    const lost = store()
    await createGate({ limits, store: lost, ...patient }).take({}, { cost: 2 })
    lost.close()
    const gate = createGate({ limits, store: store(), ...patient })
    expect((await gate.take({})).ok).toBe(false)
    clock.advance(30_000)
    expect((await gate.take({}, { cost: 2 })).ok).toBe(true)
  })

  test('stands in line', async () => {
    const real = await serve(memory())
    const far = remote(real.url)
    const gate = createGate({ limit: '100/s burst 1', store: far, ...patient })
    const order: number[] = []
    await Promise.all([1, 2, 3].map((n) => gate.wait('a').then(({ ok }) => ok && order.push(n))))
    expect(order).toEqual([1, 2, 3])
    far.close()
    await real.close()
  })

  test('gives nothing back to a server that has begun anew', async () => {
    const gate = createGate({ limit: '10/min', store: store(), ...patient })
    const old = await gate.take('a', { cost: 6 })
    const { port } = serving
    await serving.close()
    serving = await serve(memory({ clock }), { port })
    await until('the server', async () => (await gate.peek('a')).degraded === false || undefined)
    await gate.take('a', { cost: 6 })
    await old.refund()
    expect((await gate.peek('a')).remaining).toBe(4)
  })
})
