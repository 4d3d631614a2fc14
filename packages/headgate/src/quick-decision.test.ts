import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { visitLimits } from './decision.ts'
import { createGate, Decision } from './index.ts'
import { runs } from './properties/support.ts'
import { type FakeClock, fakeClock } from './testing/index.ts'

const limits = ['3/s', '4/s', '5/s burst 2', '7/s', '1000/s burst 3', '2/min', '1/ms'] as const

const step = fc.record({
  verb: fc.constantFrom('take', 'take', 'take', 'take', 'refund', 'settle', 'reset', 'block', 'override'),
  key: fc.constantFrom('a', 'b'),
  afterMs: fc.constantFrom(0, 0, 0.25, 1, 333, 1000, 40_000),
  nth: fc.nat(5),
})
const steps = fc.array(step, { maxLength: 60 })
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never

interface Request {
  readonly user: string
  readonly ip?: string
}

/** Two gates alike. Takes of the first may be quick; those of the other never are, as they have options, if none that matter. */
function twins(limit: (typeof limits)[number], other: (typeof limits)[number]) {
  const clock = fakeClock(1_000_000)
  const named = {
    user: { limit, by: ({ user }: Request) => user },
    ip: { limit: other, by: ({ ip }: Request) => ip as string, when: ({ ip }: Request) => ip !== undefined },
    all: { limit: '1000/s' },
  } as const
  return { clock, gates: [createGate({ limits: named, clock }), createGate({ limits: named, clock })] }
}

/** The same of one limit. */
function plainTwins(limit: (typeof limits)[number]) {
  const clock = fakeClock(1_000_000)
  return { clock, gates: [createGate({ limit, clock }), createGate({ limit, clock })] }
}

type Taken = Decision

/** All that a decision tells. Which id a receipt is known by is anybody's guess. */
function told(decision: Taken) {
  // Before anything is asked that works out all of it.
  const visited: unknown[] = []
  visitLimits(decision, { onLimit: (...args) => void visited.push(args) })
  const headers = decision.headers()
  const { ok, limit, remaining, retryAfterMs, resetAfterMs, cost, violated, limits: states } = decision
  const receipt = JSON.parse(decision.receipt())
  const charges = JSON.stringify(receipt).replace(/~once:[^"]*/g, '')
  return { ok, limit, remaining, retryAfterMs, resetAfterMs, cost, violated, states, headers, visited, charges }
}

interface Verbs {
  take(key: string, options?: object): Taken
  peek(key: string): Taken
  reset(key: string): void
  block(key: string, ms: number): void
  override(key: string, to: '4/s' | '9/min', ms: number): void
}

const same = (clock: FakeClock, gates: readonly Verbs[], all: readonly Step[]) => {
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
      else past.push(i === 0 ? gate.take(key) : gate.take(key, {}))
      return verb === 'take' ? told(past[past.length - 1] as Taken) : undefined
    })
    expect(answers[0]).toEqual(answers[1])
    const [quick, usual] = gates.map((gate) => gate.peek(key).toJSON())
    expect(quick).toEqual(usual)
  }
}

describe('a decision that is made quickly', () => {
  const limit = fc.constantFrom(...limits)

  test('tells and does the same as any other, in whatever order things happen', () => {
    fc.assert(
      fc.property(limit, steps, (one, all) => {
        const { clock, gates } = plainTwins(one)
        same(clock, gates, all)
      }),
      runs(300),
    )
  })

  test('does so of several limits, of which some do not concern each request', () => {
    fc.assert(
      fc.property(limit, limit, steps, (one, other, all) => {
        const { clock, gates } = twins(one, other)
        const requestOf = (key: string) => (key === 'a' ? { user: 'a', ip: '::1' } : { user: 'b' })
        const verbs = gates.map((gate) => ({
          take: (key: string, options?: object) => gate.take(requestOf(key), options),
          peek: (key: string) => gate.peek(requestOf(key)),
          reset: (key: string) => gate.reset('user', key),
          block: (key: string, ms: number) => gate.block('ip', key === 'a' ? '::1' : '::2', ms),
          override: (key: string, to: '4/s' | '9/min', ms: number) => gate.override('user', key, to, ms),
        }))
        same(clock, verbs, all)
      }),
      runs(300),
    )
  })

  test('asks each limit once whom a request concerns, also where that is not quick in the end', () => {
    let asked = 0
    const by = () => `${++asked}`
    const gate = createGate({ limits: { one: { limit: '1/min', by }, two: { limit: '1/min' } }, clock: fakeClock() })
    gate.take({})
    gate.take({})
    expect(asked).toBe(2)
  })

  test('makes no charges for what is told of every request', () => {
    const gate = createGate({ limits: { one: { limit: '4/s' }, two: { limit: '10/min' } }, clock: fakeClock() })
    gate.take({})
    const decision = gate.take({})
    decision.headers()
    const { ok, limit, remaining, retryAfterMs, degraded, shed, violated } = decision
    expect({ ok, limit, remaining, retryAfterMs, degraded, shed, violated }).toEqual({
      ok: true,
      limit: 'one',
      remaining: 2,
      retryAfterMs: 0,
      degraded: false,
      shed: undefined,
      violated: [],
    })
    const expanded = Object.getOwnPropertySymbols(decision).find(({ description }) => description === 'expanded')
    expect(expanded).toBeDefined()
    expect(Reflect.get(decision, expanded as symbol)).toBeUndefined()
  })

  test('is a decision: it can be told as JSON, and refunded once', () => {
    const [gate] = plainTwins('4/s').gates as unknown as [Verbs]
    gate.take('a')
    const decision = gate.take('a')
    expect(decision).toBeInstanceOf(Decision)
    expect(JSON.parse(JSON.stringify(decision))).toMatchObject({ ok: true, limit: 'default', remaining: 2, cost: 1 })
    decision.refund()
    decision.refund()
    expect(gate.peek('a').remaining).toBe(3)
  })

  test('says that it was made after the last reset, of whichever key', () => {
    const { clock, gates } = plainTwins('4/s')
    const step = { afterMs: 0, nth: 0 }
    const take = (key: string) => ({ ...step, verb: 'take', key }) as const
    same(clock, gates, [take('a'), take('b'), { ...step, verb: 'reset', key: 'b' }, take('a')] as readonly Step[])
  })

  test('cannot be given back once its key was reset', () => {
    const [gate] = plainTwins('4/s').gates as unknown as [Verbs]
    gate.take('a')
    const before = gate.take('a')
    gate.reset('a')
    gate.take('a')
    gate.take('a')
    before.refund()
    expect(gate.peek('a').remaining).toBe(2)
  })
})
