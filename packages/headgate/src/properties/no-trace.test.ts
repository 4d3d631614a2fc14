import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { memory } from '../index.ts'
import { gateAt, runs, seen, type TestGate } from './support.ts'
import { kinds, rules, type Step, smallRules, traces } from './traces.ts'

const FOREVER = Number.POSITIVE_INFINITY
const take = (gate: TestGate, { at, cost }: Step, key = 'k') => {
  gate.at(at)
  return gate.take(key, { cost: Number(cost) })
}

describe.each(kinds)('%s', (kind) => {
  const anyRule = fc.oneof(rules(kind), smallRules(kind))

  it('decides the same whether or not others were refused in between [P7]', () => {
    fc.assert(
      fc.property(traces(anyRule, { back: true }), ({ rule, steps }) => {
        const [quiet, bothered] = [gateAt(rule), gateAt(rule)]
        for (const step of steps) {
          bothered.at(step.at)
          const { remaining } = bothered.peek('k')
          expect(bothered.take('k', { cost: remaining + 1 }).ok).toBe(false)
          expect(seen(take(bothered, step))).toEqual(seen(take(quiet, step)))
        }
      }),
      runs(35),
    )
  })

  it('decides the same whether or not somebody looked in between, at whatever time [P8]', () => {
    fc.assert(
      fc.property(traces(anyRule, { back: true }), traces(anyRule, { back: true }), ({ rule, steps }, looks) => {
        const [quiet, watched] = [gateAt(rule), gateAt(rule)]
        steps.forEach((step, index) => {
          const look = looks.steps[index]
          if (look) watched.at(look.at)
          watched.peek('k', { cost: Number(look?.cost ?? 1n) })
          expect(seen(take(watched, step))).toEqual(seen(take(quiet, step)))
        })
      }),
      runs(35),
    )
  })

  it('keeps nothing of a key that only looked, was refused or asked for nothing [P7, P8]', () => {
    fc.assert(
      fc.property(traces(anyRule, { maxLength: 4 }), ({ rule, steps }) => {
        const store = memory()
        const gate = gateAt(rule, store)
        for (const { at, cost } of steps) {
          gate.at(at)
          gate.peek('k', { cost: Number(cost) })
          gate.take('k', { cost: 0 })
          gate.take('k', { cost: Number(rule.burst) + 1 })
        }
        expect(store.keys).toBe(0)
      }),
      runs(30),
    )
  })

  it('a take that is refunded before anybody else comes has never been, however late the refund [P9]', () => {
    fc.assert(
      fc.property(traces(anyRule), ({ rule, steps }) => {
        const [quiet, refunding] = [gateAt(rule), gateAt(rule)]
        let undo = () => {}
        for (const step of steps) {
          refunding.at(step.at)
          undo()
          expect(seen(take(refunding, step))).toEqual(seen(take(quiet, step)))
          const extra = refunding.take('k', step.pick % 2 ? { upTo: step.pick } : { cost: Number(step.cost) })
          undo = () => void extra.refund()
        }
      }),
      runs(40),
    )
  })

  it('never holds more than the limit, however many are refunded in whatever order [P9]', () => {
    fc.assert(
      fc.property(traces(anyRule), ({ rule, steps }) => {
        const gate = gateAt(rule)
        const taken: ReturnType<typeof take>[] = []
        for (const step of steps) {
          taken.push(take(gate, step))
          if (step.pick < 50) taken.splice(step.pick % taken.length, 1)[0]?.refund()
          expect(gate.peek('k').remaining).toBeLessThanOrEqual(Number(rule.burst))
        }
        for (const decision of taken) decision.refund()
        expect(gate.peek('k')).toMatchObject({ remaining: Number(rule.burst), resetAfterMs: 0 })
      }),
      runs(35),
    )
  })

  it('a cost of several units counts as that many calls at one instant [P10]', () => {
    fc.assert(
      fc.property(traces(smallRules(kind)), ({ rule, steps }) => {
        const [whole, single] = [gateAt(rule), gateAt(rule)]
        for (const step of steps.filter(({ cost }) => cost <= 20n)) {
          const { ok, remaining, resetAfterMs } = take(whole, step)
          single.at(step.at)
          const fits = single.peek('k').remaining >= Number(step.cost)
          expect(ok).toBe(step.cost === 0n || fits)
          if (ok) for (let unit = 0n; unit < step.cost; unit++) expect(single.take('k').ok).toBe(true)
          expect(single.peek('k')).toMatchObject({ remaining, resetAfterMs })
        }
      }),
      runs(40),
    )
  })

  it('says never to a cost above the limit, and the truth about what is left [P10]', () => {
    fc.assert(
      fc.property(traces(anyRule), fc.integer({ min: 1, max: 1_000_000 }), ({ rule, steps }, over) => {
        const gate = gateAt(rule)
        for (const step of steps) {
          const { remaining, resetAfterMs } = take(gate, step)
          const never = gate.take('k', { cost: Math.min(Number(rule.burst) + over, 1e15) })
          if (never.cost <= rule.burst) return
          expect(never).toMatchObject({ ok: false, retryAfterMs: FOREVER, remaining, resetAfterMs })
        }
      }),
      runs(30),
    )
  })

  it('lets nothing through a limit of 0, ever [P10]', () => {
    fc.assert(
      fc.property(traces(rules(kind), { maxLength: 5 }), ({ rule, steps }) => {
        const gate = gateAt({ ...rule, count: 0n, burst: 0n })
        for (const step of steps) {
          const { ok, remaining, retryAfterMs } = take(gate, step)
          expect({ ok, remaining, retryAfterMs }).toEqual({
            ok: step.cost === 0n,
            remaining: 0,
            retryAfterMs: step.cost === 0n ? 0 : FOREVER,
          })
        }
      }),
      runs(20),
    )
  })
})
