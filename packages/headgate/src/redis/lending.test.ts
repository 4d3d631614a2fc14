import { describe, expect, test } from 'vitest'
import { randomBelow, seed } from '../../test/random.ts'
import { canStartRedis } from '../../test/redis-server.ts'
import { rig } from '../../test/redis-store.ts'
import type { Policy } from '../algorithms/algorithm.ts'
import { compileLimit } from '../limit.ts'
import type { LoanAsk } from '../stores/lending.ts'
import { memory } from '../stores/memory.ts'
import type { Counter, Op, Outcome, Result } from '../stores/store.ts'

const policies: Record<string, Policy> = {
  gcra: compileLimit('100/s burst 100'),
  'gcra, uneven': compileLimit({ limit: 700, per: '9s', burst: 150 }),
  'fixed-window': compileLimit({ limit: 200, per: '2s', algorithm: 'fixed-window' }),
  'fixed-window, first hit': compileLimit({ limit: 200, per: '2s', algorithm: 'fixed-window', align: 'first-hit' }),
  calendar: compileLimit('500/day calendar Europe/Berlin'),
  'sliding-window': compileLimit({ limit: 200, per: '2s', algorithm: 'sliding-window' }),
  'strict-window': compileLimit('600/6s strict'),
}

/** What of an outcome is told; the wait of a message is nobody's. */
function told({ ok, remaining, waitUs, resetUs, growUs, ref, refPart, atUs, loan }: Outcome) {
  if (loan === undefined) return { ok, remaining, waitUs, resetUs, growUs, ref, refPart, atUs }
  return { remaining, resetUs, growUs, ...(loan.units > 0 && { ref, refPart }), atUs, loan }
}

function outcomesOf(results: readonly Result[]): Outcome[] {
  return results.map(({ outcomes }) => outcomes[0] as Outcome)
}

describe.skipIf(!canStartRedis)(`leases in Redis (HEADGATE_SEED=${seed})`, () => {
  const own = rig()

  test.each(Object.entries(policies))('are made of %s as in this process, to the last number', async (name, policy) => {
    const store = await own.store({ quickDeny: false })
    const counter: Counter = { space: `hg:${name}`, policy }
    const [near, nearCounter] = [memory(), { space: 'near', policy }]
    const seqs = [0, 0, 0, 0]
    const booked: Op[] = []
    let nowUs = Date.UTC(2026, 2, 29) * 1000
    const random = randomBelow(seed)
    const message = (): LoanAsk => {
      const holder = random(4)
      // Now and then one that comes again, or late.
      const seq = random(5) === 0 ? random((seqs[holder] as number) + 1) : ++(seqs[holder] as number)
      const most = Math.floor(policy.limit / 2)
      const common = { holder: 9_007_199_254_740_000 + holder, seq, lifeUs: 1_000_000, most }
      return { ...common, held: random(40), give: random(3) === 0 ? random(40) : 0, want: random(60) }
    }
    seqs.fill(0)
    for (let step = 0; step < 400; step++) {
      nowUs += random(10) === 0 ? random(1_500_000) : random(40_000)
      const kind = random(8)
      const loan = kind < 4 ? message() : undefined
      const take: Op = { verb: 'take', counter, key: 'k', cost: 1 + random(12) }
      const back = kind === 4 ? booked.splice(random(booked.length), 1)[0] : undefined
      const op: Op = loan ? { verb: 'lease', counter, key: 'k', cost: loan.want, loan } : (back ?? take)
      // Alone, and beside others in one call: of the same kind, and of another.
      const others = [take, { ...op, key: 'third' }]
        .slice(random(3))
        .map((other) => ({ ...other, key: `${other.key}!` }))
      const groups = [op, ...others].map((each) => ({ ops: [each] }))
      const [outcome, ...rest] = outcomesOf((await store.run(groups, nowUs)) as Result[])
      const wanted = outcomesOf(
        near.run(
          groups.map(({ ops: [each] }) => ({ ops: [{ ...(each as Op), counter: nearCounter }] })),
          nowUs,
        ),
      )
      if (op.verb !== 'settle') expect([step, [outcome, ...rest].map(told)]).toEqual([step, wanted.map(told)])
      if (op === take && outcome?.ok) booked.push({ ...take, verb: 'settle', cost: -take.cost, mark: outcome })
    }
  })

  test('keep a key for as long as units of it may be spent, and as they take to come back', async () => {
    const store = await own.store()
    const counter: Counter = { space: 'hg:fast', policy: compileLimit({ limit: 100_000, per: '1s', burst: 100_000 }) }
    const loan = { holder: 1, seq: 1, held: 0, give: 0, want: 50_000, lifeUs: 5_000_000, most: 50_000 }
    await store.run([{ ops: [{ verb: 'lease', counter, key: 'k', cost: 50_000, loan }] }])
    const ms = Number(await own.server.call('PTTL', 'hg:fast:k'))
    expect(ms).toBeGreaterThan(5_300)
    expect(ms).toBeLessThanOrEqual(5_501)
  })

  test('are counted by those who ask each time, and are not forgotten by a reset', async () => {
    const store = await own.store({ quickDeny: false })
    const counter: Counter = { space: 'hg:slow', policy: compileLimit('100/day') }
    const ask = { holder: 1, seq: 1, held: 0, give: 0, want: 40, lifeUs: 60_000_000, most: 50 }
    const run = async (op: Omit<Op, 'counter' | 'key'>) =>
      ((await store.run([{ ops: [{ ...op, counter, key: 'k' }] }])) as Result[])[0]?.outcomes[0] as Outcome
    await run({ verb: 'lease', cost: 40, loan: ask })
    expect((await run({ verb: 'peek', cost: 1 })).remaining).toBe(60)
    expect((await run({ verb: 'take', cost: 61 })).ok).toBe(false)
    expect((await run({ verb: 'take', cost: 10 })).remaining).toBe(50)
    await run({ verb: 'reset', cost: 0 })
    expect((await run({ verb: 'peek', cost: 1 })).remaining).toBe(60)
    await run({ verb: 'block', cost: 60_000_000 })
    expect((await run({ verb: 'lease', cost: 5, loan: { ...ask, seq: 2, held: 40, want: 5 } })).loan).toMatchObject({
      units: 0,
      kept: 40,
    })
    await run({ verb: 'block', cost: 0 })
    await run({ verb: 'lease', cost: 0, loan: { ...ask, seq: 3, give: 40, want: 0 } })
    expect((await run({ verb: 'peek', cost: 1 })).remaining).toBe(100)
  })
})
