import { describe, expect, test } from 'vitest'
import { rig } from '../test/redis-store.ts'
import { createGate, type Gate, memory, type Store } from './index.ts'
import { fakeClock } from './testing/index.ts'

const redis = rig()
const startMs = 1_800_000_000_000
const failed = ({ status }: { status: number }) => status === 401
const usual = {
  calls: { limit: '10/min', by: (who: string) => who, cost: () => 1 },
  tokens: { limit: '100/h', by: (who: string) => who },
}

describe.each([
  ['memory', false],
  ['Redis', true],
])('a receipt on %s', (_name, isRedis) => {
  /** Gates on one store, each as another process has it. */
  async function rigOf(): Promise<{
    clock: ReturnType<typeof fakeClock>
    gate: (limits?: object) => Promise<Gate<string, string, Store>>
  }> {
    const clock = fakeClock(startMs)
    const shared = isRedis ? undefined : memory({ clock })
    const gate = async (limits: object = usual) => {
      const store = shared ?? (await redis.store())
      return createGate({ store, clock, limits, timeoutMs: 5_000 } as never) as Gate<string, string, Store>
    }
    return { clock, gate }
  }
  const left = async (gate: Gate<string, string, Store>) => (await gate.peek('a')).limits.map((each) => each.remaining)

  test('settles a booking in another process, once, whoever does it', async () => {
    const { gate } = await rigOf()
    const [one, two] = [await gate(), await gate()]
    const receipt = (await one.take('a', { cost: 40 })).receipt()
    expect(await left(two)).toEqual([9, 60])
    const told = await Promise.all([two.resume(receipt)?.settle(25), one.resume(receipt)?.settle(25)])
    expect(told.sort()).toEqual([false, true])
    expect(await left(two)).toEqual([9, 75])
    expect([await one.resume(receipt)?.refund(), await two.resume(receipt)?.settle(0)]).toEqual([false, false])
    expect(await left(one)).toEqual([9, 75])
  })

  test('closes a booking also where nothing was to be corrected', async () => {
    const { gate } = await rigOf()
    const one = await gate()
    const receipt = (await one.take('a', { cost: 40 })).receipt()
    expect(await one.resume(receipt)?.settle(40)).toBe(true)
    expect(await one.resume(receipt)?.refund()).toBe(false)
    expect(await left(one)).toEqual([9, 60])
  })

  test('settles by name, refuses names that were not asked, and gives all back', async () => {
    const { gate } = await rigOf()
    const one = await gate()
    const booked = async () => one.resume((await one.take('a', { cost: 40 })).receipt())
    expect(await (await booked())?.settle({ tokens: 5, calls: 2 })).toBe(true)
    expect(await left(one)).toEqual([8, 95])
    const next = await booked()
    expect(() => next?.settle({ words: 1 })).toThrow('HG_LIMIT_UNKNOWN')
    expect(() => next?.settle(-1)).toThrow('HG_COST_INVALID')
    expect(await next?.refund()).toBe(true)
    expect(await left(one)).toEqual([8, 95])
  })

  test('outlives a change of the limits, and leaves alone what has gone', async () => {
    const { gate } = await rigOf()
    const one = await gate({ ...usual, gone: { limit: '5/min', by: (who: string) => who } })
    const receipt = (await one.take('a', { cost: 3 })).receipt()
    const changed = await gate({ tokens: { limit: '200/h', by: (who: string) => who }, calls: { atOnce: 5 } })
    expect(await changed.resume(receipt)?.settle({ gone: 1, tokens: 1, calls: 0 })).toBe(true)
    expect((await left(changed))[0]).toBe(199)
  })

  test('and its decision give back once between them, whoever is first, however many receipts are asked for', async () => {
    const { gate } = await rigOf()
    const one = await gate()
    await one.take('a', { cost: 30 })
    const booked = () => one.take('a', { cost: 40 })
    const first = await booked()
    expect(first.receipt()).toBe(first.receipt())
    const booking = one.resume(first.receipt())
    await first.refund()
    expect([await booking?.refund(), await booking?.settle(1)]).toEqual([false, false])
    expect(await left(one)).toEqual([9, 70])
    const second = await booked()
    expect(await one.resume(second.receipt())?.refund()).toBe(true)
    await second.refund()
    expect(await left(one)).toEqual([9, 70])
    const third = await booked()
    const exact = one.resume(third.receipt())
    await third.settle(40)
    expect(await exact?.refund()).toBe(false)
    expect(await left(one)).toEqual([8, 30])
  })

  test('has nothing left of what was done before it was asked for', async () => {
    const { gate } = await rigOf()
    const one = await gate({
      ...usual,
      busy: { atOnce: 2, cost: () => 1 },
      logins: { limit: '5/min', by: (who: string) => who, countWhen: failed, cost: () => 1 },
    })
    const decision = await one.take('a', { cost: 40 })
    await decision.settle({ tokens: 10 })
    await decision.release()
    await decision.count({ status: 401 })
    const booking = one.resume(decision.receipt())
    const all = [
      await booking?.settle({ tokens: 0 }),
      await booking?.refund(),
      await booking?.release(),
      await booking?.count({ status: 401 }),
    ]
    expect(all).toEqual([false, false, false, false])
    expect(await left(one)).toEqual([9, 90, 2, 4])
    const next = await one.take('a', { cost: 40 })
    const other = one.resume(next.receipt())
    await next.release()
    await next.count({ status: 200 })
    expect([await other?.release(), await other?.count({ status: 401 })]).toEqual([false, false])
    expect(await left(one)).toEqual([8, 50, 2, 4])
  })

  test('of a take with an id closes the booking for every repeat', async () => {
    const { gate } = await rigOf()
    const [one, two] = [await gate(), await gate()]
    const first = (await one.take('a', { cost: 40, id: 'x' })).receipt()
    const repeat = (await two.take('a', { cost: 40, id: 'x' })).receipt()
    expect(await left(one)).toEqual([9, 60])
    expect([await two.resume(repeat)?.refund(), await one.resume(first)?.refund()]).toEqual([true, false])
    expect(await left(one)).toEqual([10, 100])
    // Taken back altogether, so the id is as good as new.
    await one.take('a', { cost: 7, id: 'x' })
    expect(await left(one)).toEqual([9, 93])
  })

  test('frees slots once, and a slot whose receipt was lost comes back after the hold time', async () => {
    const { gate, clock } = await rigOf()
    const one = await gate({ busy: { atOnce: 2, holdMs: 30_000 } })
    const [receipt] = [(await one.take('a')).receipt(), (await one.take('a')).receipt()]
    expect((await one.take('a')).ok).toBe(false)
    const two = await gate({ busy: { atOnce: 2, holdMs: 30_000 } })
    expect([await two.resume(receipt)?.release(), await one.resume(receipt)?.release()]).toEqual([true, false])
    expect(await left(one)).toEqual([1])
    expect(await two.resume(receipt)?.settle(0)).toBe(false)
    clock.advance(30_000)
    expect(await left(one)).toEqual([2])
  })

  test('counts a response elsewhere, once', async () => {
    const { gate } = await rigOf()
    const limits = { login: { limit: '5/min', by: (who: string) => who, countWhen: failed } }
    const [one, two] = [await gate(limits), await gate(limits)]
    const receipt = (await one.take('a')).receipt()
    expect(await left(one)).toEqual([5])
    expect([
      await two.resume(receipt)?.count({ status: 401 }),
      await one.resume(receipt)?.count({ status: 401 }),
    ]).toEqual([true, false])
    expect(await left(one)).toEqual([4])
    expect(await two.resume((await one.take('a')).receipt())?.count({ status: 200 })).toBe(true)
    expect(await left(one)).toEqual([4])
  })

  test('holds for the longest window, and a day at most', async () => {
    const { gate, clock } = await rigOf()
    const one = await gate()
    const receipt = (await one.take('a')).receipt()
    clock.advance(3_599_999)
    expect(one.resume(receipt)).toBeDefined()
    clock.advance(1)
    expect(one.resume(receipt)).toBeUndefined()
    const long = await gate({ month: { limit: '10/month', by: (who: string) => who } })
    const last = (await long.take('a')).receipt()
    clock.advance(86_400_000)
    expect(long.resume(last)).toBeUndefined()
  })

  test('of a refusal, or of a request that no limit concerned, has nothing to do', async () => {
    const { gate } = await rigOf()
    const one = await gate({
      some: { limit: '1/min', by: (who: string) => who, when: (who: string) => who !== 'free' },
    })
    await one.take('a')
    for (const decision of [await one.take('a'), await one.take('free')]) {
      const booking = one.resume(decision.receipt())
      expect([await booking?.settle(0), await booking?.refund(), await booking?.release()]).toEqual([
        false,
        false,
        false,
      ])
    }
  })
})

