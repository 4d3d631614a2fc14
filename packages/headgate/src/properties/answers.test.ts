import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { gateAt, modelOf, runs } from './support.ts'
import { kinds, rules, type Trace, traces } from './traces.ts'

const FOREVER = Number.POSITIVE_INFINITY

/** A gate after all calls of a trace but the last, at the instant of the last, with the same told to a model. */
function afterAllButLast({ rule, steps }: Trace) {
  const gate = gateAt(rule)
  const model = modelOf(rule)
  for (const { at, cost } of steps.slice(0, -1)) {
    gate.at(at)
    gate.take('k', { cost: Number(cost) })
    model.take(at, cost)
  }
  const last = steps.at(-1) ?? { at: 0n, cost: 1n }
  gate.at(last.at)
  return { gate, model, now: last.at, cost: Number(last.cost) }
}

/** Takes what is left, then asks for the cost: a refusal, unless the cost is 0. */
function drained(trace: Trace) {
  const { gate, model, now, cost } = afterAllButLast(trace)
  const left = model.remaining(now)
  if (left > 0n) gate.take('k', { cost: Number(left) })
  model.take(now, left)
  return { gate, model, now, cost, refusal: gate.take('k', { cost }) }
}

describe.each(kinds)('%s', (kind) => {
  const calls = traces(rules(kind), { maxLength: 12 })

  it('is refused until the wait it was told is over and admitted then, to the millisecond [P3]', () => {
    fc.assert(
      fc.property(calls, fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (trace, share) => {
        const { gate, now, cost, refusal } = drained(trace)
        if (refusal.ok || refusal.retryAfterMs === FOREVER) return
        const okAfterMs = (ms: number) => {
          gate.at(now + BigInt(ms) * 1000n)
          return gate.peek('k', { cost }).ok
        }
        expect(okAfterMs(Math.floor(refusal.retryAfterMs * share))).toBe(false)
        expect(okAfterMs(refusal.retryAfterMs - 1)).toBe(false)
        expect(okAfterMs(refusal.retryAfterMs)).toBe(true)
        expect(okAfterMs(Math.ceil(refusal.retryAfterMs / 1000) * 1000)).toBe(true)
        gate.at(now + BigInt(refusal.retryAfterMs) * 1000n)
        expect(gate.take('k', { cost }).ok).toBe(true)
      }),
      runs(60),
    )
  })

  it('is admitted at the very microsecond the model names, not one before [P3]', () => {
    fc.assert(
      fc.property(calls, (trace) => {
        const { gate, model, now, cost, refusal } = drained(trace)
        const fit = model.firstFit(now, BigInt(cost))
        if (fit === undefined) expect(refusal.retryAfterMs).toBe(FOREVER)
        if (refusal.ok || fit === undefined) return
        gate.at(fit - 1n)
        expect(gate.take('k', { cost }).ok).toBe(false)
        gate.at(fit)
        expect(gate.take('k', { cost }).ok).toBe(true)
      }),
      runs(60),
    )
  })

  it('never moves the end of a wait while nobody is admitted [P4]', () => {
    fc.assert(
      fc.property(calls, fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 6 }), (trace, shares) => {
        const { gate, now, cost, refusal } = drained(trace)
        if (refusal.ok || refusal.retryAfterMs === FOREVER) return
        for (const share of shares.sort((a, b) => a - b)) {
          const passedMs = Math.floor(refusal.retryAfterMs * share)
          gate.at(now + BigInt(passedMs) * 1000n)
          expect(gate.peek('k', { cost }).retryAfterMs).toBe(refusal.retryAfterMs - passedMs)
        }
      }),
      runs(60),
    )
  })

  it('lets exactly the remaining units through, one by one or at once [P5]', () => {
    fc.assert(
      fc.property(calls, fc.boolean(), (trace, peeked) => {
        const { gate, cost } = afterAllButLast(trace)
        const { remaining } = peeked ? gate.peek('k') : gate.take('k', { cost })
        expect(gate.peek('k', { cost: remaining + 1 }).ok).toBe(false)
        const single = Math.min(remaining, 50)
        for (let left = remaining - 1; left >= remaining - single; left--) {
          expect(gate.take('k')).toMatchObject({ ok: true, remaining: left })
        }
        expect(gate.take('k', { cost: remaining - single })).toMatchObject({ ok: true, remaining: 0 })
        expect(gate.take('k').ok).toBe(false)
      }),
      runs(60),
    )
  })

  it('is full after the reset it was told and not a millisecond before [P6]', () => {
    fc.assert(
      fc.property(calls, (trace) => {
        const { gate, now, cost } = afterAllButLast(trace)
        const { resetAfterMs } = gate.take('k', { cost })
        const full = { remaining: Number(trace.rule.burst), resetAfterMs: 0 }
        if (resetAfterMs > 0) {
          gate.at(now + BigInt(resetAfterMs - 1) * 1000n)
          expect(gate.peek('k').remaining).toBeLessThan(full.remaining)
        }
        gate.at(now + BigInt(resetAfterMs) * 1000n)
        expect(gate.peek('k')).toMatchObject(full)
      }),
      runs(60),
    )
  })
})
