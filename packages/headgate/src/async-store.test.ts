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

  test('lets at most ten thousand stand in line, also when all come at once', async () => {
    const clock = fakeClock()
    const gate = createGate({ limit: '1/s', store: slow(memory({ clock })), clock })
    await gate.take('k')
    let refused = 0
    for (let i = 0; i < 10_003; i++) void gate.wait('k', { maxMs: 1e9 }).then(({ ok }) => (refused += ok ? 0 : 1))
    for (let turn = 0; turn < 20; turn++) await Promise.resolve()
    expect(refused).toBe(3)
    expect(await gate.wait('k', { maxMs: 1e9 })).toMatchObject({ ok: false, retryAfterMs: 1000 })
  })

  test('that fails somebody who gave up costs nobody else the place in line', async () => {
    const clock = fakeClock()
    const inner = memory({ clock })
    let failing = false
    const run: Store['run'] = async (groups, nowUs) => {
      if (failing) throw new Error('connection lost')
      return inner.run(groups, nowUs)
    }
    const gate = createGate({ limit: '1/s', store: { run }, clock })
    const turns = async () => {
      for (let turn = 0; turn < 20; turn++) await Promise.resolve()
    }
    await gate.take('k')
    const order: string[] = []
    const controller = new AbortController()
    const wait = (name: string, options = {}) =>
      gate.wait('k', options).then(
        ({ ok }) => order.push(`${name} ${ok}`),
        (reason) => order.push(`${name} ${reason}`),
      )
    wait('a', { signal: controller.signal })
    wait('b')
    wait('c')
    await turns()
    failing = true
    clock.advance(1000)
    controller.abort('gone')
    failing = false
    await turns()
    clock.advance(1000)
    await turns()
    expect(order).toEqual(['a gone', 'b true', 'c true'])
  })

  test('that fails decides here, and tells who changes it by name, whether it rejects or throws', async () => {
    const cause = new Error('connection lost')
    const rejecting: Store = { run: () => Promise.reject(cause) }
    const throwing: Store = {
      run: () => {
        throw cause
      },
    }
    for (const store of [rejecting, throwing]) {
      const gate = createGate({ limit: '2/s', store, clock: fakeClock() })
      expect(await gate.take('a')).toMatchObject({ ok: true, remaining: 1, degraded: 'local' })
      expect(await gate.wait('a')).toMatchObject({ ok: true, remaining: 0, degraded: 'local' })
      expect(await gate.peek('a')).toMatchObject({ ok: false, retryAfterMs: 500, degraded: 'local' })
      await expect(gate.reset('a')).rejects.toMatchObject({ code: 'HG_STORE_FAILED', cause })
    }
  })
})
