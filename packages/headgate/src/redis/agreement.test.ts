import { describe, expect, test } from 'vitest'
import { clientKinds } from '../../test/clients.ts'
import { randomBelow, seed } from '../../test/random.ts'
import { canStartRedis } from '../../test/redis-server.ts'
import { patient, rig } from '../../test/redis-store.ts'
import { tables } from '../algorithms/all.cases.ts'
import { createGate } from '../index.ts'
import { seen } from '../properties/support.ts'
import type { Store } from '../stores/store.ts'
import { type FakeClock, fakeClock, storeSuite } from '../testing/index.ts'

/** The store, told the time by the suite's clock. */
function at(clock: FakeClock, store: Store): Store {
  return { run: (groups, nowUs) => store.run(groups, nowUs ?? Math.round(clock.now() * 1000)) }
}

describe.skipIf(!canStartRedis)(`Redis decides as memory does (HEADGATE_SEED=${seed})`, () => {
  const { store } = rig()

  describe.each(clientKinds)('through %s', (kind) => {
    const make = async (clock: FakeClock) => at(clock, await store({ quickDeny: false }, kind))
    for (const { name, run } of storeSuite(make, { seed, steps: 400 })) test(name, run)
  })

  test.each([1, 2, 3])('for other random steps (%i)', async (n) => {
    const make = async (clock: FakeClock) => at(clock, await store({ quickDeny: false }))
    await storeSuite(make, { seed: seed + n, steps: 800 })
      .at(-1)
      ?.run()
  })

  test('about a log that is cleared and corrected many times over', async () => {
    const clock = fakeClock(Date.UTC(2026, 0, 1))
    const options = { limit: '40/s', algorithm: 'sliding-log', clock, ...patient } as const
    const [local, remote] = [createGate(options), createGate({ ...options, store: await store({ quickDeny: false }) })]
    const open: { refund(): unknown }[][] = []
    const random = randomBelow(seed)
    for (let i = 0; i < 1_000; i++) {
      clock.advance(random(50))
      if (random(5) === 0) for (const decision of open.splice(random(30), 1).flat()) await decision.refund()
      const cost = 1 + random(3)
      const [wanted, decision] = [local.take('a', { cost }), await remote.take('a', { cost })]
      expect(seen(decision)).toEqual(seen(wanted))
      if (wanted.ok) open.unshift([wanted, decision])
    }
  })

  test.each(['1000/min burst 2000', '700/min burst 2000'] as const)(
    'about %s of which more is given back out of turn than is kept apart',
    async (limit) => {
      const clock = fakeClock(Date.UTC(2026, 0, 1))
      const options = { limit, clock, ...patient }
      const [local, remote] = [
        createGate(options),
        createGate({ ...options, store: await store({ quickDeny: false }) }),
      ]
      const random = randomBelow(seed)
      const open: { readonly cost: number; settle(units: number): unknown }[][] = []
      for (let i = 0; i < 150; i++) {
        const cost = 1 + random(9)
        open.push([local.take('a', { cost }), await remote.take('a', { cost })])
      }
      while (open.length > 0) {
        clock.advance(random(50))
        for (const decision of open.splice(random(open.length), 1).flat())
          await decision.settle(Math.floor(decision.cost / 4))
        expect(seen(await remote.peek('a'))).toEqual(seen(local.peek('a')))
      }
    },
  )

  describe.each(Object.entries(tables))('%s', (_, { limit, options, cases }) => {
    test.each(Object.entries(cases))('%s', async (_, rows) => {
      const clock = fakeClock()
      const gate = createGate({ limit, ...options, store: await store(), clock, ...patient })
      for (const [at, cost, ok, remaining, retryAfter] of rows) {
        clock.set(at * 1000)
        const seen = await gate.take('key', { cost })
        expect([at, cost, seen.ok, seen.remaining, seen.retryAfterMs / 1000, seen.degraded]).toEqual([
          at,
          cost,
          ok,
          remaining,
          retryAfter,
          false,
        ])
      }
    })
  })
})
