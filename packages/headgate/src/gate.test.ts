import { describe, expect, test } from 'vitest'
import { createGate, HeadgateError, memory, type SyncStore } from './index.ts'
import { fakeClock } from './testing/index.ts'

interface Req {
  readonly user: string
  readonly plan?: string
  readonly rows?: number
  readonly path?: string
}

function codeOf(run: () => unknown): string {
  try {
    run()
  } catch (error) {
    return error instanceof HeadgateError ? error.code : String(error)
  }
  return 'nothing was thrown'
}

describe('several limits as one decision', () => {
  const limits = {
    user: { limit: '2/min', by: (r: Req) => r.user },
    all: { limit: '3/min' },
  } as const

  test('charges all or none, names every violated limit and waits for the last of them', () => {
    const gate = createGate({ limits, clock: fakeClock() })
    expect(gate.take({ user: 'a' })).toMatchObject({ ok: true, limit: 'user', remaining: 1, violated: [] })
    expect(gate.take({ user: 'a' })).toMatchObject({ ok: true, limit: 'user', remaining: 0 })
    expect(gate.take({ user: 'a' })).toMatchObject({
      ok: false,
      limit: 'user',
      violated: ['user'],
      retryAfterMs: 30_000,
    })
    expect(gate.take({ user: 'b' })).toMatchObject({ ok: true, limit: 'all', remaining: 0 })
    const both = gate.take({ user: 'a' })
    expect(both).toMatchObject({ ok: false, limit: 'user', violated: ['user', 'all'], retryAfterMs: 30_000 })
    expect(both.limits.map(({ name, ok, retryAfterMs }) => [name, ok, retryAfterMs])).toEqual([
      ['user', false, 30_000],
      ['all', false, 20_000],
    ])
    expect(gate.take({ user: 'b' })).toMatchObject({ ok: false, limit: 'all', violated: ['all'] })
    expect(gate.peek({ user: 'c' }).limits[0]).toMatchObject({ name: 'user', ok: true, remaining: 2 })
  })

  test('is decided by the longest wait as it is told, the first of equals', () => {
    const clock = fakeClock(50.05)
    const window = { limit: { limit: 1, per: '1ms', algorithm: 'fixed-window' } } as const
    const log = { limit: { limit: 1, per: '1ms', algorithm: 'sliding-log' } } as const
    const gate = createGate({ limits: { window, log }, clock })
    gate.take({})
    clock.advance(0.5)
    const refused = gate.take({})
    expect(refused.limits.map(({ retryAfterMs }) => retryAfterMs)).toEqual([1, 1])
    expect(refused.limit).toBe('window')
  })

  test('is decided by the smallest share left, the first of equals', () => {
    const gate = createGate({
      limits: { big: { limit: '1000/min' }, small: { limit: '100/min' }, same: { limit: '100/min' } },
      clock: fakeClock(),
    })
    expect(gate.take({})).toMatchObject({ limit: 'small', remaining: 99 })
  })

  test('says how many more calls pass, also where a limit has its own cost', () => {
    const gate = createGate({
      limits: { calls: { limit: '10/min' }, rows: { limit: '100/min', cost: (r: Req) => r.rows ?? 1 } },
      clock: fakeClock(),
    })
    expect(gate.take({ user: 'a', rows: 30 })).toMatchObject({ ok: true, remaining: 2, cost: 1 })
    expect(gate.take({ user: 'a', rows: 30 }).remaining).toBe(1)
    expect(gate.take({ user: 'a', rows: 30 }).remaining).toBe(0)
    expect(gate.take({ user: 'a', rows: 30 })).toMatchObject({ ok: false, violated: ['rows'] })
  })

  test('leaves out limits that do not concern a request', () => {
    const gate = createGate({
      limits: {
        export: { limit: '1/min', when: (r: Req) => r.path === '/export' },
        off: { limit: '0/s', mode: 'off' },
      },
      clock: fakeClock(),
    })
    const free = gate.take({ user: 'a', path: '/' })
    expect(free).toMatchObject({ ok: true, limit: '', limits: [], violated: [], remaining: Infinity, resetAfterMs: 0 })
    expect(gate.take({ user: 'a', path: '/export' }).ok).toBe(true)
    expect(gate.take({ user: 'a', path: '/export' }).ok).toBe(false)
  })

  test('observes without refusing: only the entry of the limit says no', () => {
    const gate = createGate({
      limits: { seen: { limit: '1/min', mode: 'observe' }, real: { limit: '5/min' } },
      clock: fakeClock(),
    })
    gate.take({})
    const second = gate.take({})
    expect(second).toMatchObject({ ok: true, violated: [], limit: 'real', retryAfterMs: 0, remaining: 3 })
    expect(second.limits[0]).toMatchObject({ name: 'seen', ok: false, retryAfterMs: 60_000 })
  })
})