test('what is no receipt is refused', () => {
  const gate = createGate({ limit: '10/min' })
  for (const text of ['', 'x', '{}', '[]', 'null', '{"id":1,"lines":[]}'])
    expect(() => gate.resume(text), text).toThrow('HG_OPTION_INVALID')
})

test('a store that fails is told, and what was counted here meanwhile is corrected here', async () => {
  let isDown = false
  const inner = memory()
  const store: Store = {
    run: async (groups) => {
      if (isDown) throw new Error('gone')
      return inner.run(groups)
    },
  }
  const gate = createGate({ store, limits: { a: { limit: '10/min' }, busy: { atOnce: 1 } } })
  const receipt = (await gate.take({}, { cost: 1 })).receipt()
  await gate.resume(receipt)?.release()
  isDown = true
  await expect(gate.resume(receipt)?.settle(2)).rejects.toThrow('HG_STORE_FAILED')
  const local = await gate.take({})
  expect(local.degraded).toBe('local')
  expect((await gate.take({})).ok).toBe(false)
  const booking = gate.resume(local.receipt())
  expect([await booking?.release(), await booking?.release(), await booking?.refund()]).toEqual([true, false, true])
  expect((await gate.take({})).ok).toBe(true)
  const elsewhere = local.receipt().replace(/"here":"\w+"/, '"here":"another"')
  expect(await gate.resume(elsewhere)?.refund()).toBe(false)
  isDown = false
})
