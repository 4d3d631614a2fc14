import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createGate } from '../index.ts'
import type { Model } from './model.ts'
import { clockInUs, limitOf, modelOf, runs, upToMs } from './support.ts'
import { kinds, type Rule, rules, type Step, smallRules, traces } from './traces.ts'

const FOREVER = Number.POSITIVE_INFINITY
const anyRule = fc.oneof(rules(...kinds), smallRules(...kinds))
/** Up to four limits on one request; the trace is cut to the measure of the first. */
const cases = fc.record({
  trace: traces(anyRule),
  others: fc.array(anyRule, { minLength: 1, maxLength: 3 }),
  ownCost: fc.integer({ min: 1, max: 3 }),
})

/** A gate with limits `l0`, `l1`, …, of which `l1` charges a cost of its own if told so. */
function gateOf(rules: readonly Rule[], ownCost?: number) {
  const { clock, at } = clockInUs()
  const named = rules.map((rule, index) => {
    const cost = index === 1 && ownCost !== undefined ? { cost: () => ownCost } : {}
    return [`l${index}`, { limit: limitOf(rule), by: (key: string) => key, ...cost }] as const
  })
  return Object.assign(createGate({ limits: Object.fromEntries(named), clock }), { at })
}

const waitMs = (model: Model, at: bigint, cost: bigint): number => {
  const fit = model.firstFit(at, cost)
  return fit === undefined ? FOREVER : upToMs(fit - at)
}

describe('several limits on one request', () => {
  it('admits only what every limit admits, charges all or none, and waits for the slowest [P16]', () => {
    fc.assert(
      fc.property(cases, ({ trace: { rule, steps }, others }) => {
        const all = [rule, ...others]
        const gate = gateOf(all)
        const models = all.map(modelOf)
        for (const { at, cost, pick } of steps) {
          gate.at(at)
          const fits = models.map((model) => model.admits(at, cost))
          const waits = models.map((model) => waitMs(model, at, cost))
          const ok = !fits.includes(false)
          if (ok && pick >= 20) for (const model of models) model.book(at, cost)
          const decision = gate[pick < 20 ? 'peek' : 'take']('k', { cost: Number(cost) })
          const left = models.map((model) => Number(model.remaining(at)))
          expect(decision).toMatchObject({ ok, retryAfterMs: Math.max(...waits), remaining: Math.min(...left) })
          expect(decision.violated).toEqual(all.flatMap((_, index) => (fits[index] ? [] : [`l${index}`])))
          expect(decision.limits.map((each) => each.ok)).toEqual(fits)
          expect(decision.limits.map((each) => each.remaining)).toEqual(left)
          expect(decision.limits.map((each) => each.retryAfterMs)).toEqual(waits)
          expect(decision.limit).toBe(deciding(ok, waits, left, models))
        }
      }),
      runs(80),
    )
  })

  it('is admitted exactly when the wait of the slowest limit is over [P3, P16]', () => {
    fc.assert(
      fc.property(cases, ({ trace: { rule, steps }, others, ownCost }) => {
        const gate = gateOf([rule, ...others], ownCost)
        for (const { at, cost } of steps) {
          gate.at(at)
          const { ok, retryAfterMs } = gate.take('k', { cost: Number(cost) })
          if (ok || retryAfterMs === FOREVER) continue
          gate.at(at + BigInt(retryAfterMs - 1) * 1000n)
          expect(gate.peek('k', { cost: Number(cost) }).ok).toBe(false)
          gate.at(at + BigInt(retryAfterMs) * 1000n)
          expect(gate.peek('k', { cost: Number(cost) }).ok).toBe(true)
        }
      }),
      runs(60),
    )
  })

  it('lets exactly the remaining calls through, also where a limit charges a cost of its own [P5, P16]', () => {
    fc.assert(
      fc.property(cases, ({ trace: { rule, steps }, others, ownCost }) => {
        const gate = gateOf([rule, ...others], ownCost)
        const [last] = play(gate, steps.slice(0, 6)).slice(-1)
        const left = last?.remaining ?? 0
        for (let calls = left; calls > Math.max(0, left - 60); calls--) expect(gate.take('k').ok).toBe(true)
        if (left <= 60) expect(gate.take('k').ok).toBe(false)
      }),
      runs(60),
    )
  })

  it('takes as many units as fit into the tightest limit [P16]', () => {
    fc.assert(
      fc.property(cases, ({ trace: { rule, steps }, others }) => {
        const all = [rule, ...others]
        const gate = gateOf(all)
        const models = all.map(modelOf)
        for (const { at, cost } of steps.filter(({ cost }) => cost > 0n)) {
          gate.at(at)
          const fit = models.map((model) => model.remaining(at)).reduce((a, b) => (a < b ? a : b))
          const got = fit < cost ? fit : cost
          for (const model of models) model.book(at, got)
          const decision = gate.take('k', { upTo: Number(cost) })
          expect(decision.ok).toBe(fit > 0n)
          if (fit > 0n) expect(decision.cost).toBe(Number(got))
        }
      }),
      runs(60),
    )
  })

  it('a refund gives back to every limit, and a refused request to none [P9, P16]', () => {
    fc.assert(
      fc.property(cases, ({ trace: { rule, steps }, others, ownCost }) => {
        const all = [rule, ...others]
        const [quiet, refunding] = [gateOf(all, ownCost), gateOf(all, ownCost)]
        for (const step of steps) {
          refunding.at(step.at)
          refunding.take('k', { cost: Math.min(1e15, Number(step.cost) + 1) }).refund()
          const [a] = play(refunding, [step])
          const [b] = play(quiet, [step])
          expect(a?.limits).toEqual(b?.limits)
        }
      }),
      runs(60),
    )
  })
})

function play(gate: ReturnType<typeof gateOf>, steps: readonly Step[]) {
  return steps.map(({ at, cost }) => {
    gate.at(at)
    return gate.take('k', { cost: Number(cost) })
  })
}

/** Of the violated the one with the longest wait, else the one with the smallest share left; the first of equals. */
function deciding(ok: boolean, waits: readonly number[], left: readonly number[], models: readonly Model[]): string {
  const shares = models.map(({ limit }, index) => (left[index] ?? 0) / Number(limit))
  return `l${ok ? shares.indexOf(Math.min(...shares)) : waits.indexOf(Math.max(...waits))}`
}
