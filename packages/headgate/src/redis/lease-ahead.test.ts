import { describe, expect, test } from 'vitest'
import { randomBelow, seed } from '../../test/random.ts'
import { canStartRedis } from '../../test/redis-server.ts'
import { rig } from '../../test/redis-store.ts'
import { until } from '../../test/until.ts'
import type { Policy } from '../algorithms/algorithm.ts'
import { compileLimit } from '../limit.ts'
import { type Lent, type LoanAsk, lapse, lend } from '../stores/lending.ts'
import { memory } from '../stores/memory.ts'
import { blankOutcome, type Counter, type Op, type Outcome, type Result } from '../stores/store.ts'
import { excess } from '../testing/simulation/meter.ts'
import { redis } from './index.ts'

const LIFE_US = 1_000_000
const policies: Record<string, Policy> = {
  'leaky-bucket': compileLimit({ limit: 100, per: '1s', burst: 100, algorithm: 'leaky-bucket' }),
  'leaky-bucket, uneven': compileLimit({ limit: 700, per: '9s', burst: 150, algorithm: 'leaky-bucket' }),
}

/** A key that lends, and whose takes may be booked ahead: the same in this process. */
class Twin {
  readonly #key: Lent

  constructor(policy: Policy) {
    this.#key = { policy, state: new Float64Array(policy.words), at: 0, loans: [], late: undefined, blocked: false }
  }

  lend(ask: LoanAsk, nowUs: number): Outcome {
    const outcome = this.#start(nowUs)
    const loan = lend(this.#key, nowUs, ask, outcome)
    this.#key.policy.look(this.#key.state, 0, nowUs, outcome)
    return { ...outcome, loan }
  }

  take(cost: number, withinUs: number, nowUs: number): Result {
    const outcome = this.#start(nowUs)
    const { policy, state, loans, late } = this.#key
    const lent = lapse(policy, state, 0, nowUs, loans)
    const waitUs = policy.waitUs(state, 0, nowUs, cost)
    outcome.ok = waitUs === 0 || (waitUs <= withinUs && policy.sameAt?.(state, 0, nowUs, nowUs + waitUs, lent) === true)
    if (outcome.ok) policy.book(state, 0, nowUs, cost, outcome, late)
    else outcome.waitUs = waitUs
    policy.look(state, 0, nowUs, outcome)
    return { ok: outcome.ok, cost: 0, outcomes: [outcome], ...(outcome.ok && waitUs > 0 && { waitUs }) }
  }

  settle(cost: number, mark: Outcome, nowUs: number): void {
    this.#start(nowUs)
    const { policy, state, loans, late } = this.#key
    const out = lapse(policy, state, 0, nowUs, loans)
    if (policy.stays?.(state, 0, nowUs, mark, late)) return
    this.#key.late = policy.giveBack(state, 0, nowUs, cost, mark, late)
    if (out > 0) policy.hold?.(state, 0, nowUs, out)
  }

  #start(nowUs: number): Outcome {
    const key = this.#key
    if (key.late !== undefined && key.late.untilUs <= nowUs) key.late = undefined
    return { ...blankOutcome(), atUs: nowUs }
  }
}

interface Held {
  readonly holder: number
  seq: number
  units: number
  untilUs: number
  /** When it will spend all. */
  spendUs: number
}

/** Holders that spend when it hurts most: all at once, at an instant of their choice until the last that they may. */
class Holders {
  readonly spent: { atUs: number; cost: number; period: number }[] = []
  readonly #held = [1, 2, 3].map((holder): Held => ({ holder, seq: 0, units: 0, untilUs: 0, spendUs: Infinity }))

  ask(n: number, want: number, give: number, most: number): LoanAsk {
    const own = this.#held[n] as Held
    const given = Math.min(give, own.units)
    own.units -= given
    return { holder: own.holder, seq: ++own.seq, held: own.units, give: given, want, lifeUs: LIFE_US, most }
  }

