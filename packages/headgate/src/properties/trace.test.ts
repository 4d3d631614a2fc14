import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Booking, Model } from './model.ts'
import { expected, gateAt, modelOf, runs, seen, type TestGate } from './support.ts'
import { kinds, type Rule, rules, type Step, smallRules, traces, YEAR } from './traces.ts'

// Once for all files, which share it.

/** No debt grows past some 95 years, so that it can still be counted; here it stays below that. */
const LONGEST_DEBT_US = 90n * YEAR

/** A gate and one model per key, told the same and compared after every call. */
class Pair {
  readonly #gate: TestGate
  readonly #rule: Rule
  readonly #models = new Map<string, Model>()
  readonly #open: { key: string; decision: ReturnType<TestGate['take']>; booking: Booking; units: bigint }[] = []

  constructor(rule: Rule) {
    this.#rule = rule
    this.#gate = gateAt(rule)
  }

  /** Mostly takes; also looks, and takes of as many as fit. */
  call({ at, cost, pick }: Step, key: string): void {
    this.#gate.at(at)
    const model = this.#model(key)
    if (pick < 20) {
      expect(seen(this.#gate.peek(key, { cost: Number(cost) }))).toEqual(
        expected(model, at, cost, model.admits(at, cost)),
      )
    } else if (pick < 30 && cost > 0n) {
      const remaining = model.remaining(at)
      const got = remaining === 0n ? 1n : remaining < cost ? remaining : cost
      this.#take(at, key, got, { upTo: Number(cost) })
    } else {
      this.#take(at, key, cost, { cost: Number(cost) })
    }
  }

  /** Gives back or corrects one of the charges so far, to more or less than it was. */
  correct({ at, cost, pick }: Step): void {
    const [charge] = this.#open.splice(pick % Math.max(1, this.#open.length), 1)
    if (charge === undefined) return
    this.#gate.at(at)
    const { key, decision, booking, units } = charge
    const model = this.#model(key)
    const { windowUs, count } = this.#rule
    const debtUs = model.fullAt(at) - at + (cost * windowUs) / count
    const actual = pick % 3 === 0 || debtUs > LONGEST_DEBT_US ? 0n : cost
    if (actual > units) model.book(at, actual - units)
    else model.giveBack(at, booking, units - actual)
    if (actual === 0n) decision.refund()
    else decision.settle(Number(actual))
    expect(seen(this.#gate.peek(key))).toEqual(expected(model, at, 1n, model.admits(at, 1n)))
  }

  #take(at: bigint, key: string, units: bigint, options: { cost?: number; upTo?: number }): void {
    const model = this.#model(key)
    const booking = model.take(at, units)
    const decision = this.#gate.take(key, options)
    expect(seen(decision)).toEqual(expected(model, at, units, booking !== undefined))
    if (booking !== undefined) this.#open.push({ key, decision, booking, units })
  }

  #model(key: string): Model {
    const model = this.#models.get(key) ?? modelOf(this.#rule)
    this.#models.set(key, model)
    return model
  }
}

describe.each(kinds)('%s', (kind) => {
  it('decides every call as the model does, whatever came before [P2]', () => {
    fc.assert(
      fc.property(traces(rules(kind)), ({ rule, steps }) => {
        const pair = new Pair(rule)
        for (const step of steps) pair.call(step, step.pick % 4 === 0 ? 'a' : 'b')
      }),
      runs(40),
    )
  })

  it('keeps the counts of many keys apart, however long they idle [P18]', () => {
    fc.assert(
      fc.property(
        traces(smallRules(kind), { maxLength: 300 }),
        fc.integer({ min: 2, max: 60 }),
        ({ rule, steps }, many) => {
          const pair = new Pair(rule)
          for (const [index, step] of steps.entries()) pair.call(step, `key-${(index * step.pick) % many}`)
        },
      ),
      runs(4),
    )
  })

  it('decides as the model does after refunds and corrections [P9]', () => {
    const sparseOrDense = fc.oneof(traces(rules(kind)), traces(smallRules(kind), { dense: true }))
    fc.assert(
      fc.property(sparseOrDense, ({ rule, steps }) => {
        const pair = new Pair(rule)
        for (const step of steps) {
          if (step.pick >= 70) pair.correct(step)
          else pair.call(step, 'k')
        }
      }),
      runs(40),
    )
  })

  it('decides as the model does while the clock jumps to and fro [P11]', () => {
    fc.assert(
      fc.property(traces(rules(kind), { back: true }), ({ rule, steps }) => {
        const pair = new Pair(rule)
        for (const step of steps) pair.call(step, 'k')
      }),
      runs(40),
    )
  })
})
