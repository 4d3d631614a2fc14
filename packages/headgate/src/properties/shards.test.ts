import { describe, expect, test } from 'vitest'
import { randomBelow, seed } from '../../test/random.ts'
import type { Policy } from '../algorithms/algorithm.ts'
import { compileLimit } from '../limit.ts'
import { memory } from '../stores/memory.ts'
import { Shards } from '../stores/shards.ts'
import { type Booking, blankOutcome, type Counter, type Op, type Outcome, type Result } from '../stores/store.ts'
import { fakeClock } from '../testing/index.ts'
import { runs } from './support.ts'

const SHARDS = 8

interface Admission {
  readonly atUs: number
  readonly cost: number
}
const policies: Record<string, Policy> = {
  gcra: compileLimit('150/s burst 203'),
  'gcra, uneven': compileLimit({ limit: 700, per: '9s', burst: 150 }),
  'token-bucket': compileLimit({ limit: 300, per: '2s', burst: 131, algorithm: 'token-bucket' }),
  'fixed-window': compileLimit({ limit: 251, per: '2s', algorithm: 'fixed-window' }),
  'sliding-window': compileLimit({ limit: 203, per: '2s', algorithm: 'sliding-window' }),
  'sliding-log': compileLimit({ limit: 205, per: '2s', algorithm: 'sliding-log' }),
  'strict-window': compileLimit('607/6s strict'),
}

/** How far these admissions go beyond what the whole, asked each time, would let through. */
function excess(policy: Policy, admitted: readonly Admission[]): number {
  let state: Float64Array | undefined = policy.fit === undefined ? new Float64Array(policy.words) : undefined
  let most = 0
  for (const { atUs, cost } of admitted) {
    state = (policy.fit?.(state, atUs) ?? state) as Float64Array
    if (policy.waitUs(state, 0, atUs, cost) > 0)
      most = Math.max(most, policy.used(state, 0, atUs) + cost - policy.limit)
    policy.book(state, 0, atUs, cost, blankOutcome())
  }
  return most
}

/** Processes that share the parts of one key. */
function world(policy: Policy, count = 3) {
  const clock = fakeClock(1_000_000)
  const store = memory({ clock })
  const processes = Array.from({ length: count }, (_, n) => new Shards(store, SHARDS, undefined, 5 * n))
  const counter: Counter = { space: 's', policy }
  async function run(n: number, ops: readonly Op[]): Promise<Result> {
    const [result] = await (processes[n % count] as Shards).run([{ ops, cost: 1 }])
    return result as Result
  }
  const op = (verb: Op['verb'], cost: number, mark?: Booking): Op => ({
    verb,
    counter,
    key: 'k',
    cost,
    ...(mark && { mark }),
  })
  const take = async (n: number, cost: number) => (await run(n, [op('take', cost)])).outcomes[0] as Outcome
  return { clock, store, counter, run, op, take }
}