  answer(n: number, { loan }: Outcome, nowUs: number): void {
    const own = this.#held[n] as Held
    own.units = (loan?.kept ?? 0) + Math.max(0, loan?.units ?? 0)
    own.untilUs = nowUs + (loan?.lifeUs ?? 0)
  }

  spendAt(n: number, atUs: number): void {
    const own = this.#held[n] as Held
    own.spendUs = atUs
  }

  /** What was to be spent by now is; whose time is over had their last moment. */
  advance(nowUs: number): void {
    for (const own of this.#held) {
      const atUs = Math.min(own.spendUs, own.untilUs - 1)
      if (atUs > nowUs) continue
      if (own.units > 0) this.spent.push({ atUs, cost: own.units, period: 0 })
      own.units = 0
      own.spendUs = Infinity
    }
  }
}

/** What of an outcome is told; a message has no wait. */
function told({ ok, remaining, waitUs, resetUs, growUs, ref, refPart, loan }: Outcome) {
  if (loan === undefined) return { ok, remaining, waitUs, resetUs, growUs, ref, refPart }
  return { remaining, resetUs, growUs, ...(loan.units > 0 && { ref, refPart }), loan }
}

const opOf = (space: string, policy: Policy) => ({ counter: { space, policy }, key: 'k' })

type Step = (op: Op, nowUs: number) => Promise<Result>

/** Lends, takes now and for later, and gives back, all of one key; returns what was let through, and for when. */
async function traffic(policy: Policy, start: number, steps: number, step: Step) {
  const random = randomBelow(start)
  const counter: Counter = { space: `hg:${start}`, policy }
  const holders = new Holders()
  const taken: { atUs: number; cost: number; period: number }[] = []
  const most = Math.floor(policy.limit / 2)
  let [nowUs, ahead] = [Date.UTC(2026, 2, 29) * 1000, 0]
  const base = { counter, key: 'k' }
  for (let n = 0; n < steps; n++) {
    nowUs += random(10) === 0 ? random(1_500_000) : random(60_000)
    holders.advance(nowUs)
    const [kind, who] = [random(8), random(3)]
    if (kind < 3) {
      const loan = holders.ask(who, random(60), random(3) === 0 ? random(40) : 0, most)
      const { outcomes } = await step({ ...base, verb: 'lease', cost: loan.want, loan }, nowUs)
      holders.answer(who, outcomes[0] as Outcome, nowUs)
    } else if (kind === 3) holders.spendAt(who, nowUs)
    else {
      const take: Op = { ...base, verb: 'take', cost: 1 + random(policy.limit - 1), withinUs: random(2_000_000) }
      const { ok, waitUs = 0, outcomes } = await step(take, nowUs)
      if (waitUs > 0) ahead++
      const isBack = ok && waitUs > 0 && random(4) === 0
      if (ok && !isBack) taken.push({ atUs: nowUs + waitUs, cost: take.cost, period: 0 })
      // Whoever gives up a turn gives it back; where it stays, nobody leaves in it.
      if (isBack) await step({ ...base, verb: 'settle', cost: -take.cost, mark: outcomes[0] as Outcome }, nowUs)
      // The worst instant to spend what is held is that of a departure.
      else if (waitUs > 0 && random(3) === 0) holders.spendAt(who, nowUs + waitUs)
    }
  }
  return { admitted: [...holders.spent, ...taken].sort((a, b) => a.atUs - b.atUs), ahead }
}

function twinStep(twin: Twin): (op: Op, nowUs: number) => Result {
  return ({ verb, cost, loan, mark, withinUs = 0 }, nowUs) => {
    if (loan !== undefined) return { ok: true, cost: 0, outcomes: [twin.lend(loan, nowUs)] }
    if (verb === 'take') return twin.take(cost, withinUs, nowUs)
    twin.settle(-cost, mark as Outcome, nowUs)
    return { ok: true, cost: 0, outcomes: [blankOutcome()] }
  }
}