describe('tiers and changes in flight', () => {
  const tiers = { free: '60/min', pro: '600/min', enterprise: 'unlimited' } as const
  const plan = { limit: tiers, tier: (r: Req) => r.plan as string, by: (r: Req) => r.user }

  test('a tier chooses the limit, and what was used stays used when it changes', () => {
    const gate = createGate({ limits: { plan }, clock: fakeClock() })
    expect(gate.take({ user: 'a', plan: 'free' }, { cost: 50 }).remaining).toBe(10)
    expect(gate.take({ user: 'a', plan: 'pro' }, { cost: 50 }).remaining).toBe(500)
    expect(gate.take({ user: 'a', plan: 'free' })).toMatchObject({ ok: false, remaining: 0 })
    expect(gate.take({ user: 'a', plan: 'enterprise' }, { cost: 1e9 })).toMatchObject({ ok: true, remaining: Infinity })
    expect(gate.take({ user: 'a', plan: 'pro' }).remaining).toBe(499)
  })

  test('a tier may have any name, also one that the object form of a limit knows', () => {
    const limit = { per: '10/s', limit: { limit: 7, per: '1s' }, free: '5/s' } as const
    const gate = createGate({ limit, tier: (r: Req) => r.plan as string, by: (r) => r.user, clock: fakeClock() })
    expect(['per', 'limit', 'free'].map((plan) => gate.peek({ user: 'a', plan }).remaining)).toEqual([10, 7, 5])
  })

  test('an unknown tier is an error that knows the tiers', () => {
    const gate = createGate({ limits: { plan } })
    expect(() => gate.take({ user: 'a', plan: 'prp' })).toThrow(/HG_TIER_UNKNOWN.*did you mean "pro"/)
    expect(codeOf(() => gate.take({ user: 'a' }))).toBe('HG_TIER_UNKNOWN')
  })

  test('an override holds for one key and a time, and grants nothing that was used', () => {
    const clock = fakeClock()
    const gate = createGate({ limit: '10/h', clock })
    gate.take('a', { cost: 10 })
    gate.override('a', '15/h', 60_000)
    expect(gate.take('a', { cost: 5 }).ok).toBe(true)
    expect(gate.take('a')).toMatchObject({ ok: false })
    expect(gate.take('b', { cost: 11 }).ok).toBe(false)
    clock.advance(60_000)
    expect(gate.take('a')).toMatchObject({ ok: false, remaining: 0 })
    gate.override('a', 'unlimited', 60_000)
    expect(gate.take('a').ok).toBe(true)
    gate.override('a', 'unlimited', 0)
    expect(gate.take('a').ok).toBe(false)
  })

  test('an override is lifted whatever limit stands beside the 0', () => {
    const gate = createGate({ limit: '1/h', clock: fakeClock() })
    gate.override('a', 'unlimited', 60_000)
    gate.take('a', { cost: 100 })
    for (const to of ['', 'no limit', undefined, null]) gate.override('a', to as never, 0)
    expect(gate.take('a').limits[0]?.limit).toBe(1)
    expect(codeOf(() => gate.override('a', 'no limit', 1))).toBe('HG_LIMIT_TEXT')
  })

  test('a limit has at most 100,000 overrides; then further keys are refused, and nobody loses one', () => {
    const clock = fakeClock()
    const gate = createGate({ limit: '1/h', clock })
    for (let i = 0; i < 100_000; i++) gate.override(`key ${i}`, '2/h', i < 99_999 ? 2000 : 1000)
    expect(codeOf(() => gate.override('more', '2/h', 1000))).toBe('HG_OVERRIDES_FULL')
    gate.override('key 0', '3/h', 2000)
    expect([gate.peek('key 0').remaining, gate.peek('key 1').remaining, gate.peek('more').remaining]).toEqual([3, 2, 1])
    clock.advance(1000)
    gate.override('more', '2/h', 1000)
    expect(gate.peek('more').remaining).toBe(2)
  })

  test('a gate finds the short way again once its last override has ended, whether or not that key comes again', () => {
    const clock = fakeClock()
    const inner = memory({ clock })
    let short = 0
    const store: SyncStore = {
      clock,
      run: (groups, nowUs) => inner.run(groups, nowUs),
      decide: (...args) => inner.decide(...args),
      forecast: () => inner.forecast(),
      takeOne(...args) {
        short++
        inner.takeOne(...args)
      },
    }
    const gate = createGate({ limit: '100/h', store })
    for (const key of ['a', 'b', 'c']) gate.override(key, '200/h', 1000)
    for (let i = 0; i < 10; i++) gate.take('d')
    expect(short).toBe(0)
    clock.advance(1000)
    for (let i = 0; i < 10; i++) gate.take('d')
    expect(short).toBe(7)
  })

  test('a limit raised or lowered by a new gate on the same store keeps the counts', () => {
    const store = memory({ clock: fakeClock() })
    const gate = (limit: '10/min' | '20/min' | '5/min') => createGate({ limit, algorithm: 'fixed-window', store })
    expect(gate('10/min').take('a', { cost: 8 }).remaining).toBe(2)
    expect(gate('20/min').take('a').remaining).toBe(11)
    expect(gate('5/min').take('a')).toMatchObject({ ok: false, remaining: 0, retryAfterMs: 60_000 })
  })
})

