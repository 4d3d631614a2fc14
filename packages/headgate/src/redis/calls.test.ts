import { describe, expect, test } from 'vitest'
import { clientKinds, connect } from '../../test/clients.ts'
import { canStartRedis } from '../../test/redis-server.ts'
import { type Calls, patient, rig } from '../../test/redis-store.ts'
import { ifStalled } from '../../test/stalls.ts'
import { until } from '../../test/until.ts'
import { createGate } from '../index.ts'
import { redis } from './index.ts'

const scripts = ({ evalsha = 0, eval: evaluated = 0 }: Calls) => evalsha + evaluated

describe.skipIf(!canStartRedis)('calls to Redis', { retry: ifStalled }, () => {
  const own = rig()
  const { store, calls } = own

  test('a take is one call, with one read and one write', async () => {
    const gate = createGate({ limit: '10/min', store: await store(), ...patient })
    expect(await calls(() => gate.take('a'))).toEqual({ evalsha: 1, time: 1, get: 1, set: 1 })
  })

  test('a request under many limits is one call', async () => {
    const by = (user: string) => user
    const gate = createGate({
      limits: {
        second: { limit: '10/day burst 20', by },
        strict: { limit: '5/10year strict', by },
        log: { limit: '5/day', algorithm: 'sliding-log', by },
        year: { limit: '100/year calendar Europe/Berlin', by },
        window: { limit: '50/10year', algorithm: 'fixed-window', by },
        sliding: { limit: '50/10year', algorithm: 'sliding-window', align: 'staggered', by },
        busy: { atOnce: 5 },
        everybody: { limit: '1000/day' },
      },
      store: await store(),
      ...patient,
    })
    expect(scripts(await calls(() => gate.take('a')))).toBe(1)
    expect(scripts(await calls(() => gate.take('a', { id: 'x', cost: 2 })))).toBe(1)
    const { limits } = await gate.peek('a')
    expect(limits.map(({ remaining }) => remaining)).toEqual([17, 2, 2, 97, 47, 47, 2, 997])
  })

  test.each(clientKinds)('takes of one turn go together, 32 at a time, through %s', async (kind) => {
    const gate = createGate({ limit: '1000/day', store: await store({}, kind), ...patient })
    const turn = (count: number) => () =>
      Promise.all(Array.from({ length: count }, (_, i) => gate.take(`key-${i % 7}`)))
    expect(scripts(await calls(turn(32)))).toBe(1)
    expect(scripts(await calls(turn(33)))).toBe(2)
    expect(scripts(await calls(turn(320)))).toBe(10)
    const left = await Promise.all(Array.from({ length: 7 }, (_, i) => gate.peek(`key-${i}`)))
    expect(left.reduce((sum, { remaining }) => sum + 1000 - remaining, 0)).toBe(385)
  })

  test('takes of one turn are decided in order, each knowing those before it', async () => {
    const gate = createGate({ limit: '40/day', store: await store(), ...patient })
    const decisions = await Promise.all(Array.from({ length: 60 }, () => gate.take('a')))
    expect(decisions.map(({ remaining }) => remaining)).toEqual(
      Array.from({ length: 60 }, (_, i) => Math.max(0, 39 - i)),
    )
    expect(decisions.filter(({ ok }) => ok)).toHaveLength(40)
  })

  test('gates with different limits share the call of their turn', async () => {
    const shared = await store()
    const [one, two] = ['10/min', '20/h'].map((limit) =>
      createGate({ limit, store: shared, prefix: `p${limit}`, ...patient }),
    )
    expect(scripts(await calls(() => Promise.all([one?.take('a'), two?.take('a'), two?.take('b')])))).toBe(1)
  })

  test.each(clientKinds)(
    'a server that has never seen the script gets it with the first call, through %s',
    async (kind) => {
      await own.server.call('SCRIPT', 'FLUSH')
      const { client, close } = await connect(kind, own.server)
      const gate = createGate({ limit: '100/day', store: redis(client), ...patient })
      // In the same turn, so that the name of the script is not worked out yet.
      const decisions = await Promise.all(Array.from({ length: 30 }, () => gate.take('new')))
      expect(decisions.map(({ ok, degraded }) => ok && !degraded)).not.toContain(false)
      // From then on it is called by its name.
      await until('EVALSHA', async () => (await calls(() => gate.take('later'))).evalsha)
      expect((await gate.peek('new')).remaining).toBe(70)
      await close()
    },
  )

  test.each(clientKinds)('after SCRIPT FLUSH one call brings the script again, through %s', async (kind) => {
    const gate = createGate({ limit: '100/day', store: await store({}, kind), ...patient })
    await gate.take('a')
    await own.server.call('SCRIPT', 'FLUSH')
    const { evalsha, eval: evaluated } = await calls(async () => {
      expect((await gate.take('a')).remaining).toBe(98)
      expect((await gate.take('a')).remaining).toBe(97)
    })
    // The failed attempt, the reload, and the next as usual.
    expect([evalsha, evaluated]).toEqual([2, 1])
  })

  test('SCRIPT FLUSH under load charges nobody twice and loses nobody', async () => {
    const stores = [await store(), await store({}, 'node-redis')]
    const gates = stores.map((store) =>
      createGate({
        limits: { quick: { limit: '5000/10year' }, log: { limit: '5000/10year', algorithm: 'sliding-log' } },
        store,
        ...patient,
      }),
    )
    let flushing = true
    const flushes = (async () => {
      let count = 0
      for (; flushing; count++) await own.server.call('SCRIPT', 'FLUSH')
      return count
    })()
    let admitted = 0
    await Promise.all(
      gates.flatMap((gate) =>
        Array.from({ length: 32 }, async () => {
          for (let i = 0; i < 40; i++) if ((await gate.take('a')).ok) admitted++
        }),
      ),
    )
    flushing = false
    expect(await flushes).toBeGreaterThan(10)
    expect(admitted).toBe(2 * 32 * 40)
    const left = await gates[0]?.peek('a')
    expect(left?.limits.map(({ remaining }) => remaining)).toEqual([5000 - admitted, 5000 - admitted])
  })
})
