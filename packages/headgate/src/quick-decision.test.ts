import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createGate } from './index.ts'
import { runs } from './properties/support.ts'
import { fakeClock } from './testing/index.ts'

const limits = ['3/s', '5/s burst 2', '7/s', '1000/s burst 3', '2/min', '1/ms'] as const

const steps = fc.array(
  fc.record({
    verb: fc.constantFrom('take', 'take', 'take', 'take', 'refund', 'settle', 'reset', 'block', 'override'),
    key: fc.constantFrom('a', 'b'),
    afterMs: fc.constantFrom(0, 0, 0.25, 1, 333, 1000, 40_000),
    nth: fc.nat(5),
  }),
  { maxLength: 60 },
)

/** One gate whose takes may be quick, and one whose takes never are, as somebody wants to hear of them. */
function twins(limit: (typeof limits)[number]) {
  const clock = fakeClock(1_000_000)
  const gates = [createGate({ limit, clock }), createGate({ limit, clock, onDecision: () => {} })]
  return { clock, gates }
}

type Taken = ReturnType<ReturnType<typeof twins>['gates'][number]['take']>

/** All that a decision tells. Which id a receipt is known by is anybody's guess. */
function told(decision: Taken) {
  const { ok, remaining, retryAfterMs, resetAfterMs, cost, violated, limits: states } = decision
  const receipt = JSON.parse(decision.receipt())
  const charges = JSON.stringify(receipt).replace(/~once:[^"]*/g, '')
  return { ok, remaining, retryAfterMs, resetAfterMs, cost, violated, states, headers: decision.headers(), charges }
}

describe('a decision that is made quickly', () => {
  test('tells and does the same as any other, in whatever order things happen', () => {
    fc.assert(
      fc.property(fc.constantFrom(...limits), steps, (limit, all) => {
        const { clock, gates } = twins(limit)
        const taken: Taken[][] = [[], []]
        for (const { verb, key, afterMs, nth } of all) {
          clock.advance(afterMs)
          const answers = gates.map((gate, i) => {
            const past = taken[i] as Taken[]
            const one = past[past.length - 1 - nth]
            if (verb === 'reset') gate.reset(key)
            else if (verb === 'block') gate.block(key, nth * 100)
            else if (verb === 'override') gate.override(key, nth % 2 === 0 ? '4/s' : '9/min', nth * 200)
            else if (verb === 'refund') one?.refund()
            else if (verb === 'settle') one?.settle(nth)
            else past.push(gate.take(key))
            return verb === 'take' ? told(past[past.length - 1] as Taken) : undefined
          })
          expect(answers[0]).toEqual(answers[1])
          const [quick, usual] = gates.map((gate) => ({ ...gate.peek(key).toJSON() }))
          expect(quick).toEqual(usual)
        }
      }),
      runs(300),
    )
  })

  test('is a decision: it can be spread out by toJSON, printed, and refunded once', () => {
    const { gates } = twins('3/s')
    const [gate] = gates as [(typeof gates)[0]]
    gate.take('a')
    const decision = gate.take('a')
    expect(JSON.parse(JSON.stringify(decision))).toMatchObject({ ok: true, limit: 'default', remaining: 1, cost: 1 })
    decision.refund()
    decision.refund()
    expect(gate.peek('a').remaining).toBe(2)
  })

  test('cannot be given back once its key was reset', () => {
    const { gates } = twins('3/s')
    const [gate] = gates as [(typeof gates)[0]]
    gate.take('a')
    const before = gate.take('a')
    gate.reset('a')
    gate.take('a')
    gate.take('a')
    before.refund()
    expect(gate.peek('a').remaining).toBe(1)
  })
})