describe('verbs', () => {
  test('take up to n takes as many as fit, at least one', () => {
    const gate = createGate({ limit: '10/min', clock: fakeClock() })
    expect(gate.take('a', { upTo: 7 })).toMatchObject({ ok: true, cost: 7, remaining: 3 })
    const rest = gate.take('a', { upTo: 7 })
    expect(rest).toMatchObject({ ok: true, cost: 3, remaining: 0 })
    expect(gate.take('a', { upTo: 7 })).toMatchObject({ ok: false, cost: 1, retryAfterMs: 6_000 })
    rest.refund()
    expect(gate.peek('a').remaining).toBe(3)
  })

  test('peek spends nothing and says what a take of that cost would get', () => {
    const gate = createGate({ limit: '10/min', clock: fakeClock() })
    gate.take('a', { cost: 4 })
    expect(gate.peek('a')).toMatchObject({ ok: true, remaining: 6, retryAfterMs: 0 })
    expect(gate.peek('a', { cost: 8 })).toMatchObject({ ok: false, remaining: 6, retryAfterMs: 12_000 })
    expect(gate.peek('a').remaining).toBe(6)
  })

  test('settle corrects once, up or down, and refund after it does nothing', () => {
    const gate = createGate({ limit: '10/min', clock: fakeClock() })
    const low = gate.take('a', { cost: 5 })
    low.settle(2)
    low.settle(9)
    low.refund()
    expect(gate.peek('a').remaining).toBe(8)
    gate.take('a', { cost: 5 }).settle(20)
    expect(gate.take('a')).toMatchObject({ ok: false, remaining: 0, retryAfterMs: 78_000 })
  })

  test('settle says what it does not know and stays open', () => {
    const gate = createGate({
      limits: { calls: { limit: '10/min' }, constructor: { limit: '20/min' } },
      clock: fakeClock(),
    })
    const decision = gate.take({}, { cost: 5 })
    expect(codeOf(() => decision.settle({ typo: 1 }))).toBe('HG_LIMIT_UNKNOWN')
    expect(codeOf(() => decision.settle(null as never))).toBe('HG_COST_INVALID')
    decision.settle({ calls: 1 })
    expect(gate.peek({}).limits.map(({ remaining }) => remaining)).toEqual([9, 15])
  })

  test('take up to n charges an observed limit only what fits it', () => {
    const limits = { real: { limit: '100/h' }, seen: { limit: '5/h', mode: 'observe' } } as const
    const gate = createGate({ limits, clock: fakeClock() })
    const decision = gate.take({}, { upTo: 50 })
    expect(decision.limits.map(({ ok, remaining }) => [ok, remaining])).toEqual([
      [true, 50],
      [false, 5],
    ])
  })

  test.each([[undefined], [Number.NaN], [Infinity], [-1]])('a clock that says %s is refused', (now) => {
    const gate = createGate({ limit: '2/min', clock: { now: () => now as number } })
    expect(codeOf(() => gate.take('a'))).toBe('HG_OPTION_INVALID')
  })

  test('settle by name corrects each limit to its own', () => {
    const gate = createGate({
      limits: { calls: { limit: '10/min' }, tokens: { limit: '1000/min', cost: (r: Req) => r.rows ?? 0 } },
      clock: fakeClock(),
    })
    gate.take({ user: 'a', rows: 400 }).settle({ tokens: 150 })
    expect(gate.peek({ user: 'a', rows: 1 }).limits.map(({ remaining }) => remaining)).toEqual([9, 850])
  })

  test('refund never lifts a key above its limit, and gives back once', () => {
    const clock = fakeClock()
    const gate = createGate({ limit: '10/min', clock })
    const first = gate.take('a', { cost: 5 })
    clock.advance(3_600_000)
    first.refund()
    expect(gate.peek('a').remaining).toBe(10)
    const second = gate.take('a', { cost: 5 })
    gate.take('a', { cost: 5 })
    second.refund()
    second.refund()
    expect(gate.peek('a').remaining).toBe(5)
  })

  test('refund gives back no unit that time has given back already', () => {
    const clock = fakeClock()
    const gate = createGate({ limit: '10/min', clock })
    const early = gate.take('a', { cost: 10 })
    clock.advance(30_000)
    gate.take('a', { cost: 5 })
    early.refund()
    expect(gate.peek('a').remaining).toBe(5)
  })

  test('refunds in any order give back no more than if those takes had never been', () => {
    const clock = fakeClock()
    const gate = createGate({ limit: '1/s burst 10', clock })
    const first = gate.take('a', { cost: 5 })
    clock.set(3000)
    const second = gate.take('a', { cost: 5 })
    clock.set(4000)
    first.refund()
    clock.set(6000)
    gate.take('a', { cost: 5 })
    second.refund()
    expect(gate.peek('a').remaining).toBe(5)
  })

  test('takes of one instant are all given back, whatever the order', () => {
    const orders = [
      [0, 1, 2],
      [0, 2, 1],
      [1, 0, 2],
      [1, 2, 0],
      [2, 0, 1],
      [2, 1, 0],
    ] as const
    for (const limit of ['10/min', '7/min'] as const) {
      const gate = createGate({ limit, clock: fakeClock() })
      for (const order of orders) {
        const taken = [1, 2, 3].map((cost) => gate.take('a', { cost }))
        for (const i of order) taken[i]?.refund()
        expect(gate.peek('a')).toMatchObject({ remaining: Number.parseInt(limit, 10), resetAfterMs: 0 })
      }
    }
  })

  test('a refund gives back all, also when every other of a hundred takes was refunded before it', () => {
    for (let later = 1; later < 100; later += 2) {
      const gate = createGate({ limit: '1000/min', clock: fakeClock() })
      const taken = Array.from({ length: 100 }, () => gate.take('a', { cost: 3 }))
      for (let i = 0; i < 100; i += 2) taken[i]?.refund()
      taken[later]?.refund()
      expect(gate.peek('a').remaining).toBe(1000 - 49 * 3)
    }
  })

  test('a take that cost nothing frees no slot, and an unlimited tier gives nothing back', () => {
    const slots = createGate({ limits: { busy: { atOnce: 1 }, calls: { limit: '10/min' } }, clock: fakeClock() })
    slots.take({})
    slots.take({}, { cost: 0 }).release()
    expect(slots.take({}).ok).toBe(false)
    const limit = { free: '5/min', all: 'unlimited' } as const
    const plans = createGate({
      limits: { plan: { limit, tier: (plan: string) => plan, by: () => 'a' } },
      clock: fakeClock(),
    })
    plans.take('free', { cost: 5 })
    for (let i = 0; i < 5; i++) plans.take('all').refund()
    expect(plans.take('free').ok).toBe(false)
  })

  test('looking at a key through two limits in turn does not hold it back', () => {
    const clock = fakeClock()
    const store = memory({ clock })
    const [slow, fast] = [createGate({ limit: '10/min', store }), createGate({ limit: '20/min', store })]
    slow.take('a', { cost: 10 })
    for (let second = 0; second < 60; second++) {
      clock.advance(1000)
      fast.peek('a')
      slow.peek('a')
    }
    expect(slow.peek('a').remaining).toBe(10)
  })

  test('a refused decision has nothing to settle, refund or release', () => {
    const gate = createGate({ limit: '1/min', clock: fakeClock() })
    gate.take('a')
    const refused = gate.take('a')
    refused.settle(5)
    refused.refund()
    refused.release()
    expect(gate.peek('a')).toMatchObject({ remaining: 0, retryAfterMs: 60_000 })
  })

  test('a repeat of an id gets the first decision whatever else it asks for', () => {
    const gate = createGate({
      clock: fakeClock(),
      limits: {
        user: { limit: '10/min', by: (r: { user: string; big: boolean }) => r.user },
        big: { limit: '5/min', by: (r) => r.user, when: (r) => r.big },
      },
    })
    const first = gate.take({ user: 'a', big: false }, { id: 'x', cost: 2 })
    const again = gate.take({ user: 'b', big: true }, { id: 'x', cost: 9 })
    expect(again.toJSON()).toEqual(first.toJSON())
    again.refund()
    first.refund()
    expect(gate.peek({ user: 'a', big: true }).limits.map(({ remaining }) => remaining)).toEqual([10, 5])
    expect(gate.peek({ user: 'b', big: true }).limits.map(({ remaining }) => remaining)).toEqual([10, 5])
  })

  test('an id that was refunded is charged again, one that was settled is not', () => {
    const gate = createGate({ limit: '10/min', clock: fakeClock() })
    gate.take('a', { id: 'x', cost: 4 }).refund()
    expect(gate.take('a', { id: 'x', cost: 4 }).remaining).toBe(6)
    gate.take('a', { id: 'x' }).settle(3)
    gate.take('a', { id: 'x' }).settle(2)
    expect(gate.peek('a').remaining).toBe(7)
    expect(gate.take('a', { id: 'x' }).cost).toBe(4)
    expect(gate.peek('a').remaining).toBe(7)
  })

  test('a repeat of an id is answered also where others stand in line', async () => {
    const clock = fakeClock()
    const gate = createGate({ limit: '2/min', clock })
    gate.take('a', { id: 'x', cost: 2 })
    const waiting = gate.wait('a')
    expect(gate.take('a', { id: 'x', cost: 2 }).ok).toBe(true)
    expect(gate.take('a', { id: 'y' }).ok).toBe(false)
    clock.advance(60_000)
    expect((await waiting).ok).toBe(true)
  })

  test('ids of any length are counted as what they take', () => {
    const store = memory({ maxBytes: 1_000_000, clock: fakeClock() })
    const gate = createGate({ limit: '1000000/day', store })
    for (let i = 0; i < 1000; i++) gate.take('a', { id: `${i}${'x'.repeat(10_000)}` })
    expect(store.bytes).toBeLessThan(150_000)
    expect(gate.take('a', { id: `999${'x'.repeat(10_000)}` }).remaining).toBe(999_000)
  })

  test('a repeat of an id is free and gets the first decision; a refused id is judged anew', () => {
    const clock = fakeClock()
    const gate = createGate({ limit: '2/min', clock })
    const first = gate.take('a', { cost: 2, id: 'x' })
    const again = gate.take('a', { cost: 2, id: 'x' })
    expect(again.toJSON()).toEqual(first.toJSON())
    first.refund()
    again.refund()
    expect(gate.take('a', { cost: 2 }).ok).toBe(true)
    expect(gate.take('a', { id: 'y' }).ok).toBe(false)
    clock.advance(60_000)
    expect(gate.take('a', { id: 'y' }).ok).toBe(true)
    clock.advance(60_000)
    expect(gate.take('a', { cost: 2, id: 'x' }).remaining).toBe(0)
  })

  test('block refuses a key for a time, by whatever is longer; 0 lifts it; reset clears both', () => {
    const clock = fakeClock()
    const gate = createGate({ limits: { ip: { limit: '1/min', by: (ip: string) => ip } }, clock })
    gate.block('ip', 'x', 5000)
    expect(gate.take('x')).toMatchObject({ ok: false, retryAfterMs: 5000, violated: ['ip'] })
    clock.advance(5000)
    expect(gate.take('x').ok).toBe(true)
    gate.block('ip', 'x', 1000)
    expect(gate.take('x').retryAfterMs).toBe(60_000)
    gate.block('ip', 'x', 0)
    gate.reset('ip', 'x')
    expect(gate.take('x').ok).toBe(true)
  })

  test('atOnce frees slots by release, once, and by hold time', () => {
    const clock = fakeClock()
    const gate = createGate({ atOnce: 2, holdMs: 10_000, clock })
    const first = gate.take('a')
    gate.take('a')
    const refused = gate.take('a')
    expect(refused).toMatchObject({ ok: false, remaining: 0 })
    expect(refused.retryAfterMs).toBeGreaterThan(0)
    first.release()
    first.release()
    expect(gate.take('a').ok).toBe(true)
    expect(gate.take('a').ok).toBe(false)
    clock.advance(10_000)
    expect(gate.take('a', { cost: 2 }).ok).toBe(true)
    expect(gate.take('a', { cost: 3 }).retryAfterMs).toBe(Infinity)
  })

  test('slots held for different times come back each at its own, whichever was taken first', () => {
    const clock = fakeClock()
    const store = memory({ clock })
    const gate = (holdMs: number) => createGate({ atOnce: 2, holdMs, store })
    const [long, short] = [gate(60_000), gate(1000)]
    const first = long.take('a')
    expect(short.take('a')).toMatchObject({ ok: true, remaining: 0, resetAfterMs: 60_000 })
    expect(long.peek('a')).toMatchObject({ ok: false, retryAfterMs: 1000 })
    clock.advance(1000)
    const third = short.take('a')
    expect(third).toMatchObject({ ok: true, remaining: 0, resetAfterMs: 59_000 })
    clock.advance(400)
    first.release()
    expect(long.peek('a')).toMatchObject({ remaining: 1, resetAfterMs: 600 })
    third.release()
    expect(long.peek('a')).toMatchObject({ remaining: 2, resetAfterMs: 0 })
  })

  test('onDecision sees every take and no peek', () => {
    const seen: boolean[] = []
    const gate = createGate({ limit: '1/min', clock: fakeClock(), onDecision: ({ ok }) => seen.push(ok) })
    gate.take('a')
    gate.peek('a')
    gate.take('a')
    expect(seen).toEqual([true, false])
  })
})