describe.each(Object.entries(policies))(`a key of %s in parts (HEADGATE_SEED=${seed})`, (_name, policy) => {
  test('lets through nothing that the whole would refuse, also when units are given back', async () => {
    const rounds = runs(10).numRuns
    let passed = 0
    for (let n = 0; n < rounds; n++) {
      const random = randomBelow(seed * 31 + n * 7919)
      const { clock, take, run, op } = world(policy)
      const admitted: Admission[] = []
      for (let i = 0; i < 1_500; i++) {
        clock.advance(random(12))
        const cost = random(40) === 0 ? 1 + random(policy.limit) : 1 + random(3)
        const outcome = await take(random(3), cost)
        if (!outcome.ok) continue
        // Given back at once, as if it had never been; by whichever process.
        if (cost < 4 && random(10) === 0) await run(random(3), [op('settle', -cost, outcome)])
        else admitted.push({ atUs: clock.now() * 1000, cost })
      }
      expect(excess(policy, admitted)).toBe(0)
      passed += admitted.length
    }
    // One request may cost as much as many, so a single round may see few.
    expect(passed).toBeGreaterThan(100 * rounds)
  })

  test('has just the limit when it is idle, in one request or in many', async () => {
    const all = world(policy)
    expect(await all.take(0, policy.limit + 1)).toMatchObject({ ok: false, waitUs: Infinity })
    expect(await all.take(0, policy.limit)).toMatchObject({ ok: true, remaining: 0 })
    expect((await all.take(0, 1)).ok).toBe(false)
    const one = world(policy, 1)
    let passed = 0
    for (let i = 0; i < 2 * policy.limit; i++) if ((await one.take(0, 1)).ok) passed++
    expect(passed).toBe(policy.limit)
  })

  test('refuses early, but not before nearly all is spent, when processes go round each for itself', async () => {
    for (let n = 0; n < runs(10).numRuns; n++) {
      const random = randomBelow(seed * 31 + n * 104_729)
      const { take } = world(policy, 5)
      let passed = 0
      let refused = false
      while (!refused) {
        if ((await take(random(5), 1)).ok) passed++
        else refused = true
      }
      expect(passed).toBeGreaterThanOrEqual(policy.limit - Math.sqrt(SHARDS * policy.limit * Math.log(SHARDS)))
    }
  })

  test('after the wait that a refusal tells, lets through what it refused', async () => {
    const { take, clock, store, counter, op } = world(policy, 1)
    let waitUs = 0
    // A refusal by four parts does not say that the others are spent.
    for (let refused = 0; refused < 2 * SHARDS; ) {
      const outcome = await take(0, 1)
      if (!outcome.ok) refused++
      waitUs = outcome.waitUs
    }
    expect(waitUs).toBeGreaterThan(0)
    clock.advance(waitUs / 1000)
    const again = new Shards(store, SHARDS)
    let passed = false
    for (let i = 0; i < SHARDS && !passed; i++)
      passed = (await again.run([{ ops: [{ ...op('take', 1), counter }] }]))[0]?.ok === true
    expect(passed).toBe(true)
  })
})

describe('parts of a key', () => {
  test('refuse nobody while one of the next three has units', async () => {
    const { take, store, counter } = world(policies.gcra as Policy, 1)
    for (const nth of [0, 1, 2, 4, 5, 6]) {
      const part = { space: `s{}${nth}`, policy: counter.policy.share(SHARDS, nth) }
      store.run([{ ops: [{ verb: 'take', counter: part, key: 'k', cost: part.policy.limit }] }])
    }
    for (let i = 0; i < 3 * SHARDS; i++) expect((await take(0, 1)).ok).toBe(true)
  })

  test('are all blocked and all reset', async () => {
    const { run, op, take } = world(policies.gcra as Policy)
    await take(0, 200)
    await run(0, [op('reset', 0)])
    expect((await take(0, 203)).ok).toBe(true)
    await run(0, [op('reset', 0)])
    await run(0, [op('block', 1_000_000)])
    for (let i = 0; i < 2 * SHARDS; i++) expect((await take(0, 1)).ok).toBe(false)
    await run(0, [op('block', 0)])
    expect((await take(0, 1)).ok).toBe(true)
  })

  test('are not made of limits that are small, count slots or start with their first hit', async () => {
    for (const limit of [
      compileLimit('100/s'),
      compileLimit({ limit: 1000, per: '1s', algorithm: 'leaky-bucket' }),
      compileLimit({ limit: 1000, per: '1s', algorithm: 'fixed-window', align: 'first-hit' }),
    ]) {
      const { take, store, op } = world(limit)
      expect((await take(0, 3)).ok).toBe(true)
      expect(store.run([{ ops: [op('peek', 1)] }])[0]?.outcomes[0]?.remaining).toBe(limit.limit - 3)
    }
  })

  test('know a repeat by its id, whichever process it comes to', async () => {
    const clock = fakeClock(1_000_000)
    const store = memory({ clock })
    const counter: Counter = { space: 's', policy: policies.gcra as Policy }
    const ops: Op[] = [{ verb: 'take', counter, key: 'k', cost: 2 }]
    const run = async () => {
      const recall = () => ops
      const group = { ops, cost: 2, id: 'order-7', idUs: 1_000_000, memo: 'm', recall }
      return (await new Shards(store, SHARDS).run([group]))[0] as Result
    }
    const first = await run()
    const again = await run()
    expect(again.memo).toBe('m')
    expect(again.outcomes[0]).toEqual(first.outcomes[0])
    let left = 0
    for (let nth = 0; nth < SHARDS; nth++) {
      const part = { space: `s{}${nth}`, policy: counter.policy.share(SHARDS, nth) }
      left += store.run([{ ops: [{ verb: 'peek', counter: part, key: 'k', cost: 1 }] }])[0]?.outcomes[0]?.remaining ?? 0
    }
    expect(left).toBe(203 - 2)
  })
})
