import { describe, expect, test } from 'vitest'
import { rig } from '../test/redis-store.ts'
import { createGate, type Gate, type Store } from './index.ts'
import { fakeClock } from './testing/index.ts'

const failed = ({ status }: { status: number }) => status === 401
const redis = rig()

describe.each([
  ['memory', async () => undefined],
  ['Redis', () => redis.store()],
])('countWhen on %s', (_name, store) => {
  async function gateOf(limit = '2/min', more = {}): Promise<Gate<string, never, Store>> {
    const made = await store()
    const options = {
      limit,
      clock: fakeClock(1_800_000_000_000),
      countWhen: failed,
      ...more,
      ...(made && { store: made }),
    }
    return createGate(options as never)
  }

  test('a take only looks, and a response that counts is charged', async () => {
    const gate = await gateOf()
    for (let i = 0; i < 5; i++) {
      const decision = await gate.take('a')
      expect(decision.ok).toBe(true)
      await decision.count({ status: 200 })
    }
    expect((await gate.peek('a')).remaining).toBe(2)
    await (await gate.take('a')).count({ status: 401 })
    expect((await gate.peek('a')).remaining).toBe(1)
  })

  test('what was let in together may go past the limit, and the wait counts that in', async () => {
    const gate = await gateOf()
    const all = await Promise.all(Array.from({ length: 5 }, () => gate.take('a')))
    expect(all.map(({ ok }) => ok)).toEqual([true, true, true, true, true])
    for (const decision of all) await decision.count({ status: 401 })
    const refused = await gate.take('a')
    expect(refused.ok).toBe(false)
    // Five of two a minute: four have to be worked off until one fits again.
    expect(refused.retryAfterMs).toBe(120_000)
  })

  test('a response counts once, and one that was refused not at all', async () => {
    const gate = await gateOf('1/min')
    const decision = await gate.take('a')
    await decision.count({ status: 401 })
    await decision.count({ status: 401 })
    const refused = await gate.take('a')
    expect(refused.retryAfterMs).toBe(60_000)
    await refused.count({ status: 401 })
    expect((await gate.take('a')).retryAfterMs).toBe(60_000)
  })

  test('limits without it are charged at once, in the same decision', async () => {
    const made = await store()
    const gate = createGate({
      clock: fakeClock(1_800_000_000_000),
      ...(made && { store: made }),
      limits: {
        failures: { limit: '2/min', by: (ip: string) => ip, countWhen: failed },
        all: { limit: '3/min', by: (ip: string) => ip },
        busy: { atOnce: 2, by: (ip: string) => ip },
      },
    } as never) as Gate<string, string, Store>
    const first = await gate.take('a')
    expect(first.limits.map(({ remaining }) => remaining)).toEqual([2, 2, 1])
    await first.count({ status: 401 })
    await first.release()
    expect((await gate.peek('a')).limits.map(({ remaining }) => remaining)).toEqual([1, 2, 2])
  })

  test('a call may bring it along, for limits that have none', async () => {
    const gate = await gateOf('1/min', { countWhen: undefined })
    const decision = await gate.take('a', { countWhen: failed })
    expect((await gate.peek('a')).remaining).toBe(1)
    await decision.count({ status: 401 })
    expect((await gate.peek('a')).remaining).toBe(0)
  })

  test('what is refunded or settled was not charged, so nothing comes back', async () => {
    const gate = await gateOf()
    const decision = await gate.take('a')
    await decision.refund()
    await decision.count({ status: 401 })
    expect((await gate.peek('a')).remaining).toBe(1)
  })

  test('a repeat of an id is not charged by other limits, and its response counts once', async () => {
    const made = await store()
    const by = (ip: string) => ip
    const limits = { failures: { limit: '5/min', by, countWhen: failed }, all: { limit: '9/min', by } }
    const clock = fakeClock(1_800_000_000_000)
    const gate = createGate({ clock, limits, ...(made && { store: made }) } as never) as Gate<string, string, Store>
    const left = async () => (await gate.peek('a')).limits.map(({ remaining }) => remaining)
    const [first, repeat] = [await gate.take('a', { id: 'x' }), await gate.take('a', { id: 'x' })]
    expect(repeat.limits).toEqual(first.limits)
    expect(await left()).toEqual([5, 8])
    await first.count({ status: 401 })
    await repeat.count({ status: 401 })
    await gate.resume(repeat.receipt())?.count({ status: 401 })
    expect(await left()).toEqual([4, 8])
    await repeat.refund()
    await first.refund()
    expect(await left()).toEqual([4, 9])
  })

  test('a call may bring it along with an id', async () => {
    const gate = await gateOf('5/min', { countWhen: undefined })
    await gate.take('a', { countWhen: failed, id: 'x' })
    const repeat = await gate.take('a', { countWhen: failed, id: 'x' })
    await repeat.count({ status: 401 })
    expect((await gate.peek('a')).remaining).toBe(4)
  })
})

test('slots in flight cannot be counted by how a request ended', () => {
  expect(() => createGate({ limits: { busy: { atOnce: 1, countWhen: failed } } })).toThrow('HG_OPTION_CONFLICT')
})

test('while the store is away, what is counted here is counted here by its response too', async () => {
  const broken: Store = { run: () => Promise.reject(new Error('no connection')) }
  const gate = createGate({ limit: '1/min', store: broken, countWhen: failed })
  const decision = await gate.take('a')
  expect(decision.degraded).toBe('local')
  await decision.count({ status: 401 })
  expect((await gate.take('a')).ok).toBe(false)
})