describe('misuse', () => {
  const free = (): string => 'free'

  test.each([[Number.NaN], [-1], [1.5], ['3'], [Infinity], [2 ** 53], [null]])(
    'a cost of %s is HG_COST_INVALID',
    (cost) => {
      const gate = createGate({ limit: '10/min' })
      expect(codeOf(() => gate.take('a', { cost: cost as number }))).toBe('HG_COST_INVALID')
      expect(codeOf(() => gate.peek('a', { cost: cost as number }))).toBe('HG_COST_INVALID')
      expect(codeOf(() => gate.take('a').settle(cost as number))).toBe('HG_COST_INVALID')
      expect(codeOf(() => createGate({ limit: '1/s', by: String, cost: () => cost as number }).take('a'))).toBe(
        'HG_COST_INVALID',
      )
      expect(gate.peek('a').remaining).toBe(9)
    },
  )

  test.each([
    [''],
    [Number.NaN],
    [[]],
    [new Array(1)],
    [Object.assign(['a'], { 2: 'b' })],
    [null],
    [undefined],
    [{}],
    [['a', '']],
    [['a', null]],
    [true],
    [Infinity],
  ])('the key %j is HG_KEY_MISSING', (key) => {
    expect(codeOf(() => createGate({ limit: '10/min' }).take(key as never))).toBe('HG_KEY_MISSING')
    expect(codeOf(() => createGate({ limits: { a: { limit: '1/s', by: () => key as never } } }).take({}))).toBe(
      'HG_KEY_MISSING',
    )
  })

  test('keys that look alike are one or two as they should', () => {
    const gate = createGate({ limit: '100/min', clock: fakeClock() })
    const used = (key: string | number | (string | number)[]) => 100 - gate.take(key).remaining
    expect([used(1), used('1'), used(['1']), used([1])]).toEqual([1, 2, 3, 4])
    const apart = [
      ['a', 'b'],
      ['ab'],
      ['a', 'b', 'c'],
      ['a,b'],
      ['1:a1:b', 'x'],
      ['a', '1:bx'],
      '\u00001:a1:b',
      ['\u00001:a1:b', 'c'],
      ['a0:b', 'c'],
      ['a', 'b0:c'],
    ]
    expect(apart.map((key) => used(key))).toEqual(apart.map(() => 1))
  })

  test.each(['*', '\u0000*', '\u0000'])('the key %j is a key as any other, and not that of a shared limit', (key) => {
    const store = memory({ clock: fakeClock() })
    const shared = createGate({ limits: { all: { limit: '1/h' } }, store })
    const byKey = createGate({ limits: { all: { limit: '1/h', by: (key: string) => key } }, store })
    expect(shared.take('x').ok).toBe(true)
    const decision = byKey.take(key)
    expect(decision.ok).toBe(true)
    expect(decision.limits[0]).toHaveProperty('key')
    expect(shared.peek('x').limits[0]).not.toHaveProperty('key')
    shared.reset('all')
    expect([shared.take('x').ok, byKey.take(key).ok]).toEqual([true, false])
  })

  test.each([
    [{ limit: '1/s', limits: { a: { limit: '1/s' } } }, 'HG_OPTION_CONFLICT'],
    [{ limit: '1/s', atOnce: 3 }, 'HG_OPTION_CONFLICT'],
    [{ limit: '1/s', holdMs: 3 }, 'HG_OPTION_CONFLICT'],
    [{ limit: { free: '1/s' } }, 'HG_OPTION_CONFLICT'],
    [{ limit: '1/s', tier: free }, 'HG_OPTION_CONFLICT'],
    [{}, 'HG_LIMIT_MISSING'],
    [{ limits: {} }, 'HG_LIMIT_MISSING'],
    [{ limits: { a: '1/s' } }, 'HG_LIMIT_MISSING'],
    [undefined, 'HG_LIMIT_MISSING'],
    [{ limit: {} }, 'HG_LIMIT_MISSING'],
    [{ limit: {}, tier: free }, 'HG_LIMIT_MISSING'],
    [{ limit: { limit: 100 } }, 'HG_LIMIT_TEXT'],
    [{ limit: { limit: 100, per: 'min' }, tier: free }, 'HG_OPTION_CONFLICT'],
    [{ limit: { per: '10/s', free: '5/s' } }, 'HG_OPTION_CONFLICT'],
    [{ limit: { free: 60, pro: 600 }, tier: free }, 'HG_LIMIT_TEXT'],
    [{ limit: { lmit: 60, per: 'min' } }, 'HG_OPTION_UNKNOWN'],
    [{ limit: ['1/s'] }, 'HG_LIMIT_TEXT'],
    [{ limit: '1/s', algorithm: '' }, 'HG_OPTION_INVALID'],
    [{ atOnce: 3, algorithm: 'gcra' }, 'HG_OPTION_CONFLICT'],
    [[], 'HG_OPTION_INVALID'],
    [{ limits: { A: { limit: '1/s' } } }, 'HG_LIMIT_NAME'],
    [{ limit: '1/s', windowMs: 5 }, 'HG_OPTION_UNKNOWN'],
    [{ limits: { a: { limit: '1/s', bye: () => 'x' } } }, 'HG_OPTION_UNKNOWN'],
    [{ limit: '1/s', by: 'ip' }, 'HG_OPTION_INVALID'],
    [{ limit: '1/s', mode: 'obsrve' }, 'HG_OPTION_INVALID'],
    [{ limit: '1/s', onStoreError: 'open' }, 'HG_OPTION_INVALID'],
    [{ limit: '1/s', clock: 5 }, 'HG_OPTION_INVALID'],
    [{ limit: '1/s', store: {} }, 'HG_OPTION_INVALID'],
    [{ limit: '1/s', timeoutMs: -1 }, 'HG_OPTION_INVALID'],
    [{ atOnce: 1.5 }, 'HG_LIMIT_RANGE'],
    [{ atOnce: 3, holdMs: 0 }, 'HG_LIMIT_RANGE'],
  ])('createGate(%j) is refused with %s', (options, code) => {
    expect(codeOf(() => createGate(options as never))).toBe(code)
  })

  test('a limit without its period is told so', () => {
    expect(() => createGate({ limit: { limit: 100 } } as never)).toThrow('"per" is missing')
    expect(() => createGate({ limit: '1/s' }).override('a', { limit: 100 } as never, 1000)).toThrow('"per" is missing')
  })

  test('an option that is undefined is absent', () => {
    const limits = { a: { limit: '1/s', atOnce: undefined, tier: undefined, holdMs: undefined } }
    const absent = { limit: undefined, atOnce: undefined, by: undefined, store: undefined, clock: undefined }
    expect(createGate({ limits, ...absent } as never).take('x' as never)).toMatchObject({ ok: true })
    const one = createGate({
      limit: { limit: 1, per: '1s', burst: undefined },
      limits: undefined,
      atOnce: undefined,
    } as never)
    expect(one.take('x' as never, { cost: undefined, id: undefined, upTo: undefined } as never).ok).toBe(true)
  })

  test.each([[null], [5], ['3'], [[]], [() => {}]])('options that are %s are HG_OPTION_INVALID', async (options) => {
    const gate = createGate({ limit: '10/min' })
    expect(codeOf(() => gate.take('a', options as never))).toBe('HG_OPTION_INVALID')
    expect(codeOf(() => gate.peek('a', options as never))).toBe('HG_OPTION_INVALID')
    await expect(gate.wait('a', options as never)).rejects.toThrow('HG_OPTION_INVALID')
    await expect(gate.wait('a', { signal: options ?? 0 } as never)).rejects.toThrow('HG_OPTION_INVALID')
    expect(gate.peek('a').remaining).toBe(10)
  })

  test('verbs name what they do not know', () => {
    const gate = createGate({ limits: { key: { limit: '1/s', by: (k: string) => k } } })
    expect(codeOf(() => gate.block('kye' as never, 'a', 1))).toBe('HG_LIMIT_UNKNOWN')
    expect(codeOf(() => gate.block('key', 'a', -1))).toBe('HG_OPTION_INVALID')
    expect(codeOf(() => gate.take('a', { const: 3 } as never))).toBe('HG_OPTION_UNKNOWN')
    expect(codeOf(() => gate.take('a', { upTo: 0 }))).toBe('HG_COST_INVALID')
    expect(codeOf(() => gate.take('a', { upTo: 5, cost: 2 }))).toBe('HG_OPTION_CONFLICT')
    expect(codeOf(() => gate.take('a', { id: '' }))).toBe('HG_OPTION_INVALID')
    expect(codeOf(() => gate.reset('key', ''))).toBe('HG_KEY_MISSING')
  })
})
