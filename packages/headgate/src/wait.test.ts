import { describe, expect, test, vi } from 'vitest'
import { createGate, memory, type SyncStore } from './index.ts'
import { fakeClock } from './testing/index.ts'

/** Lets promise callbacks run; no time passes. */
async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve()
}

function setUp(limit: '1/s' | '10/s' | '4/s burst 4' = '1/s') {
  const clock = fakeClock()
  const gate = createGate({ limit, clock })
  const order: string[] = []
  const wait = (name: string, options = {}) =>
    gate.wait('k', options).then(
      (decision) => order.push(decision.ok ? name : `no ${name}`),
      (reason) => order.push(`${name} ${reason}`),
    )
  return { clock, gate, order, wait }
}

/** One call in 20 s by each user, and one a second by all together, which is where the cost of a call counts. */
function twoLimits() {
  const clock = fakeClock()
  const limits = {
    user: { limit: '1/20s', by: (user: string) => user, cost: () => 1 },
    all: { limit: '10/10s' },
  } as const
  return { clock, gate: createGate({ clock, limits }) }
}

describe('wait', () => {
  test('spends at once what fits', async () => {
    const { gate } = setUp()
    expect(await gate.wait('k')).toMatchObject({ ok: true, remaining: 0, retryAfterMs: 0 })
    expect(gate.peek('k').ok).toBe(false)
  })

  test('serves those who wait in order of arrival, each exactly in time', async () => {
    const { clock, gate, order, wait } = setUp()
    gate.take('k')
    for (const name of ['a', 'b', 'c']) wait(name)
    clock.advance(999)
    await settle()
    expect(order).toEqual([])
    clock.advance(1)
    await settle()
    expect(order).toEqual(['a'])
    clock.advance(2000)
    await settle()
    expect(order).toEqual(['a', 'b', 'c'])
  })

  test('does not starve a large cost behind small ones', async () => {
    const { clock, gate, order, wait } = setUp('4/s burst 4')
    gate.take('k', { cost: 4 })
    wait('large', { cost: 4 })
    wait('small')
    clock.advance(500)
    await settle()
    expect(order).toEqual([])
    expect(gate.take('k').ok).toBe(false)
    clock.advance(500)
    await settle()
    expect(order).toEqual(['large'])
    clock.advance(250)
    await settle()
    expect(order).toEqual(['large', 'small'])
  })

  test('lets no take of several limits overtake one who waits for more', async () => {
    const clock = fakeClock()
    const gate = createGate({ limits: { one: { limit: '4/s' }, two: { limit: '8/s' } }, clock })
    gate.take({}, { cost: 4 })
    const large = gate.wait({}, { cost: 4 })
    clock.advance(500)
    expect(gate.take({})).toMatchObject({ ok: false, limit: 'one' })
    clock.advance(500)
    expect((await large).ok).toBe(true)
  })

  test('lets no take overtake, and tells it a true wait', async () => {
    const { clock, gate, wait } = setUp()
    gate.take('k')
    wait('a')
    wait('b')
    const refused = gate.take('k')
    expect(refused).toMatchObject({ ok: false, retryAfterMs: 3000, violated: ['default'] })
    expect(gate.peek('k').retryAfterMs).toBe(3000)
    clock.advance(2999)
    await settle()
    expect(gate.take('k').ok).toBe(false)
    clock.advance(1)
    await settle()
    expect(gate.take('k').ok).toBe(true)
  })

  test('refuses at once a wait longer than maxMs, counting those before', async () => {
    const { gate, order, wait } = setUp()
    gate.take('k')
    wait('a')
    wait('b', { maxMs: 2000 })
    wait('c', { maxMs: 2999 })
    await settle()
    expect(order).toEqual(['no c'])
    expect(await gate.wait('k', { maxMs: 0 })).toMatchObject({ ok: false, retryAfterMs: 3000 })
  })

  test('refuses at once what can never fit', async () => {
    const { gate } = setUp()
    expect(await gate.wait('k', { cost: 2 })).toMatchObject({ ok: false, retryAfterMs: Infinity })
  })

  test('gives up at maxMs when a block comes in between', async () => {
    const { clock, gate, order, wait } = setUp()
    gate.take('k')
    wait('a', { maxMs: 3000 })
    wait('b', { maxMs: 2500 })
    gate.block('k', 60_000)
    clock.advance(2500)
    await settle()
    expect(order).toEqual(['no b'])
    clock.advance(500)
    await settle()
    expect(order).toEqual(['no b', 'no a'])
  })

  test('an abort rejects with its reason, leaves no trace, and those behind move up', async () => {
    const { clock, gate, order, wait } = setUp()
    gate.take('k')
    const controller = new AbortController()
    wait('a', { signal: controller.signal })
    wait('b')
    controller.abort('gone')
    await settle()
    expect(order).toEqual(['a gone'])
    clock.advance(1000)
    await settle()
    expect(order).toEqual(['a gone', 'b'])
    expect(gate.peek('k').retryAfterMs).toBe(1000)
  })

  test('an aborted signal rejects before anything is spent', async () => {
    const { gate } = setUp()
    await expect(gate.wait('k', { signal: AbortSignal.abort('never') })).rejects.toBe('never')
    expect(gate.peek('k').remaining).toBe(1)
  })

  test('removes its listener from the signal', async () => {
    const { clock, gate } = setUp()
    const { signal } = new AbortController()
    const added = vi.spyOn(signal, 'addEventListener')
    const removed = vi.spyOn(signal, 'removeEventListener')
    gate.take('k')
    const waiting = gate.wait('k', { signal })
    clock.advance(1000)
    await waiting
    expect(added).toHaveBeenCalledTimes(1)
    expect(removed).toHaveBeenCalledWith('abort', added.mock.calls[0]?.[1])
  })

  test('misuse rejects', async () => {
    const { gate } = setUp()
    await expect(gate.wait('', {})).rejects.toThrow('HG_KEY_MISSING')
    await expect(gate.wait('k', { maxMs: -1 })).rejects.toThrow('HG_OPTION_INVALID')
    await expect(gate.wait('k', { cost: 0.5 })).rejects.toThrow('HG_COST_INVALID')
  })

  test.each(['gcra', 'fixed-window', 'sliding-window', 'sliding-log', 'strict-window'] as const)(
    'is exact for %s: the k-th in line goes when it was told to',
    async (algorithm) => {
      const clock = fakeClock(1_234_567)
      const gate = createGate({ limit: '5/s', algorithm, clock })
      while (gate.take('k').ok);
      const went: number[] = []
      const told: number[] = []
      for (let i = 0; i < 12; i++) {
        told.push(clock.now() + gate.peek('k').retryAfterMs)
        gate.wait('k').then(() => went.push(clock.now()))
      }
      for (let ms = 0; ms < 10_000; ms++) {
        clock.advance(1)
        await Promise.resolve()
      }
      expect(went).toEqual(told)
    },
  )

  test('waits for all limits, and holds up nobody at a limit that does not refuse it', async () => {
    const clock = fakeClock()
    const gate = createGate({
      clock,
      limits: { user: { limit: '1/s', by: (user: string) => user }, all: { limit: '10/s' } },
    })
    gate.take('slow')
    let done = false
    const waiting = gate.wait('slow').then((decision) => {
      done = decision.ok
    })
    expect(gate.take('other').ok).toBe(true)
    expect(gate.take('slow')).toMatchObject({ ok: false, violated: ['user'], retryAfterMs: 2000 })
    clock.advance(1000)
    await waiting
    expect(done).toBe(true)
    expect(gate.peek('other').limits[1]).toMatchObject({ name: 'all', remaining: 9 })
  })

  test('goes on to the line of another limit that refuses when its turn comes', async () => {
    const clock = fakeClock()
    const gate = createGate({
      clock,
      limits: { user: { limit: '1/s', by: (user: string) => user }, all: { limit: '2/2s' } },
    })
    gate.take('a')
    const waiting = gate.wait('a')
    clock.advance(900)
    gate.take('b')
    clock.advance(100)
    await settle()
    gate.reset('user', 'a')
    expect(gate.take('c')).toMatchObject({ ok: false, violated: ['all'] })
    clock.advance(1000)
    expect((await waiting).ok).toBe(true)
  })

  test('lines are shared by gates on one store', async () => {
    const clock = fakeClock()
    const store = memory({ clock })
    const [one, other] = [createGate({ limit: '1/s', store }), createGate({ limit: '1/s', store })]
    one.take('k')
    const waiting = one.wait('k')
    expect(other.take('k')).toMatchObject({ ok: false, retryAfterMs: 2000 })
    clock.advance(1000)
    expect((await waiting).ok).toBe(true)
  })

  test('a slot that is released goes to the first in line at once', async () => {
    const clock = fakeClock()
    const gate = createGate({ atOnce: 1, clock })
    const held = gate.take('k')
    const order: string[] = []
    const first = gate.wait('k')
    void first.then(() => order.push('first'))
    const second = gate.wait('k').then(() => order.push('second'))
    clock.advance(10)
    held.release()
    const next = await first
    expect(order).toEqual(['first'])
    next.release()
    await second
    expect(order).toEqual(['first', 'second'])
  })

  test('a refund, a reset, a lifted block or a raised limit lets the first in line go at once', async () => {
    const clock = fakeClock()
    const gate = createGate({ limit: '1/h', clock })
    const taken = gate.take('k')
    const waiting = gate.wait('k', { maxMs: 7_200_000 })
    taken.refund()
    expect((await waiting).ok).toBe(true)
    const again = gate.wait('k', { maxMs: 7_200_000 })
    gate.reset('k')
    expect((await again).ok).toBe(true)
    const third = gate.wait('k', { maxMs: 7_200_000 })
    gate.override('k', '5/h', 60_000)
    expect((await third).ok).toBe(true)
  })

  test('tells onDecision once, when it is decided', async () => {
    const clock = fakeClock()
    const seen: boolean[] = []
    const gate = createGate({ limit: '1/s', clock, onDecision: ({ ok }) => seen.push(ok) })
    gate.take('k')
    const waiting = gate.wait('k')
    gate.peek('k')
    clock.advance(1000)
    await waiting
    await gate.wait('k', { maxMs: 5 })
    expect(seen).toEqual([true, true, false])
  })

  test('stays quick with thousands in line, and refuses past ten thousand', async () => {
    const clock = fakeClock()
    const gate = createGate({ limit: '1000/s burst 1', clock })
    gate.take('k')
    let gone = 0
    for (let i = 0; i < 10_000; i++) void gate.wait('k').then(({ ok }) => (gone += ok ? 1 : 0))
    expect(await gate.wait('k')).toMatchObject({ ok: false })
    expect(gate.take('k').retryAfterMs).toBe(10_001)
    clock.advance(10_000)
    await settle()
    expect(gone).toBe(10_000)
  })

  test('thousands who give up at the same time are answered with one look ahead, not one each', async () => {
    const clock = fakeClock()
    const inner = memory({ clock })
    let [forecasts, looks] = [0, 0]
    const store: SyncStore = {
      clock,
      run: (groups, nowUs) => inner.run(groups, nowUs),
      takeOne: (...args) => inner.takeOne(...args),
      decide: (...args) => inner.decide(...args),
      forecast() {
        forecasts++
        const { waitUs } = inner.forecast()
        return {
          waitUs(...args) {
            looks++
            return waitUs(...args)
          },
        }
      },
    }
    const gate = createGate({ limit: '1000/s burst 1', store })
    gate.take('k')
    const patient = gate.wait('k', { maxMs: 7_200_000 })
    const refused: number[] = []
    for (let i = 0; i < 5000; i++)
      void gate.wait('k', { maxMs: 10_000 }).then(({ retryAfterMs }) => refused.push(retryAfterMs))
    gate.block('k', 3_600_000)
    ;[forecasts, looks] = [0, 0]
    clock.advance(10_000)
    await settle()
    expect(refused).toEqual(Array.from({ length: 5000 }, () => 3_590_001))
    expect(forecasts).toBe(1)
    expect(looks).toBeLessThan(5010)
    clock.advance(3_590_000)
    expect((await patient).ok).toBe(true)
  })

  test('a request that meets several lines waits for all of them, and each is named', () => {
    const { clock, gate } = twoLimits()
    gate.take('x')
    void gate.wait('x')
    clock.advance(19_000)
    gate.take('y', { cost: 9 })
    void gate.wait('z', { cost: 10 })
    expect(gate.take('x')).toMatchObject({ ok: false, violated: ['user', 'all'], limit: 'user', retryAfterMs: 21_000 })
    expect(gate.peek('w')).toMatchObject({ ok: false, violated: ['all'], retryAfterMs: 10_000 })
    void gate.wait('v', { cost: 10 })
    void gate.wait('u', { cost: 10 })
    expect(gate.take('x')).toMatchObject({ ok: false, violated: ['user', 'all'], limit: 'all', retryAfterMs: 30_000 })
  })

  test('whose turn comes at one limit does not overtake who came before it at another', async () => {
    const { clock, gate } = twoLimits()
    const order: string[] = []
    gate.take('x')
    gate.take('y', { cost: 8 })
    void gate.wait('z', { cost: 9 }).then(() => order.push('z'))
    void gate.wait('x').then(() => order.push('x'))
    gate.reset('user', 'x')
    await settle()
    expect(order).toEqual([])
    clock.advance(8000)
    await settle()
    expect(order).toEqual(['z'])
    clock.advance(1000)
    await settle()
    expect(order).toEqual(['z', 'x'])
  })

  test('a line holds up nobody who asks nothing of its limit', async () => {
    const clock = fakeClock()
    const limits = { calls: { limit: '10/s' }, rows: { limit: '10/h', cost: (rows: number) => rows } } as const
    const gate = createGate({ clock, limits })
    gate.take(10)
    void gate.wait(1, { maxMs: 3_600_000 })
    expect(gate.take(1)).toMatchObject({ ok: false, violated: ['rows'] })
    expect(gate.peek(0).ok).toBe(true)
    expect(gate.take(0).ok).toBe(true)
    expect((await gate.wait(0)).ok).toBe(true)
    const one = createGate({ limit: '1/s', clock })
    one.take('k')
    void one.wait('k')
    expect(one.take('k', { cost: 0 }).ok).toBe(true)
    expect(one.peek('k', { cost: 0 }).ok).toBe(true)
  })

  test('a hook that throws rejects the wait it was told of, and the line goes on', async () => {
    const clock = fakeClock()
    let calls = 0
    const onDecision = () => {
      if (++calls === 2) throw new Error('hook')
    }
    const gate = createGate({ limit: '1/s', clock, onDecision })
    gate.take('k')
    const [first, second] = [gate.wait('k'), gate.wait('k')]
    const failed = expect(first).rejects.toThrow('hook')
    clock.advance(1000)
    await failed
    clock.advance(1000)
    expect((await second).ok).toBe(true)
  })

  test('gives up at maxMs also behind one who is more patient', async () => {
    const { clock, order, wait, gate } = setUp()
    gate.take('k')
    gate.block('k', 600_000)
    gate.block('k', 0)
    wait('patient', { maxMs: 50_000 })
    wait('hasty', { maxMs: 2500 })
    gate.block('k', 600_000)
    clock.advance(2500)
    await settle()
    expect(order).toEqual(['no hasty'])
  })

  test('who would wait for ever is refused at once, whatever the patience', async () => {
    const { gate } = setUp()
    expect(await gate.wait('k', { cost: 2, maxMs: Infinity })).toMatchObject({ ok: false, retryAfterMs: Infinity })
    expect(gate.take('k').ok).toBe(true)
  })

  test('works on real time', async () => {
    const gate = createGate({ limit: '100/s burst 1' })
    const before = performance.now()
    gate.take('k')
    expect((await gate.wait('k')).ok).toBe(true)
    expect(performance.now() - before).toBeGreaterThan(9)
  })
})
