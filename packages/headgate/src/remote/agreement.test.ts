import { describe, expect, onTestFinished, test } from 'vitest'
import { seed } from '../../test/random.ts'
import { serve } from '../../test/remote-server.ts'
import { tables } from '../algorithms/all.cases.ts'
import { createGate, type Group, memory, type Op, type Outcome, type Result, type Store } from '../index.ts'
import { compileLimit } from '../limit.ts'
import { type FakeClock, fakeClock, storeSuite } from '../testing/index.ts'
import { remote } from './index.ts'

const patient = { timeoutMs: 10_000, onStoreError: 'deny' } as const

/** A store behind a real port; both end together. */
async function remoteOn(clock: FakeClock): Promise<Store> {
  const serving = await serve(memory({ clock }), { tellTime: true })
  const store = remote(serving.url, { timeoutMs: 10_000 })
  return {
    run: (groups, nowUs, deadlineUs) => store.run(groups, nowUs, deadlineUs),
    async close() {
      store.close()
      await serving.close()
    },
  }
}

describe(`a store behind a port decides as memory does (HEADGATE_SEED=${seed})`, () => {
  for (const { name, run } of storeSuite(remoteOn, { seed })) test(name, run)

  test.each([1, 2, 3])('for other random steps (%i)', async (n) => {
    await storeSuite(remoteOn, { seed: seed + n, steps: 800 })
      .at(-1)
      ?.run()
  })

  test('to the last bit, bookings included', async () => {
    const clock = fakeClock(Date.UTC(2026, 0, 1))
    const [far, near] = [await remoteOn(clock), memory({ clock })]
    onTestFinished(() => far.close?.())
    const counters = ['7/min burst 3', '3000000/s', '20/h strict', '1/year', 'unlimited', '999999999999999/year'].map(
      (limit, i) => ({ space: `s${i}`, policy: compileLimit(limit) }),
    )
    const marks: Outcome[][] = [[], []]
    for (let step = 0; step < 300; step++) {
      clock.advance(step % 7 === 0 ? 12_345.678 : 0.003)
      const group = (store: number): Group => {
        const ops = counters.map((counter, i): Op => {
          const cost = i === 5 ? 99_999_999_999_999 : 1 + (step % 3)
          if (step % 3 < 2) return { verb: 'take', counter, key: 'k', cost, observe: step % 5 > 0 }
          const mark = marks[store]?.[i]
          return { verb: 'settle', counter, key: 'k', cost: step % 2 === 0 ? -cost : cost, ...(mark && { mark }) }
        })
        return { ops, cost: 1 }
      }
      const seen = (await far.run([group(0)])) as [Result]
      const wanted = near.run([group(1)]) as [Result]
      if (step % 3 < 2) [marks[0], marks[1]] = [[...seen[0].outcomes], [...wanted[0].outcomes]]
      expect(seen.map(withoutEra)).toStrictEqual(wanted.map(withoutEra))
    }
  })

  describe.each(Object.entries(tables))('%s', (_, { limit, options, cases }) => {
    test.each(Object.entries(cases))('%s', async (_, rows) => {
      const clock = fakeClock()
      const store = await remoteOn(clock)
      onTestFinished(() => store.close?.())
      const gate = createGate({ limit, ...options, store, clock, ...patient })
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

/** Eras count from where the process that answers has begun. */
function withoutEra({ outcomes, ...result }: Result): unknown {
  return { ...result, outcomes: outcomes.map((outcome) => ({ ...outcome, era: 0 })) }
}
