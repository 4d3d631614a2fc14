import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { beforeEach, describe, expect, test } from 'vitest'
import { canStartRedis } from '../../test/redis-server.ts'
import { type Calls, patient, rig } from '../../test/redis-store.ts'
import { ifStalled } from '../../test/stalls.ts'
import type { KeyPart } from '../gate-types.ts'
import { createGate, type LimitObject } from '../index.ts'
import { compileLimit } from '../limit.ts'
import { limitOf, runs } from '../properties/support.ts'
import { kinds, smallRules, traces } from '../properties/traces.ts'
import { blankOutcome, type Store } from '../stores/store.ts'
import { type FakeClock, fakeClock } from '../testing/index.ts'
import { Denials } from './denials.ts'
import { type RedisStore, redis } from './index.ts'

const scripts = ({ evalsha = 0, eval: evaluated = 0 }: Calls) => evalsha + evaluated

describe.skipIf(!canStartRedis)('a denial that is remembered', { retry: ifStalled }, () => {
  const { store, calls, client } = rig()
  let clock: FakeClock
  let own: RedisStore
  let others: RedisStore
  beforeEach(async () => {
    clock = fakeClock(Date.UTC(2026, 0, 1))
    own = await store()
    others = await store()
  })
  const gateOn = (store: RedisStore, limit: LimitObject = { limit: 6, per: '1min', burst: 2 }) =>
    createGate({ limit, store, clock, ...patient })
  /** A gate whose process knows that the key is denied for ten seconds. */
  async function denied(key = 'a') {
    const gate = gateOn(own)
    await gate.take(key, { cost: 2 })
    for (let i = 0; i < 2; i++) expect((await gate.take(key)).ok).toBe(false)
    expect(await calls(() => gate.take(key))).toEqual({})
    return gate
  }

  test('costs at most two calls in each wait, however often an abuser asks', async () => {
    const gate = gateOn(own)
    await gate.take('a', { cost: 2 })
    for (let period = 0; period < 3; period++) {
      let admitted = 0
      const made = await calls(async () => {
        for (let i = 0; i < 1000; i++) {
          const { ok, retryAfterMs } = await gate.take('a')
          if (ok) admitted++
          else expect(retryAfterMs).toBe(10_000 - 10 * i)
          clock.advance(10)
        }
      })
      expect(admitted).toBe(0)
      expect(scripts(made)).toBeLessThanOrEqual(2)
      // The wait is over: one is let through, and the next wait begins.
      expect((await gate.take('a')).ok).toBe(true)
    }
  })

  test('ends with its wait to the microsecond: who may come is let through', async () => {
    const gate = await denied()
    clock.advance(9_999.999)
    expect((await gate.take('a')).ok).toBe(false)
    clock.advance(0.001)
    expect((await gate.take('a')).ok).toBe(true)
  })

  test('says nothing about who asks for less, or for more and so has to wait longer', async () => {
    const gate = gateOn(own)
    await gate.take('a')
    for (let i = 0; i < 3; i++) expect((await gate.take('a', { cost: 2 })).ok).toBe(false)
    expect((await gate.take('a')).ok).toBe(true)
    for (let i = 0; i < 3; i++) expect((await gate.take('a')).retryAfterMs).toBe(10_000)
    const waits = async () => [
      (await gate.take('a', { cost: 2 })).retryAfterMs,
      (await gate.take('a', { cost: 3 })).retryAfterMs,
      (await gate.take('a')).retryAfterMs,
    ]
    for (let i = 0; i < 2; i++) expect(await waits()).toEqual([20_000, Infinity, 10_000])
    expect(await calls(async () => expect(await waits()).toEqual([20_000, Infinity, 10_000]))).toEqual({})
  })

  test('says nothing where its limit only watches', async () => {
    const gate = gateOn(own) as unknown as { takeKeys(parts: readonly KeyPart[]): Promise<{ readonly ok: boolean }> }
    const part = { limit: 'default', key: 'a', cost: 2 }
    for (let i = 0; i < 4; i++) expect((await gate.takeKeys([part])).ok).toBe(i === 0)
    const watched = async () => expect((await gate.takeKeys([{ ...part, observe: true }])).ok).toBe(true)
    expect(scripts(await calls(watched))).toBe(1)
  })

  test('says nothing about other keys, other limits, or takes of as many as fit', async () => {
    const gate = await denied()
    expect((await gate.take('b')).ok).toBe(true)
    expect(scripts(await calls(() => gate.take('a', { upTo: 2 })))).toBe(1)
    expect(scripts(await calls(() => gate.take('a', { id: 'x' })))).toBe(1)
  })

  test('is forgotten when this process resets the key, or gives it back', async () => {
    const gate = gateOn(own)
    const first = await gate.take('a', { cost: 2 })
    for (let i = 0; i < 3; i++) expect((await gate.take('a')).ok).toBe(false)
    await first.refund()
    expect((await gate.take('a', { cost: 2 })).ok).toBe(true)
    for (let i = 0; i < 3; i++) expect((await gate.take('a')).ok).toBe(false)
    await gate.reset('a')
    const again = await gate.take('a', { cost: 2 })
    expect(again.ok).toBe(true)
    for (let i = 0; i < 3; i++) expect((await gate.take('a')).ok).toBe(false)
    await again.settle(1)
    expect((await gate.take('a')).ok).toBe(true)
  })

  test('is forgotten when this process lifts a block', async () => {
    const gate = gateOn(own)
    await gate.block('a', 30_000)
    for (let i = 0; i < 3; i++) expect((await gate.take('a')).retryAfterMs).toBe(30_000)
    await gate.block('a', 0)
    expect((await gate.take('a')).ok).toBe(true)
  })

  test('is not kept when it was on its way while this process reset the key', async () => {
    const gate = gateOn(own)
    await gate.take('a', { cost: 2 })
    await gate.take('a')
    const [late] = await Promise.all([gate.take('a'), gate.reset('a')])
    expect(late.ok).toBe(false)
    expect((await gate.take('a')).ok).toBe(true)
  })

  test('is forgotten when this process is told that others gave something back', async () => {
    const gate = createGate({ limit: '1/h', store: own, ...patient })
    for (let i = 0; i < 4; i++) await gate.take('a')
    await createGate({ limit: '1/h', store: others, ...patient }).reset('a')
    expect((await gate.take('a')).ok).toBe(false)
    own.forgetDenials()
    expect((await gate.take('a')).ok).toBe(true)
  })

  test.each([{ shards: 2 }, { regions: { here: 'eu', others: {} } }, { share: true, shards: 2 }, { lease: true }])(
    'is forgotten so with %o as well',
    async (modes) => {
      const store = redis(await client('ioredis'), modes) as Store
      const limits = { a: { limit: '1/h', hold: 'central' } } as const
      const gate = createGate({ limits, store, ...patient })
      for (let i = 0; i < 4; i++) await gate.take(undefined)
      await createGate({ limits, store: others, ...patient }).reset('a')
      store.forgetDenials?.()
      expect((await gate.take(undefined)).ok).toBe(true)
      await store.close?.()
    },
  )

  test('is not kept when it was on its way while this process was told so', async () => {
    const gate = createGate({ limit: '1/h', store: own, ...patient })
    for (let i = 0; i < 2; i++) await gate.take('a')
    const late = gate.take('a')
    own.forgetDenials()
    expect((await late).ok).toBe(false)
    await createGate({ limit: '1/h', store: others, ...patient }).reset('a')
    expect((await gate.take('a')).ok).toBe(true)
  })

  test('does not hold against a limit that was raised', async () => {
    const gate = await denied()
    gate.override('a', '60/min', 60_000)
    expect((await gate.take('a')).ok).toBe(true)
  })

  test('is asked for again after a second where units come back, also if another process gives them back', async () => {
    const [gate, other] = [gateOn(own), gateOn(others)]
    // This process has seen that here units come back.
    await (await gate.take('somebody')).refund()
    const first = await other.take('a', { cost: 2 })
    for (let i = 0; i < 3; i++) expect((await gate.take('a')).ok).toBe(false)
    await first.refund()
    clock.advance(1000)
    expect((await gate.take('a')).ok).toBe(true)
  })

  test('is asked for again after a second also if units came back only after it was made', async () => {
    const [gate, other] = [gateOn(own), gateOn(others)]
    const first = await other.take('a', { cost: 2 })
    for (let i = 0; i < 3; i++) expect((await gate.take('a')).ok).toBe(false)
    await (await gate.take('somebody')).refund()
    await first.refund()
    clock.advance(1000)
    expect((await gate.take('a')).ok).toBe(true)
  })

  test('is asked for again after a minute where only other processes give units back', async () => {
    const [gate, other] = [gateOn(own, { limit: 1, per: '1day' }), gateOn(others, { limit: 1, per: '1day' })]
    const booked = await other.take('a')
    for (let i = 0; i < 3; i++) expect((await gate.take('a')).ok).toBe(false)
    await booked.refund()
    clock.advance(60_000)
    expect((await gate.take('a')).ok).toBe(true)
  })

  test('is asked for again after a minute in any case: another process may have reset the key', async () => {
    const [gate, other] = [gateOn(own, { limit: 1, per: '1day' }), gateOn(others, { limit: 1, per: '1day' })]
    await gate.take('a')
    for (let i = 0; i < 3; i++) expect((await gate.take('a')).ok).toBe(false)
    await other.reset('a')
    clock.advance(60_000)
    expect((await gate.take('a')).ok).toBe(true)
  })

  test('is never one of slots in flight: they come back at any time', async () => {
    const [gate, other] = [own, others].map((store) => createGate({ atOnce: 1, store, clock, ...patient }))
    const holder = await other?.take('a')
    for (let i = 0; i < 5; i++) expect((await gate?.take('a'))?.ok).toBe(false)
    await holder?.release()
    expect((await gate?.take('a'))?.ok).toBe(true)
  })

  test('tells a limit that only watches as it is by now', async () => {
    const gate = createGate({
      limits: { day: { limit: '1/day' }, watched: { limit: '1/s', mode: 'observe' } },
      store: own,
      clock,
      ...patient,
    })
    await gate.take('a')
    for (let i = 0; i < 2; i++) expect((await gate.take('a')).limits[1]?.ok).toBe(false)
    clock.advance(2000)
    const { ok, limits } = await gate.take('a')
    expect(ok).toBe(false)
    expect([limits[1]?.ok, limits[1]?.retryAfterMs]).toEqual([true, 0])
  })

  test('stays when a flood of keys is denied that never come again', async () => {
    const gate = await denied('real')
    const flood = async (from: number, to: number) => {
      for (let i = from; i < to; i += 500)
        await Promise.all(Array.from({ length: 500 }, (_, n) => gate.take(`random-${i + n}`, { cost: 3 })))
    }
    await flood(0, 50_000)
    expect(await calls(() => gate.take('real'))).toEqual({})
  }, 60_000)

  test.each(kinds)('says what Redis would say, of %s', async (kind) => {
    let gates = 0
    const asking = await store({ quickDeny: false })
    await fc.assert(
      fc.asyncProperty(traces(smallRules(kind), { dense: true, maxLength: 60 }), async ({ rule, steps }) => {
        const prefix = `says-${kind}-${++gates}`
        const told = fakeClock()
        const [one, other] = [own, asking].map((store, i) =>
          createGate({ limit: limitOf(rule), store, clock: told, prefix: `${prefix}-${i}`, ...patient }),
        )
        for (const { at, pick } of steps) {
          told.set(Number(at) / 1000)
          const cost = 1 + (pick % 2)
          const answers = await Promise.all([one?.take('key', { cost }), other?.take('key', { cost })])
          const [remembered, asked] = answers.map((decision) => [decision?.ok, decision?.limit])
          expect(remembered).toEqual(asked)
          const [wait = 0, wanted = 0] = answers.map((decision) => decision?.retryAfterMs)
          expect(wait).toBe(wanted)
        }
      }),
      runs(8),
    )
  })
})

describe('denials', () => {
  test('take a bounded part of memory, whoever is denied how often', () => {
    const policy = compileLimit('0/day')
    const counters = ['user', 'ip'].map((space) => ({ space, policy }))
    const outcomes = counters.map(() => ({ ...blankOutcome(), ok: false, waitUs: Infinity }))
    const denials = new Denials()
    const deny = (from: number, to: number) => {
      for (let i = from; i < to; i++) {
        // Few keys, but ever new pairs of them.
        const keys = [`user-${i % 499}`, `ip-${(i * 7) % 503}-${'x'.repeat(100)}`]
        const ops = counters.map((counter, n) => ({ verb: 'take' as const, counter, key: keys[n] as string, cost: 1 }))
        for (const _ of ['first', 'second']) denials.note({ ops }, { ok: false, cost: 0, outcomes }, i)
        if (denials.find({ ops }, i)?.ok !== false) throw new Error('not denied')
      }
    }
    deny(0, 30_000)
    const before = heap()
    deny(30_000, 70_000)
    expect(heap() - before).toBeLessThan(1_000_000)
  })
})

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

function heap(): number {
  collect()
  return process.memoryUsage().heapUsed
}
