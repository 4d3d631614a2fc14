import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createGate, memory } from '../index.ts'
import { epochWindows, SlidingWindows, Windows } from './model.ts'
import { clockInUs, expected, limitOf, runs, seen, type TestGate } from './support.ts'
import { type Rule, rules, traces } from './traces.ts'

const START = 1_700_000_000_000_000n

function staggered(rule: Rule) {
  const { clock, at } = clockInUs()
  const gate = createGate({ limit: { ...limitOf(rule), align: 'staggered' }, clock, store: memory() })
  return Object.assign(gate, { at })
}

/** By how much the windows of a key start before those of the epoch: found by watching one end, to the microsecond. */
function offsetOf(gate: TestGate, key: string, { count, windowUs }: Rule, from = START): bigint {
  gate.at(from)
  gate.take(key, { cost: Number(count) })
  let [low, high] = [from, from + windowUs]
  while (low < high) {
    const middle = (low + high) / 2n
    gate.at(middle)
    if (gate.peek(key).remaining > 0) high = middle
    else low = middle + 1n
  }
  return (windowUs - (low % windowUs)) % windowUs
}

const fixed = rules('fixed-window')
const keys = fc.string({ minLength: 1, maxLength: 12 })

describe('staggered windows', () => {
  it('are as long as told and shifted by less than one, the same in every gate and at any time [P19]', () => {
    fc.assert(
      fc.property(fixed, keys, fc.bigInt(0n, 50n), fc.bigInt(0n, 999n), (rule, key, later, parts) => {
        const offset = offsetOf(staggered(rule), key, rule)
        const from = START + ((later * 1000n + parts) * rule.windowUs) / 1000n
        if (from > 2n * START) return // after 2077 a clock in milliseconds cannot tell microseconds apart
        expect(offsetOf(staggered(rule), key, rule, from)).toBe(offset)
        const other = { ...rule, count: rule.count === 1n ? 2n : 1n }
        expect(offsetOf(staggered(other), key, other)).toBe(offset)
      }),
      runs(60),
    )
  })

  it('decide as the model does once the shift is known [P2, P19]', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('fixed-window', 'sliding-window'),
        traces(fixed),
        keys,
        (kind, { rule, steps }, key) => {
          const offset = offsetOf(staggered(rule), key, rule)
          const gate = staggered({ ...rule, kind })
          const model =
            kind === 'fixed-window'
              ? new Windows(rule.count, epochWindows(rule.windowUs, offset))
              : new SlidingWindows(rule.count, rule.windowUs, offset)
          for (const { at, cost } of steps) {
            gate.at(at)
            const ok = model.take(at, cost) !== undefined
            expect(seen(gate.take(key, { cost: Number(cost) }))).toEqual(expected(model, at, cost, ok))
          }
        },
      ),
      runs(80),
    )
  })

  it('spread the keys evenly over the window [P19]', () => {
    const rule: Rule = { kind: 'fixed-window', count: 1n, windowUs: 60_000_000n, burst: 1n }
    const gate = staggered(rule)
    const tenths = new Array<number>(10).fill(0)
    for (let user = 0; user < 2000; user++) {
      const tenth = Number((offsetOf(gate, `user-${user}`, rule) * 10n) / rule.windowUs)
      tenths[tenth] = (tenths[tenth] ?? 0) + 1
    }
    // 200 each, give or take five standard deviations.
    for (const inTenth of tenths) expect(Math.abs(inTenth - 200)).toBeLessThan(67)
  })
})
