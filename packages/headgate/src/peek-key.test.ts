import { describe, expect, test } from 'vitest'
import { canStartRedis } from '../test/redis-server.ts'
import { patient, rig } from '../test/redis-store.ts'
import { visitLimits } from './decision.ts'
import { createGate, type Gate, memory, type Store } from './index.ts'
import { encodeKey, keyParts } from './key.ts'
import { fakeClock } from './testing/index.ts'

interface Req {
  readonly user: string
  readonly plan?: string
}

/** The same limits on any store. */
function gateOn(store: Store) {
  const clock = fakeClock(Date.UTC(2026, 0, 1))
  const limits = {
    user: { limit: '10/min', by: (r: Req) => r.user },
    pair: { limit: '4/min', by: (r: Req) => [r.user, 'x'], when: () => false },
    quiet: { limit: '2/min', by: (r: Req) => r.user, mode: 'off' },
    all: { limit: '100/min' },
    plan: { limit: { free: '5/min', pro: '50/min' }, tier: (r: Req) => r.plan ?? 'free', by: (r: Req) => r.user },
  } as const
  const gate = createGate<Req, typeof limits, Store>({ store, clock, limits, ...patient })
  return { clock, gate: gate as Gate<Req, keyof typeof limits, Store> }
}

function promises(make: () => Promise<Store> | Store) {
  test('tells what is left of a key by its name, and spends nothing', async () => {
    const { gate } = gateOn(await make())
    await gate.take({ user: 'a' }, { cost: 3 })
    for (const _ of [1, 2]) expect(await gate.peekKey('user', 'a')).toMatchObject({ ok: true, remaining: 7 })
    expect(await gate.peekKey('user', 'a', { cost: 8 })).toMatchObject({ ok: false, retryAfterMs: 6_000 })
    expect(await gate.peekKey('all')).toMatchObject({ remaining: 97 })
    expect((await gate.peekKey('user', 'b')).limits).toMatchObject([{ name: 'user', key: 'b', remaining: 10 }])
  })

  test('looks at limits that are off or concern no request', async () => {
    const { gate } = gateOn(await make())
    expect(await gate.peekKey('pair', ['a', 'x'])).toMatchObject({ ok: true, limit: 'pair', remaining: 4 })
    expect(await gate.peekKey('quiet', 'a')).toMatchObject({ remaining: 2 })
  })

  test('looks by the tier it is told, or by the override of the key', async () => {
    const { gate } = gateOn(await make())
    await gate.take({ user: 'a' }, { cost: 2 })
    expect(await gate.peekKey('plan', 'a', { tier: 'free' })).toMatchObject({ remaining: 3 })
    expect(await gate.peekKey('plan', 'a', { tier: 'pro' })).toMatchObject({ remaining: 48 })
    gate.override('plan', 'a', '20/min', 60_000)
    expect(await gate.peekKey('plan', 'a')).toMatchObject({ remaining: 18 })
    expect(() => gate.peekKey('plan', 'b')).toThrow('HG_TIER_UNKNOWN')
    expect(() => gate.peekKey('user', '')).toThrow('HG_KEY_MISSING')
    expect(() => gate.peekKey('nobody' as 'user', 'a')).toThrow('HG_LIMIT_UNKNOWN')
  })

  test('sees blocks', async () => {
    const { gate, clock } = gateOn(await make())
    await gate.block('user', 'a', 5_000)
    expect(await gate.peekKey('user', 'a')).toMatchObject({ ok: false, retryAfterMs: 5_000 })
    clock.advance(5_000)
    expect(await gate.peekKey('user', 'a')).toMatchObject({ ok: true })
  })

  test('limits are visited as decisions tell them', async () => {
    const { gate } = gateOn(await make())
    const seen: unknown[] = []
    visitLimits(await gate.take({ user: 'a' }), { onLimit: (...each) => seen.push(each) })
    expect(seen).toEqual([
      ['user', 'a', true, false],
      ['all', undefined, true, false],
      ['plan', 'a', true, false],
    ])
  })
}

describe('a key looked at in memory', () => promises(() => memory()))

describe.skipIf(!canStartRedis)('a key looked at in Redis', () => {
  const own = rig()
  promises(() => own.store())
})

test('a gate with one limit leaves the name out', () => {
  const gate = createGate({ limit: '3/min', clock: fakeClock() })
  const seen: unknown[] = []
  const decision = gate.take('a')
  visitLimits(decision, { onLimit: (...each) => seen.push(each) })
  expect(seen).toEqual([['default', 'a', true, false]])
  expect(gate.peekKey('a')).toMatchObject({ remaining: 2, limit: 'default' })
})

test.each([[['a']], [['a', 'b']], [['3:x', '\u0000', '12']], [['\u0000']]])(
  'an encoded key has its parts: %j',
  (parts) => {
    expect(keyParts(encodeKey(parts, 'limit'))).toEqual(parts)
  },
)
