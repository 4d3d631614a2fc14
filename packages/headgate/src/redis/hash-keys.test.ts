import { describe, expect, test } from 'vitest'
import { canStartRedis } from '../../test/redis-server.ts'
import { patient, rig } from '../../test/redis-store.ts'
import { ifStalled } from '../../test/stalls.ts'
import { createGate } from '../index.ts'
import type { RedisStore } from './index.ts'
import { KeyHash } from './key-hash.ts'
import { slotOf } from './slots.ts'

const SECRET = 'sk_live_51H8xQ2eZvKYlo2C'

describe.skipIf(!canStartRedis)('keys that are hashed', { retry: ifStalled }, () => {
  const own = rig()
  const gateOn = (store: RedisStore) =>
    createGate({
      limits: {
        key: { limit: '10/day', by: (key: string) => key },
        log: { limit: '10/day', algorithm: 'sliding-log', by: (key: string) => ['v1', key] },
        busy: { atOnce: 5, by: (key: string) => key },
        staggered: { limit: '10/day', algorithm: 'fixed-window', align: 'staggered', by: (key: string) => key },
      },
      store,
      ...patient,
    })
  const left = async (gate: ReturnType<typeof gateOn>, key = SECRET) =>
    (await gate.peek(key)).limits.map(({ remaining }) => remaining)

  /** All that Redis has: names and what is in them. */
  async function everything(): Promise<string> {
    const names = (await own.server.call('KEYS', '*')) as string[]
    const types = await Promise.all(names.map((name) => own.server.call('TYPE', name)))
    const contents = await Promise.all(
      names.map((name, i) =>
        types[i] === 'zset' ? own.server.call('ZRANGE', name, '0', '-1') : own.server.call('GET', name),
      ),
    )
    expect(names.length).toBeGreaterThan(0)
    return JSON.stringify([names, contents])
  }

  test('never reach Redis, whatever is done with them', async () => {
    const gate = gateOn(await own.store({ hashKeys: 'pepper' }))
    const decision = await gate.take(SECRET, { cost: 2 })
    await gate.take(SECRET, { upTo: 2 })
    await gate.block('key', SECRET, 1000)
    await gate.block('key', SECRET, 0)
    await decision.settle(1)
    const found = await everything()
    expect(found).not.toContain(SECRET)
    expect(found).not.toContain('51H8xQ2eZ')
    expect(await left(gate)).toEqual([7, 7, 1, 7])
    await gate.reset('key', SECRET)
    expect(await left(gate)).toEqual([10, 7, 1, 7])
  })

  test('are told apart whatever their characters, as they are in memory', async () => {
    const gate = gateOn(await own.store({ hashKeys: 'pepper' }))
    await gate.take('\ud800', { cost: 4 })
    await gate.take('{\ud800}', { cost: 3 })
    expect([(await left(gate, '\ud801'))[0], (await left(gate, '\ud800'))[0]]).toEqual([10, 6])
    expect([(await left(gate, '{\ud801}'))[0], (await left(gate, '{\ud800}'))[0]]).toEqual([10, 7])
  })

  test('never reach Redis with the memory of an id either', async () => {
    const [gate, other] = [
      gateOn(await own.store({ hashKeys: 'pepper' })),
      gateOn(await own.store({ hashKeys: 'pepper' })),
    ]
    const first = await gate.take(SECRET, { id: 'x' })
    expect(await everything()).not.toContain(SECRET)
    const repeat = await other.take(SECRET, { id: 'x' })
    expect(repeat.limits).toEqual(first.limits)
    await repeat.release()
    await repeat.refund()
    expect(await left(gate)).toEqual([10, 10, 5, 10])
  })

  test('leave an id that was used before the secret changed uncharged', async () => {
    const [gate, other] = [
      gateOn(await own.store({ hashKeys: 'pepper' })),
      gateOn(await own.store({ hashKeys: 'salt' })),
    ]
    await gate.take(SECRET, { id: 'x' })
    const { ok, degraded } = await other.take(SECRET, { id: 'x' })
    expect([ok, degraded]).toEqual([true, false])
    expect(await left(other)).toEqual([10, 10, 5, 10])
  })

  test('count the same in all processes that know the secret, and apart from others', async () => {
    const secrets = ['pepper', 'pepper', 'salt', undefined]
    const gates = await Promise.all(
      secrets.map(async (hashKeys) => gateOn(await own.store(hashKeys === undefined ? {} : { hashKeys }))),
    )
    for (const gate of gates) await gate.take(SECRET)
    const counts = await Promise.all(gates.map(async (gate) => (await left(gate))[0]))
    expect(counts).toEqual([8, 8, 9, 9])
  })

  test('are told apart, also if ever so many are asked for at once', async () => {
    const gate = createGate({ limit: '2/day', store: await own.store({ hashKeys: 'pepper' }), ...patient })
    const keys = Array.from({ length: 12_000 }, (_, i) => `key-${i}`)
    const decisions = await Promise.all(keys.map((key) => gate.take(key)))
    expect(decisions.filter(({ remaining }) => remaining !== 1)).toEqual([])
    expect(await own.server.call('DBSIZE')).toBe(12_000)
  }, 60_000)

  test('are remembered when denied, and asked for no more', async () => {
    const gate = createGate({ limit: '1/day', store: await own.store({ hashKeys: 'pepper' }), ...patient })
    await gate.take(SECRET)
    for (let i = 0; i < 2; i++) expect((await gate.take(SECRET)).ok).toBe(false)
    expect(await own.calls(() => gate.take(SECRET))).toEqual({})
    await gate.reset(SECRET)
    expect((await gate.take(SECRET)).ok).toBe(true)
  })
})

describe('hashes of keys', () => {
  const hashOf = async (key: string, secret = 'pepper') => {
    const hash = new KeyHash(secret)
    await hash.hold(key)
    return hash.of(key)
  }

  test('keep together in a cluster what a tag in braces keeps together', async () => {
    const [alice, bob, other] = await Promise.all(
      ['{acme}:alice', '{acme}:bob', '{umbrella}:bob'].map((key) => hashOf(key)),
    )
    expect(slotOf(`hg:a:${alice}`)).toBe(slotOf(`hg:b:${bob}`))
    expect(slotOf(`hg:a:${alice}`)).not.toBe(slotOf(`hg:a:${other}`))
    expect(new Set([alice, bob, other]).size).toBe(3)
    expect(`${alice}${bob}`).not.toMatch(/acme|alice|bob/)
  })

  test('differ by key and by secret, wherever braces stand', async () => {
    const keys = [
      'a',
      'b',
      '{a}',
      '{a}b',
      'b{a}',
      '{b}a',
      '{}',
      '{',
      '}',
      '{a',
      'a}',
      '{a}{b}',
      '{a b}',
      '{a} b',
      '{{a}}',
      'x {a}y',
      'x{a} y',
    ]
    const hashes = await Promise.all([...keys.map((key) => hashOf(key)), ...keys.map((key) => hashOf(key, 'salt'))])
    expect(new Set(hashes).size).toBe(2 * keys.length)
  })
})
