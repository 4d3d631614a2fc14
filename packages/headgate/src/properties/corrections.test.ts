import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { expected, gateAt, modelOf, runs, seen, type TestGate } from './support.ts'
import { buckets, kinds, MOST, rules, type Step, smallRules, traces, YEAR } from './traces.ts'

const take = (gate: TestGate, { at, cost }: Step, id?: string) => {
  gate.at(at)
  return gate.take('k', { cost: Number(cost), ...(id === undefined ? {} : { id }) })
}
/** No debt grows past some 95 years, so that it can still be counted; exact it is below that. */
const MOST_COUNTED = 2_000_000_000_000_000n
const LONGEST_DEBT_US = 80n * YEAR
const isWhole = (value: number) => Number.isSafeInteger(value) && value >= 0

describe.each(kinds)('%s', (kind) => {
  const anyRule = fc.oneof(rules(kind), smallRules(kind))

  it('settling at once for less is the same as having asked for less [P9]', () => {
    fc.assert(
      fc.property(traces(anyRule), ({ rule, steps }) => {
        const [direct, settling] = [gateAt(rule), gateAt(rule)]
        for (const step of steps) {
          settling.at(step.at)
          const { remaining } = settling.peek('k')
          const reserved = settling.take('k', { cost: remaining })
          const actual = BigInt(Math.floor((remaining * step.pick) / 100))
          reserved.settle(Number(actual))
          take(direct, { ...step, cost: actual })
          expect(seen(settling.peek('k'))).toEqual(seen(direct.peek('k')))
        }
      }),
      runs(30),
    )
  })

  it('settling for more may overdraw a key, and the next wait counts that in [P3, P9]', () => {
    fc.assert(
      fc.property(traces(anyRule, { maxLength: 8 }), ({ rule, steps }) => {
        const gate = gateAt(rule)
        const model = modelOf(rule)
        let total = 0n
        for (const step of steps) {
          const decision = take(gate, step)
          const ok = model.take(step.at, step.cost) !== undefined
          const actual = step.cost + (rule.burst * BigInt(step.pick)) / 40n
          total += actual
          if (total > MOST_COUNTED) return // more than that a count does not hold
          const debtUs = model.fullAt(step.at) - step.at + (actual * rule.windowUs) / rule.count
          if (ok && actual <= MOST && debtUs < LONGEST_DEBT_US) {
            model.book(step.at, actual - step.cost)
            decision.settle(Number(actual))
          }
          const fits = model.admits(step.at, 1n)
          expect(seen(gate.peek('k'))).toEqual(expected(model, step.at, 1n, fits))
        }
      }),
      runs(30),
    )
  })

  it('lets a call of cost 0 through whatever the state of the key [P10]', () => {
    fc.assert(
      fc.property(traces(anyRule, { back: true }), ({ rule, steps }) => {
        const gate = gateAt(rule)
        for (const step of steps) {
          const decision = take(gate, step)
          if (decision.ok) decision.settle(Math.min(1e15, Number(step.cost + rule.burst)))
          expect(gate.take('k', { cost: 0 })).toMatchObject({ ok: true, retryAfterMs: 0 })
          expect(gate.peek('k', { cost: 0 })).toMatchObject({ ok: true, retryAfterMs: 0 })
        }
      }),
      runs(30),
    )
  })

  it('acts on a decision once: after the first settle or refund nothing more happens, and on a refusal nothing at all', () => {
    fc.assert(
      fc.property(traces(anyRule), ({ rule, steps }) => {
        const [once, often] = [gateAt(rule), gateAt(rule)]
        for (const step of steps) {
          const correct = (decision: ReturnType<typeof take>) =>
            step.pick % 2 ? decision.refund() : decision.settle(Math.floor(decision.cost / 2))
          const [a, b] = [take(once, step), take(often, step)]
          if (a.ok) correct(a)
          correct(b)
          b.refund()
          b.settle(1000)
          b.refund()
          expect(seen(often.peek('k'))).toEqual(seen(once.peek('k')))
        }
      }),
      runs(30),
    )
  })

  it('takes as many units as fit, at least one, and says how many', () => {
    fc.assert(
      fc.property(traces(anyRule), ({ rule, steps }) => {
        const [exact, greedy] = [gateAt(rule), gateAt(rule)]
        for (const step of steps.filter(({ cost }) => cost > 0n)) {
          greedy.at(step.at)
          const fit = Math.min(Number(step.cost), greedy.peek('k').remaining)
          const got = greedy.take('k', { upTo: Number(step.cost) })
          expect(seen(got)).toEqual(seen(take(exact, { ...step, cost: BigInt(Math.max(1, fit)) })))
        }
      }),
      runs(30),
    )
  })

  it('charges a repeated id once and answers as the first time, for as long as the window', () => {
    fc.assert(
      fc.property(traces(anyRule), fc.integer({ min: 0, max: 99 }), ({ rule, steps }, percent) => {
        const [plain, repeating] = [gateAt(rule), gateAt(rule)]
        const windowMs = Math.min(plain.peek('k').limits[0]?.windowMs ?? 0, 86_400_000)
        for (const [index, step] of steps.entries()) {
          const first = take(repeating, step, `id-${index}`)
          expect(seen(first)).toEqual(seen(take(plain, step)))
          if (!first.ok) continue
          repeating.at(step.at + BigInt(Math.floor((windowMs * percent) / 100)) * 1000n)
          expect(seen(repeating.take('k', { cost: Number(step.cost), id: `id-${index}` }))).toEqual(seen(first))
        }
      }),
      runs(30),
    )
  })

  it('charges an id again once its window, or a day, is over', () => {
    fc.assert(
      fc.property(anyRule, fc.integer({ min: 0, max: 99_000 }), (rule, startMs) => {
        const [plain, repeating] = [gateAt(rule), gateAt(rule)]
        const windowMs = Math.min(plain.peek('k').limits[0]?.windowMs ?? 0, 86_400_000)
        for (const atMs of [startMs, startMs + windowMs + 1]) {
          const step = { at: BigInt(atMs) * 1000n, cost: 1n, pick: 0 }
          expect(seen(take(repeating, step, 'id'))).toEqual(seen(take(plain, step)))
        }
      }),
      runs(30),
    )
  })

  it('judges a refused id anew', () => {
    fc.assert(
      fc.property(traces(anyRule), ({ rule, steps }) => {
        const [plain, retrying] = [gateAt(rule), gateAt(rule)]
        let id = 0
        for (const step of steps) {
          const decision = take(retrying, step, `id-${id}`)
          expect(seen(decision)).toEqual(seen(take(plain, step)))
          if (decision.ok) id++
        }
      }),
      runs(30),
    )
  })

  it('answers in whole numbers at any size and after any debt [P12]', () => {
    const huge = fc.constantFrom(1n, 7n, 999_999_999_999_989n, MOST)
    const longest = fc.constantFrom(1_000n, 86_400_000_000n, 95n * YEAR)
    const extremes = fc.tuple(huge, longest, huge).map(([count, windowUs, burst]) => {
      const most = (count * 95n * YEAR) / windowUs
      const fitting = burst < most ? burst : most
      return { kind, count, windowUs, burst: buckets.includes(kind) ? (fitting > 0n ? fitting : 1n) : count }
    })
    fc.assert(
      fc.property(traces(extremes), ({ rule, steps }) => {
        const gate = gateAt(rule)
        for (const step of steps) {
          const decision = take(gate, step)
          if (step.pick % 5 === 0) decision.settle(1e15)
          for (const { ok, remaining, retryAfterMs, resetAfterMs } of [decision, gate.peek('k')]) {
            expect(isWhole(remaining) && remaining <= Number(rule.burst)).toBe(true)
            expect(isWhole(resetAfterMs)).toBe(true)
            expect(
              ok
                ? retryAfterMs === 0
                : retryAfterMs > 0 && (isWhole(retryAfterMs) || retryAfterMs === Number.POSITIVE_INFINITY),
            ).toBe(true)
          }
        }
      }),
      runs(40),
    )
  })
})