describe.each(Object.entries(policies))(`leases and departures of one key, %s (HEADGATE_SEED=${seed})`, (_, policy) => {
  test('together let through no more than the limit, at whichever instant all of them leave', async () => {
    let departures = 0
    for (let run = 0; run < 100; run++) {
      const step = twinStep(new Twin(policy))
      const seen = await traffic(policy, seed + run, 300, async (op, nowUs) => step(op, nowUs))
      expect([run, excess(policy, seen.admitted)]).toEqual([run, 0])
      departures += seen.ahead
    }
    expect(departures).toBeGreaterThan(500)
  })
})

describe.skipIf(!canStartRedis)(`leases and departures of one key in Redis (HEADGATE_SEED=${seed})`, () => {
  const own = rig()

  test.each(Object.entries(policies))('are decided of %s as in this process, to the last number', async (_, policy) => {
    const store = await own.store({ quickDeny: false })
    const step = twinStep(new Twin(policy))
    const [near, counter] = [memory(), { space: 'near', policy }]
    let n = 0
    const { ahead } = await traffic(policy, seed, 600, async (op, nowUs) => {
      const [result] = (await store.run([{ ops: [op] }], nowUs)) as [Result]
      const wanted = step(op, nowUs)
      const of = ({ ok, waitUs = 0, outcomes }: Result) => [n, ok, waitUs, told(outcomes[0] as Outcome)]
      const [inMemory] = near.run([{ ops: [{ ...op, counter }] }], nowUs) as [Result]
      if (op.verb !== 'settle') expect(of(result)).toEqual(of(wanted))
      if (op.verb !== 'settle') expect(of(inMemory)).toEqual(of(wanted))
      n++
      return result
    })
    expect(ahead).toBeGreaterThan(10)
  })

  test('a departure is not booked where units that are lent could be spent in the same moment', async () => {
    const store = await own.store({ quickDeny: false })
    const policy = policies['leaky-bucket'] as Policy
    const base = opOf('hg:both', policy)
    const nowUs = Date.UTC(2026, 2, 29) * 1000
    const loan = { holder: 1, seq: 1, held: 0, give: 0, want: 50, lifeUs: LIFE_US, most: 50 }
    await store.run([{ ops: [{ ...base, verb: 'lease', cost: 50, loan }] }], nowUs)
    const take = async (cost: number) =>
      ((await store.run([{ ops: [{ ...base, verb: 'take', cost, withinUs: LIFE_US }] }], nowUs)) as [Result])[0]
    // 80 and the 50 that are out are more than the burst of 100, whenever that is.
    expect(await take(80)).toMatchObject({ ok: false })
    expect(await take(50)).toMatchObject({ ok: true })
    expect(await take(50)).toMatchObject({ ok: true, waitUs: 500_000 })
  })

  test('units that this process holds do not wait for the departure of another limit: they would be back by then', async () => {
    const store = redis(await own.client(), { lease: true })
    const fast: Op = { ...opOf('hg:fast', compileLimit('1000/s burst 1000')), verb: 'take', cost: 1 }
    const slow: Op = {
      ...opOf('hg:slow', compileLimit({ limit: 10, per: '1s', burst: 1, algorithm: 'leaky-bucket' })),
      verb: 'take',
      cost: 1,
    }
    const run = async (...ops: Op[]) => ((await store.run([{ ops }])) as [Result])[0]
    await until('a lease', async () => {
      await run(fast)
      return store.run([{ ops: [fast] }]) instanceof Promise ? undefined : true
    })
    await until('the other to be used up', async () => (await run({ ...slow, withinUs: 60_000_000 })).waitUs)
    // 100 ms from now the fast one has all its units again, so what is charged to it now would not count then.
    expect(await run(fast, { ...slow, withinUs: 60_000_000 })).toMatchObject({ ok: false })
    await store.close()
  })
})
