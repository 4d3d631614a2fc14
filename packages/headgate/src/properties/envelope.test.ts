import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ceilDiv, max } from './model.ts'
import { gateAt, modelOf, runs, upToMs } from './support.ts'
import { buckets, kinds, type Rule, rules, smallRules, type Trace, traces } from './traces.ts'

interface Admitted {
  readonly at: bigint
  readonly units: bigint
}

/** Greedy: every other call takes all that is to be had. */
function admitted({ rule, steps }: Trace): Admitted[] {
  const gate = gateAt(rule)
  return steps.flatMap(({ at, cost, pick }) => {
    gate.at(at)
    const { ok, cost: got } = gate.take('k', pick % 2 ? { upTo: 1e15 } : { cost: Number(cost) })
    return ok && got > 0 ? [{ at, units: BigInt(got) }] : []
  })
}

/** The most that was admitted within one window's length, wherever that starts. */
function mostInAnyWindow(calls: readonly Admitted[], windowUs: bigint): bigint {
  const sums = calls.map(({ at: from }) =>
    calls.reduce((sum, { at, units }) => (at >= from && at < from + windowUs ? sum + units : sum), 0n),
  )
  return sums.reduce(max, 0n)
}

/** Leaks at the rule's rate and must never hold more than the burst; a unit is as high as a window is long. */
function highestLevel(calls: readonly Admitted[], { count, windowUs }: Rule): bigint {
  let [level, highest, last] = [0n, 0n, calls[0]?.at ?? 0n]
  for (const { at, units } of calls) {
    level = max(0n, level - (at - last) * count) + units * windowUs
    highest = max(highest, level)
    last = at
  }
  return ceilDiv(highest, windowUs)
}

/** The promise of each algorithm about any traffic whatever. */
function expectWithinBound(calls: readonly Admitted[], rule: Rule): void {
  const { kind, count, windowUs, burst } = rule
  if (buckets.includes(kind)) expect(highestLevel(calls, rule)).toBeLessThanOrEqual(burst)
  else if (kind === 'sliding-window') expect(mostInAnyWindow(calls, windowUs)).toBeLessThanOrEqual(2n * count - 1n)
  else if (kind === 'fixed-window') {
    for (const { at } of calls) {
      const inWindow = calls.filter((call) => call.at / windowUs === at / windowUs)
      expect(inWindow.reduce((sum, { units }) => sum + units, 0n)).toBeLessThanOrEqual(count)
    }
  } else expect(mostInAnyWindow(calls, windowUs)).toBeLessThanOrEqual(kind === 'first-hit' ? 2n * count : count)
}

describe.each(kinds)('%s', (kind) => {
  it('never admits more than the burst plus what flowed back, or its bound for any window [P1]', () => {
    fc.assert(
      fc.property(traces(rules(kind), { maxLength: 32 }), (trace) => expectWithinBound(admitted(trace), trace.rule)),
      runs(50),
    )
  })

  it('grants no more on a clock that steps back than on one that stands still instead [P11]', () => {
    fc.assert(
      fc.property(traces(rules(kind), { back: true, maxLength: 32 }), (trace) => {
        let furthest = 0n
        const calls = admitted(trace).map(({ at, units }) => {
          furthest = max(furthest, at)
          return { at: furthest, units }
        })
        expectWithinBound(calls, trace.rule)
      }),
      runs(50),
    )
  })

  it('lengthens a wait by exactly as much as the clock steps back [P11]', () => {
    fc.assert(
      fc.property(traces(rules(kind), { back: true }), fc.bigInt(0n, 10_000n), ({ rule, steps }, stepMs) => {
        const gate = gateAt(rule)
        for (const { at, cost } of steps) {
          gate.at(at)
          const denied = gate.take('k', { cost: Number(cost) })
          if (denied.ok || denied.retryAfterMs === Number.POSITIVE_INFINITY || at < stepMs * 1000n) continue
          gate.at(at - stepMs * 1000n)
          expect(gate.peek('k', { cost: Number(cost) }).retryAfterMs).toBe(denied.retryAfterMs + Number(stepMs))
        }
      }),
      runs(40),
    )
  })

  // A window that opens at the first hit stays open for those who joined it, also when that hit is taken back.
  if (kind === 'first-hit') return
  it('grants no more after refunds than if the refunded takes had never been [P1, P9]', () => {
    const dense = traces(fc.oneof(rules(kind), smallRules(kind)), { dense: true, maxLength: 32 })
    fc.assert(
      fc.property(dense, ({ rule, steps }) => {
        const gate = gateAt(rule)
        const booked: (Admitted & { refund: () => void })[] = []
        for (const { at, cost, pick } of steps) {
          gate.at(at)
          if (pick < 40) {
            booked.splice(pick % Math.max(1, booked.length), 1)[0]?.refund()
          } else {
            const decision = gate.take('k', pick % 2 ? { upTo: Number(cost) || 1 } : { cost: Number(cost) })
            if (decision.ok) booked.push({ at, units: BigInt(decision.cost), refund: () => decision.refund() })
          }
          const model = modelOf(rule)
          for (const { at, units } of booked) model.book(at, units)
          const { remaining, resetAfterMs } = gate.peek('k')
          expect(remaining).toBeLessThanOrEqual(Number(model.remaining(at)))
          expect(resetAfterMs).toBeGreaterThanOrEqual(upToMs(model.fullAt(at) - at))
        }
      }),
      runs(50),
    )
  })
})

/** A line of bookings, which of them are given back in which order, and how long after one another. */
const manyRefunds = fc
  .array(
    fc.record({ cost: fc.integer({ min: 1, max: 9 }), order: fc.nat(), gapUs: fc.nat(60_000), goes: fc.boolean() }),
    {
      minLength: 100,
      maxLength: 300,
      size: 'max',
    },
  )
  .map((bookings) => ({ bookings, leaving: bookings.filter(({ goes }) => goes).sort((a, b) => a.order - b.order) }))

it.each([1_000, 700])(
  'gives back nearly all, and never more, of however many takes at %i a minute [P9]',
  (perMinute) => {
    fc.assert(
      fc.property(manyRefunds, ({ bookings, leaving }) => {
        const rule = { kind: 'gcra', count: BigInt(perMinute), windowUs: 60_000_000n, burst: 3_000n } as const
        const [gate, model] = [gateAt(rule), modelOf(rule)]
        const taken = new Map(
          bookings.map((each) => [
            each,
            [gate.take('k', { cost: each.cost }), model.book(0n, BigInt(each.cost))] as const,
          ]),
        )
        const before = model.remaining(0n)
        let now = 0n
        for (const each of leaving) {
          const [decision, booking] = taken.get(each) as NonNullable<ReturnType<typeof taken.get>>
          now += BigInt(each.gapUs)
          gate.at(now)
          decision.refund()
          model.giveBack(now, booking, BigInt(each.cost))
          expect(gate.peek('k').remaining).toBeLessThanOrEqual(Number(model.remaining(now)))
        }
        const lost = Number(model.remaining(now)) - gate.peek('k').remaining
        expect(lost).toBeLessThanOrEqual(Number(model.remaining(now) - before) / 20)
      }),
      runs(30),
    )
  },
)
