import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { canStartRedis } from '../../test/redis-server.ts'
import { patient, rig } from '../../test/redis-store.ts'
import { createGate } from '../index.ts'
import type { Booking } from '../properties/model.ts'
import { clockInUs, expected, limitOf, modelOf, runs, seen } from '../properties/support.ts'
import { kinds, rules, type Step, smallRules, type Trace, traces, YEAR } from '../properties/traces.ts'
import type { RedisStore } from './index.ts'

let gates = 0

/** A gate on Redis and the model in big integers, told the same and compared after every call. */
async function follow(store: RedisStore, { rule, steps }: Trace, corrects: boolean): Promise<void> {
  const { clock, at: tell } = clockInUs()
  const gate = createGate({ limit: limitOf(rule), store, clock, prefix: `trace-${++gates}`, ...patient })
  const model = modelOf(rule)
  type Taken = Awaited<ReturnType<typeof gate.take>>
  const open: { decision: Taken; booking: Booking; units: bigint }[] = []

  async function take({ at, cost }: Step, options: { cost?: number; upTo?: number }, units = cost): Promise<void> {
    const booking = model.take(at, units)
    const decision = await gate.take('key', options)
    expect(seen(decision)).toEqual(expected(model, at, units, booking !== undefined))
    if (booking !== undefined) open.push({ decision, booking, units })
  }

  async function correct({ at, cost, pick }: Step): Promise<void> {
    const [charge] = open.splice(pick % Math.max(1, open.length), 1)
    if (charge === undefined) return
    const { decision, booking, units } = charge
    const debtUs = model.fullAt(at) - at + (cost * rule.windowUs) / rule.count
    const actual = pick % 3 === 0 || debtUs > 90n * YEAR ? 0n : cost
    if (actual > units) model.book(at, actual - units)
    else model.giveBack(at, booking, units - actual)
    await (actual === 0n ? decision.refund() : decision.settle(Number(actual)))
    expect(seen(await gate.peek('key'))).toEqual(expected(model, at, 1n, model.admits(at, 1n)))
  }

  for (const step of steps) {
    const { at, cost, pick } = step
    tell(at)
    if (corrects && pick >= 70) await correct(step)
    else if (pick < 20)
      expect(seen(await gate.peek('key', { cost: Number(cost) }))).toEqual(
        expected(model, at, cost, model.admits(at, cost)),
      )
    else if (pick < 30 && cost > 0n) {
      const left = model.remaining(at)
      await take(step, { upTo: Number(cost) }, left === 0n ? 1n : left < cost ? left : cost)
    } else await take(step, { cost: Number(cost) })
  }
}

describe.skipIf(!canStartRedis).each(kinds)('%s in Redis', (kind) => {
  const { store } = rig()
  // Nothing is remembered here: what is left grows while a denial stands.
  const asked = () => store({ quickDeny: false })

  test('decides every call as the model does, while the clock goes on or jumps to and fro [P2, P11, P15]', async () => {
    const redis = await asked()
    const either = fc.oneof(traces(rules(kind)), traces(smallRules(kind)), traces(rules(kind), { back: true }))
    await fc.assert(
      fc.asyncProperty(either, (trace) => follow(redis, trace, false)),
      runs(20),
    )
  })

  test('decides as the model does after refunds and corrections [P9, P15]', async () => {
    const redis = await asked()
    const either = fc.oneof(traces(rules(kind)), traces(smallRules(kind), { dense: true }))
    await fc.assert(
      fc.asyncProperty(either, (trace) => follow(redis, trace, true)),
      runs(20),
    )
  })
})
