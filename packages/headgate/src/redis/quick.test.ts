import { describe, expect, test } from 'vitest'
import { randomBelow, seed } from '../../test/random.ts'
import { canStartRedis } from '../../test/redis-server.ts'
import { rig } from '../../test/redis-store.ts'
import { compileLimit } from '../limit.ts'
import { memory } from '../stores/memory.ts'
import type { Counter, Group, Op, Outcome, Result } from '../stores/store.ts'

describe.skipIf(!canStartRedis)(`many takes in one call (HEADGATE_SEED=${seed})`, () => {
  const own = rig()

  test('are decided as in memory, though some of their keys are blocked, refunded, reset or had another limit', async () => {
    const [store, twin] = [await own.store({ quickDeny: false }), memory()]
    let nowUs = Date.UTC(2026, 2, 29) * 1000
    const random = randomBelow(seed)
    const policies = ['10/s burst 20', '10/s burst 40', '5/s burst 20', '20/s'].map((limit) => compileLimit(limit))
    // Each store notes in a counter where it put the counts.
    const counters = [0, 1].map(() => policies.map((policy): Counter => ({ space: 'hg:q', policy })))
    const booked: { key: string; policy: number; cost: number; marks: readonly Outcome[] }[] = []
    const both = async (groups: (of: number) => Group[]) => {
      const results = (await store.run(groups(0), nowUs)) as Result[]
      const wanted = twin.run(groups(1), nowUs)
      // Which era it was is each store's own affair.
      const told = (all: readonly Result[]) =>
        all.map(({ ok, outcomes }) => [ok, outcomes.map(({ era, ...rest }) => (rest.ok ? rest : { ...rest, ref: 0 }))])
      return { results, wanted, same: () => expect(told(results)).toEqual(told(wanted)) }
    }
    for (let step = 0; step < 150; step++) {
      nowUs += random(400_000)
      const takes = Array.from({ length: 1 + random(23) }, () => ({
        key: `k${random(12)}`,
        policy: random(12) === 0 ? random(4) : 0,
        cost: random(4) === 0 ? 1 + random(4) : 1,
      }))
      const opOf = (of: number, { key, policy, cost }: (typeof takes)[number]): Op => ({
        verb: 'take',
        counter: counters[of]?.[policy] as Counter,
        key,
        cost,
      })
      const { results, wanted, same } = await both((of) => takes.map((take) => ({ ops: [opOf(of, take)] })))
      same()
      for (const [i, take] of takes.entries())
        if (results[i]?.ok)
          booked.push({ ...take, marks: [results[i], wanted[i]].map((each) => each?.outcomes[0] as Outcome) })
      const [kind, key, blockUs] = [random(6), `k${random(12)}`, random(2) * 800_000]
      const back = booked.splice(random(booked.length), 1)[0]
      const change = (of: number): Op | undefined => {
        const base = { counter: counters[of]?.[0] as Counter, key }
        if (kind === 0) return { ...base, verb: 'block', cost: blockUs }
        if (kind === 1) return { ...base, verb: 'reset', cost: 0 }
        if (kind > 3 || back === undefined) return undefined
        const counter = counters[of]?.[back.policy] as Counter
        return { verb: 'settle', counter, key: back.key, cost: -back.cost, mark: back.marks[of] as Outcome }
      }
      if (change(0) !== undefined) await both((of) => [{ ops: [change(of) as Op] }])
    }
  })
})
