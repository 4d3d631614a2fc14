import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createGate, memory } from '../index.ts'
import { fakeClock } from '../testing/index.ts'
import { ceilDiv, max } from './model.ts'
import { gateAt, limitOf, runs } from './support.ts'
import { buckets, kinds, type Rule, rules, smallRules, type Trace, traces } from './traces.ts'

const FOREVER = Number.POSITIVE_INFINITY
const LONGEST_US = 3_000_000_000_000_000n

describe.each(kinds)('%s', (kind) => {
  const anyRule = fc.oneof(rules(kind), smallRules(kind))
  const anyOther = fc.oneof(anyRule, rules(...kinds), smallRules(...kinds))
  const traceAndRule = fc.tuple(traces(anyRule, { maxLength: 12 }), anyOther)

  /** Two gates on one store, of which the second has another limit: what a deployment with a new limit looks like. */
  function changed({ rule, steps }: Trace, to: Rule) {
    const store = memory()
    const [before, after] = [gateAt(rule, store), gateAt(to, store)]
    for (const { at, cost } of steps) {
      before.at(at)
      before.take('k', { cost: Number(cost) })
    }
    const now = steps.at(-1)?.at ?? 0n
    after.at(now)
    return { before, after, now }
  }

  it('takes over what is used, and only that, when a limit is raised or lowered [P13]', () => {
    fc.assert(
      fc.property(traceAndRule, ([trace, to]) => {
        const { before, after } = changed(trace, to)
        const used = Number(trace.rule.burst) - before.peek('k').remaining
        expect(after.peek('k').remaining).toBe(Math.max(0, Number(to.burst) - used))
      }),
      runs(60),
    )
  })

  it('tells the exact wait after a change too [P3, P13]', () => {
    fc.assert(
      fc.property(traceAndRule, fc.bigInt(1n, 20n), ([trace, to], cost) => {
        const { after, now } = changed(trace, to)
        const refusal = after.take('k', { cost: Number(cost) })
        if (refusal.ok || refusal.retryAfterMs === FOREVER) return
        after.at(now + BigInt(refusal.retryAfterMs - 1) * 1000n)
        expect(after.peek('k', { cost: Number(cost) }).ok).toBe(false)
        after.at(now + BigInt(refusal.retryAfterMs) * 1000n)
        expect(after.peek('k', { cost: Number(cost) }).ok).toBe(true)
      }),
      runs(60),
    )
  })

  it('gives back no more than was taken when a limit changes before the refund [P9, P13]', () => {
    fc.assert(
      fc.property(traces(anyRule, { maxLength: 6 }), anyOther, ({ rule, steps }, to) => {
        const store = memory()
        const [before, after] = [gateAt(rule, store), gateAt(to, store)]
        const { at, cost } = steps[0] ?? { at: 0n, cost: 1n }
        for (const gate of [before, after]) gate.at(at)
        const old = before.take('k', { cost: Number(cost) })
        if (!old.ok || cost > to.burst) return
        const young = after.take('k', { upTo: Number(steps.at(-1)?.cost ?? 1n) || 1 })
        if (!young.ok) return
        old.refund()
        expect(after.peek('k').remaining).toBeLessThanOrEqual(Number(to.burst) - young.cost)
      }),
      runs(60),
    )
  })

  it('grants at most the larger limit while two limits take turns on one key [P13]', () => {
    const turns = fc.tuple(traces(smallRules(kind), { dense: true }), fc.bigInt(1n, 9n))
    fc.assert(
      fc.property(turns, ([{ rule, steps }, other]) => {
        const store = memory()
        const to = { ...rule, count: other, burst: buckets.includes(kind) ? rule.burst + 1n : other }
        const [one, another] = [gateAt(rule, store), gateAt(to, store)]
        const bound = { ...rule, count: max(rule.count, to.count), burst: max(rule.burst, to.burst) }
        let [total, first] = [0n, steps[0]?.at ?? 0n]
        for (const { at, cost, pick } of steps) {
          const gate = pick % 2 ? one : another
          gate.at(at)
          const { ok, cost: got } = gate.take('k', pick % 3 ? { upTo: 100 } : { cost: Number(cost) })
          total += ok ? BigInt(got) : 0n
          const windows = (at - first) / rule.windowUs + 2n
          const flowed = ceilDiv((at - first) * bound.count, rule.windowUs)
          expect(total).toBeLessThanOrEqual(buckets.includes(kind) ? bound.burst + flowed : bound.count * windows)
        }
      }),
      runs(60),
    )
  })

  // Elsewhere units come back all at once, at a time that changes with the limit.
  const itWithBuckets = buckets.includes(kind) ? it : () => {}
  itWithBuckets('grants at least the smaller limit while two limits take turns on one key [P13]', () => {
    const counts = fc.tuple(fc.integer({ min: 1, max: 50 }), fc.integer({ min: 1, max: 50 }))
    fc.assert(
      fc.property(counts, fc.integer({ min: 2, max: 60 }), fc.integer({ min: 2, max: 60 }), ([a, b], one, two) => {
        const clock = fakeClock()
        const store = memory({ clock })
        const gateOf = (limit: number, burst: number) =>
          createGate({ limit: { limit, per: '1min', burst }, algorithm: kind as 'gcra', store })
        const gates = [gateOf(a, one), gateOf(b, two)] as const
        for (const gate of gates) while (gate.take('k').ok);
        // So often that nearly all are refused, and none of the units that come back is lost for want of a request.
        const stepMs = Math.floor(60_000 / Math.max(a, b) / 5)
        const most = 60 * 20 * 5
        let admitted = 0
        for (let i = 0; i < most; i++) {
          clock.advance(stepMs)
          if (gates[i % 2]?.take('k').ok) admitted++
        }
        const flowed = Math.floor((most * stepMs * Math.min(a, b)) / 60_000)
        expect(admitted).toBeGreaterThanOrEqual(flowed - Math.abs(one - two) - 2)
      }),
      runs(10),
    )
  })

  it('an override holds for its key and its time, and keeps what is used [P13]', () => {
    fc.assert(
      fc.property(traceAndRule, fc.integer({ min: 1, max: 1_000_000 }), ([{ rule, steps }, to], forMs) => {
        const gate = gateAt(rule)
        for (const { at, cost } of steps) {
          gate.at(at)
          gate.take('k', { cost: Number(cost) })
        }
        const used = Number(rule.burst) - gate.peek('k').remaining
        gate.override('k', limitOf(to), forMs)
        expect(gate.peek('k').remaining).toBe(Math.max(0, Number(to.burst) - used))
        expect(gate.peek('other').remaining).toBe(Number(rule.burst))
        gate.override('k', limitOf(to), 0)
        // A debt that would take more than 95 years to work off is cut there, on the way through a slow bucket.
        const owedUs = buckets.includes(to.kind) ? (BigInt(used) * to.windowUs) / to.count : 0n
        if (owedUs < LONGEST_US) expect(gate.peek('k').remaining).toBe(Number(rule.burst) - used)
        gate.override('fresh', limitOf(to), forMs)
        const endUs = (steps.at(-1)?.at ?? 0n) + BigInt(forMs) * 1000n
        gate.at(endUs - 1n)
        expect(gate.peek('fresh').limits[0]?.limit).toBe(Number(to.burst))
        gate.at(endUs + 1n)
        expect(gate.peek('fresh').limits[0]?.limit).toBe(Number(rule.burst))
      }),
      runs(50),
    )
  })
})
