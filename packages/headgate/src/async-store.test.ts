import { describe, expect, test } from 'vitest'
import { createGate, memory, type Store } from './index.ts'
import { fakeClock } from './testing/index.ts'

/** A store that takes its time: the memory store behind a promise. */
function slow(inner = memory({ clock: fakeClock() })): Store {
  return { run: async (groups, nowUs) => inner.run(groups, nowUs) }
}

describe('a store that answers later', () => {
  test('gets the same decisions as promises, and so are settle, refund, block and reset', async () => {
    const gate = createGate({ limit: '3/min', store: slow() })
    const first = await gate.take('a', { cost: 2 })
    expect(first).toMatchObject({ ok: true, remaining: 1, cost: 2 })
    await first.settle(1)
    expect((await gate.peek('a')).remaining).toBe(2)
    const second = await gate.take('a', { upTo: 9 })
    expect(second.cost).toBe(2)
    await second.refund()
    await gate.block('a', 5000)
    expect(await gate.take('a')).toMatchObject({ ok: false, retryAfterMs: 5000 })
    await gate.reset('a')
    expect((await gate.take('a')).remaining).toBe(2)
  })

  test('waits in order of arrival', async () => {
    const clock = fakeClock()
    const gate = createGate({ limit: '1/s', store: slow(memory({ clock })), clock })
    await gate.take('k')
    const order: number[] = []
    const waiting = [1, 2, 3].map((n) => gate.wait('k').then(() => order.push(n)))
    for (let i = 0; i < 40; i++) {
      clock.advance(100)
      for (let turn = 0; turn < 20; turn++) await Promise.resolve()
    }
    await Promise.all(waiting)
    expect(order).toEqual([1, 2, 3])
  })

  test('an abort while the store is asked gives back what it got', async () => {
    const gate = createGate({ limit: '5/min', store: slow() })
    const controller = new AbortController()
    const waiting = gate.wait('k', { signal: controller.signal })
    controller.abort('gone')
    await expect(waiting).rejects.toBe('gone')
    for (let turn = 0; turn < 20; turn++) await Promise.resolve()
    expect((await gate.peek('k')).remaining).toBe(5)
  })

  test('that fails is HG_STORE_FAILED with the cause, whether it rejects or throws', async () => {
    const cause = new Error('connection lost')
    const rejecting: Store = { run: () => Promise.reject(cause) }
    const throwing: Store = {
      run: () => {
        throw cause
      },
    }
    for (const store of [rejecting, throwing]) {
      const gate = createGate({ limit: '1/s', store })
      await expect(gate.take('a')).rejects.toMatchObject({ code: 'HG_STORE_FAILED', cause })
      await expect(gate.wait('a')).rejects.toMatchObject({ code: 'HG_STORE_FAILED' })
      await expect(gate.reset('a')).rejects.toMatchObject({ code: 'HG_STORE_FAILED' })
    }
  })
})
