import { describe, expect, test } from 'vitest'
import { randomBelow, seed } from '../../test/random.ts'
import { createGate, memory, type Op, type Outcome, type Result } from '../index.ts'
import { compileAtOnce } from '../limit.ts'
import { fakeClock, storeSuite } from '../testing/index.ts'

describe(`the memory store (HEADGATE_SEED=${seed})`, () => {
  for (const { name, run } of storeSuite((clock) => memory({ clock }), { seed })) test(name, run)

  test('answers at once, not with a promise', () => {
    const gate = createGate({ limit: '1/min' })
    expect(gate.take('a').ok).toBe(true)
    expect(gate.peek('a').ok).toBe(false)
    expect(gate.block('a', 10)).toBeUndefined()
    expect(gate.reset('a')).toBeUndefined()
  })

  test('keeps a slot that is renewed, for those who hold it from elsewhere, and not one that was reset', () => {
    const clock = fakeClock(1_000)
    const store = memory({ clock })
    const counter = { space: 's', policy: compileAtOnce(1, 1_000) }
    const slot = { counter, key: 'a', cost: 1 }
    const run = (op: Omit<Op, keyof typeof slot>) => store.run([{ ops: [{ ...slot, ...op }] }])[0] as Result
    const [mark] = run({ verb: 'take' }).outcomes as [Outcome]
    for (let i = 0; i < 5; i++) {
      clock.advance(900)
      run({ verb: 'renew', mark })
      // Newcomers look for what may be forgotten.
      store.run([{ ops: [{ ...slot, verb: 'take', key: `other-${i}` }] }])
    }
    expect(run({ verb: 'take' }).ok).toBe(false)
    run({ verb: 'reset' })
    run({ verb: 'renew', mark })
    const next = run({ verb: 'take' })
    expect(next.ok).toBe(true)
    run({ verb: 'release', mark })
    expect(run({ verb: 'take' }).ok).toBe(false)
    clock.advance(500)
    const stranger = { ...(next.outcomes[0] as Outcome), era: -1 }
    run({ verb: 'renew', mark: stranger })
    clock.advance(500)
    run({ verb: 'renew', mark: next.outcomes[0] as Outcome })
    expect(run({ verb: 'take' }).ok).toBe(true)
  })

  for (const algorithm of ['gcra', 'sliding-log'] as const) {
    test(`forgets ${algorithm} keys that are full again and so stays small under any number of keys`, () => {
      const clock = fakeClock()
      const store = memory({ clock })
      const gate = createGate({ limit: '10/s', algorithm, store })
      for (let i = 0; i < 200_000; i++) {
        gate.take(`key-${i}`)
        if (i % 10 === 0) clock.advance(100)
      }
      expect(store.keys).toBeLessThan(2_000)
      expect(store.bytes).toBeLessThan(500_000)
    })
  }

  test('stays within maxBytes under a flood of keys', () => {
    const store = memory({ maxBytes: 1_000_000, clock: fakeClock() })
    const gate = createGate({ limit: '10/day', store })
    for (let i = 0; i < 200_000; i++) {
      gate.take(`key-${i}`)
      if (i % 1000 === 0) expect(store.bytes).toBeLessThanOrEqual(1_000_000)
    }
    expect(store.keys).toBeGreaterThan(20_000)
  })

  for (const algorithm of ['gcra', 'fixed-window', 'sliding-window', 'strict-window', 'sliding-log'] as const) {
    test(`forgets no ${algorithm} key that is being refused while another can go`, () => {
      const store = memory({ maxBytes: 100_000, clock: fakeClock() })
      const gate = createGate({ limit: '3/day', algorithm, store })
      const refused = Array.from({ length: 50 }, (_, i) => `abuser-${i}`)
      for (const key of refused) expect(gate.take(key, { cost: 3 }).ok).toBe(true)
      for (let i = 0; i < 30_000; i++) expect(gate.take(`passer-by-${i}`).ok).toBe(true)
      for (const key of refused) expect(gate.take(key).ok).toBe(false)
    })
  }

  test('forgets the newest when all others are being refused, so that a flood frees nobody', () => {
    const store = memory({ maxBytes: 16_384, clock: fakeClock() })
    const gate = createGate({ limit: '1/day', store })
    for (let i = 0; i < 5_000; i++) gate.take(`key-${i}`)
    let kept = 0
    for (let i = 0; i < 300; i++) if (!gate.peek(`key-${i}`).ok) kept++
    // One goes whenever a segment is found to be full of refused keys.
    expect(kept).toBeGreaterThan(290)
  })

  test('gives a limit its share of the memory when another one has flooded it', () => {
    const store = memory({ maxBytes: 1_000_000, clock: fakeClock() })
    const flooded = createGate({ store, limits: { ip: { limit: '10/day', by: (ip: string) => ip } } })
    const needed = createGate({ store, limits: { key: { limit: '10/day', by: (key: string) => key } } })
    for (let i = 0; i < 100_000; i++) flooded.take(`ip-${i}`)
    for (let i = 0; i < 10_000; i++) needed.take(`key-${i}`, { cost: 10 })
    let kept = 0
    for (let i = 0; i < 10_000; i++) if (!needed.take(`key-${i}`).ok) kept++
    expect(kept).toBe(10_000)
    expect(store.bytes).toBeLessThanOrEqual(1_000_000)
  })

  test('forgets counts before it forgets a block', () => {
    const store = memory({ maxBytes: 131_072, clock: fakeClock() })
    const gate = createGate({ limit: '1/day', store })
    const others = Array.from({ length: 9 }, (_, i) => createGate({ limit: '1/day', store, prefix: `other-${i}` }))
    const blocked = Array.from({ length: 1_500 }, (_, i) => `blocked-${i}`)
    for (const each of [gate, ...others]) for (let i = 0; i < 2_000; i++) each.take(`key-${i}`)
    for (const key of blocked) gate.block(key, 1000)
    for (const each of [gate, ...others]) for (let i = 0; i < 2_000; i++) each.take(`later-${i}`)
    for (const key of blocked) expect(gate.peek(key).retryAfterMs, key).toBe(1000)
  })

  test('keeps keys with a rate of their own in one table, however many rates there are', () => {
    const clock = fakeClock()
    const store = memory({ clock })
    const gate = createGate({ limit: '10/h', store })
    for (let i = 1; i <= 5_000; i++) {
      gate.override(`key-${i}`, { limit: 7 * i, per: '11h' }, 60_000)
      gate.take(`key-${i}`, { cost: 7 * i })
    }
    for (let i = 1; i <= 5_000; i++) expect(gate.take(`key-${i}`).ok).toBe(false)
    expect(store.bytes).toBeLessThan(5_000 * 300)
    clock.advance(60_000)
    expect(gate.peek('key-1').remaining).toBe(3)
    expect(gate.peek('key-4000').remaining).toBe(0)
  })

  test('forgets limits that come and go, each with a name of its own', () => {
    const clock = fakeClock()
    const store = memory({ clock })
    for (let i = 0; i < 10_000; i++) {
      createGate({ limit: '10/s', store, prefix: `gate-${i}` }).take('a')
      clock.advance(10)
    }
    expect(store.keys).toBeLessThan(2_500)
    expect(store.bytes).toBeLessThan(2_500_000)
    const kept = createGate({ limit: '1/h', store, prefix: 'kept' })
    kept.take('a')
    for (let i = 0; i < 10_000; i++) createGate({ limit: '10/h', store, prefix: `later-${i}` }).take('a')
    expect(kept.take('a').ok).toBe(false)
  })

  test('holds its bound against any number of limits, each with a name of its own', () => {
    const store = memory({ maxBytes: 1_000_000, clock: fakeClock() })
    for (let i = 0; i < 20_000; i++) createGate({ limit: '10/day', store, prefix: `gate-${i}` }).take('a')
    expect(store.bytes).toBeLessThanOrEqual(3_000_000)
  })

  for (const algorithm of ['gcra', 'fixed-window', 'sliding-window', 'strict-window', 'sliding-log'] as const) {
    test(`gives back nothing of a ${algorithm} booking that a reset has forgotten`, () => {
      const clock = fakeClock()
      const gate = createGate({ limit: '10/min', algorithm, clock })
      const before = gate.take('a', { cost: 4 })
      const other = gate.take('b', { cost: 4 })
      gate.reset('a')
      const after = gate.take('a', { cost: 7 })
      before.refund()
      other.refund()
      expect(gate.peek('a').remaining).toBe(3)
      expect(gate.peek('b').remaining).toBe(10)
      after.refund()
      expect(gate.peek('a').remaining).toBe(10)
    })
  }

  test('goes the short way again once blocks have ended and refunds are forgotten', () => {
    const clock = fakeClock()
    const store = memory({ clock })
    const gate = createGate({ limit: '100/s', store })
    let long = 0
    const { decide } = store
    store.decide = (...args) => {
      long++
      return decide.apply(store, args)
    }
    gate.block('bad', 1_000)
    const first = gate.take('a')
    gate.take('a')
    first.refund()
    expect(gate.take('bad').retryAfterMs).toBe(1_000)
    clock.advance(1_000)
    for (let i = 0; i < 3_000; i++) gate.take('a')
    const before = long
    for (let i = 0; i < 3_000; i++) gate.take('a')
    expect(before).toBeGreaterThan(0)
    expect(long).toBe(before)
  })

  test('stays whole and quick when every key is being refused and limits fight for memory', () => {
    const store = memory({ maxBytes: 2 ** 21, clock: fakeClock() })
    const gates = ['a', 'b', 'c'].map((prefix) => createGate({ limit: '1/h', store, prefix }))
    for (const [i, keys] of [200_000, 60_000, 60_000].entries())
      for (let k = 0; k < keys; k++) gates[i]?.take(`key-${k}`)
    expect(store.bytes).toBeLessThanOrEqual(2 ** 21)
    expect(store.keys).toBeGreaterThan(50_000)
  })

  test('counts a log that outgrows its memory, and gives all of it back', () => {
    const clock = fakeClock()
    const store = memory({ maxBytes: 16_384, clock })
    const gate = createGate({ limit: '50000/h', algorithm: 'sliding-log', store })
    for (let i = 0; i < 20_000; i++) {
      gate.take('a')
      clock.advance(1)
    }
    expect(store.bytes).toBeGreaterThan(300_000)
    gate.reset('a')
    expect(store.bytes).toBeLessThan(2_000)
  })

  test('gives a second limit room in a store too small for two segments', () => {
    const store = memory({ maxBytes: 65_536, clock: fakeClock() })
    const first = createGate({ limit: '1/h', store, prefix: 'first' })
    const second = createGate({ limit: '5/h', store, prefix: 'second' })
    for (let i = 0; i < 10_000; i++) first.take(`key-${i}`)
    let admitted = 0
    for (let round = 0; round < 100; round++) for (let i = 0; i < 20; i++) if (second.take(`key-${i}`).ok) admitted++
    expect(admitted).toBe(100)
  })

  test('meets a new calendar day with many keys without stopping', () => {
    const clock = fakeClock(Date.UTC(2026, 0, 5, 12))
    const store = memory({ clock })
    const gate = createGate({ limit: '1000/day calendar America/New_York', store })
    for (let day = 0; day < 3; day++) {
      for (let i = 0; i < 30_000; i++) gate.take(`day-${day}-${i}`)
      clock.advance(86_400_000)
    }
    expect(store.keys).toBeLessThan(60_000)
  })

  test('does not grow with keys that come one by one and are soon idle', () => {
    const clock = fakeClock()
    const store = memory({ clock })
    const gate = createGate({ limit: '1000/s', store })
    for (let i = 0; i < 200_000; i++) {
      gate.take(`key-${i}`)
      clock.advance(10)
    }
    expect(store.keys).toBeLessThan(2000)
  })

  test('keeps a hundred thousand keys apart while it grows', () => {
    const gate = createGate({ limit: '1000/day', clock: fakeClock() })
    for (let i = 0; i < 100_000; i++) gate.take(`key-${i}`, { cost: 1 + (i % 900) })
    for (let i = 0; i < 100_000; i++) expect(gate.peek(`key-${i}`).remaining).toBe(999 - (i % 900))
  })

  test('loses and mixes up no key while others come and go', () => {
    const gate = createGate({ limit: '1000/day', clock: fakeClock() })
    const counts = new Map<string, number>()
    const random = randomBelow(seed)
    for (let step = 0; step < 60_000; step++) {
      const key = `key-${random(5000)}`
      if (random(3) === 0) {
        gate.reset(key)
        counts.delete(key)
      } else {
        gate.take(key)
        counts.set(key, (counts.get(key) ?? 0) + 1)
      }
    }
    const wrong = [...counts].filter(([key, count]) => gate.peek(key).remaining !== 1000 - count)
    expect(wrong).toEqual([])
  })

  test('tells keys apart whatever their characters and length', () => {
    const keys = [
      'a',
      'b',
      'aa',
      'ä',
      'ÿ',
      'ā',
      '\u0000',
      '\u0000\u0000',
      'a\u0000',
      '\u0101\u0000',
      '\u0001\u0001',
      'a'.repeat(1000),
      `${'a'.repeat(999)}b`,
    ]
    for (const base of ['', 'x', 'xy', 'xyz'])
      keys.push(`${base}日本`, `${base}😀`, `${base}${'語'.repeat(200)}`, `${base}ab`)
    const gate = createGate({ limit: '100/day', clock: fakeClock() })
    for (const [i, key] of keys.entries()) gate.take(key, { cost: i + 1 })
    for (const [i, key] of keys.entries())
      expect(gate.peek(key).remaining, JSON.stringify(key.slice(0, 9))).toBe(99 - i)
  })

  test('refuses a bound too small to work with', () => {
    expect(() => memory({ maxBytes: 100 })).toThrow('HG_OPTION_INVALID')
    expect(() => memory({ maxBites: 100_000 } as never)).toThrow('did you mean "maxBytes"')
  })
})
