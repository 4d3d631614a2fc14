import { describe, expect, test } from 'vitest'
import { randomBelow, seed } from '../../test/random.ts'
import { canStartRedis } from '../../test/redis-server.ts'
import { patient, rig } from '../../test/redis-store.ts'
import { until } from '../../test/until.ts'
import { createGate } from '../index.ts'
import { fakeClock } from '../testing/index.ts'

const NOW = Date.UTC(2026, 0, 1)

describe.skipIf(!canStartRedis)('a leaky bucket in Redis', () => {
  const redis = rig()
  const { store, calls } = redis

  /** Three processes, each with a gate and a connection of its own; all see the same time. */
  async function fleet(limit: string, count = 3) {
    const clock = fakeClock(NOW)
    const left: [name: number, ms: number][] = []
    /** The instants of departures, to the very microsecond. */
    const told: number[] = []
    const onDecision = ({ ok }: { ok: boolean }) => void (ok && told.push(clock.now()))
    const stores = await Promise.all(Array.from({ length: count }, () => store()))
    const gates = stores.map((each) =>
      createGate({ limit, algorithm: 'leaky-bucket', clock, store: each, onDecision, ...patient }),
    )
    const looking = createGate({
      limit,
      algorithm: 'leaky-bucket',
      clock,
      store: await store({ quickDeny: false }),
      ...patient,
    })
    const waitMs = async () => (await looking.peek('k')).retryAfterMs
    /** What was asked before on these connections is answered by then. */
    const answered = () => Promise.all(gates.map((gate) => gate.peek('another key')))
    /** Resolves once it is booked. */
    async function wait(name: number, at: number, options = {}): Promise<void> {
      void gates[at]?.wait('k', options).then(
        ({ ok }) => left.push([ok ? name : -name, clock.now() - NOW]),
        () => left.push([Number.NaN, clock.now() - NOW]),
      )
      await answered()
    }
    /** Lets time pass in steps of a departure, until so many have gone. */
    async function gone(count: number, stepMs: number): Promise<void> {
      while (left.length < count) {
        const before = left.length
        clock.advance(stepMs)
        await new Promise((resolve) => setImmediate(resolve))
        if (left.length === before && clock.now() - NOW > 100_000) throw new Error(`${left.length} have gone`)
      }
    }
    return { clock, gates, left, told, wait, waitMs, gone, answered }
  }

  test('lets three processes depart as one: evenly spaced, in the order in which they came', async () => {
    const { left, wait, gone } = await fleet('10/s burst 1')
    for (let i = 0; i < 18; i++) await wait(i, i % 3)
    await gone(18, 100)
    expect(left).toEqual(Array.from({ length: 18 }, (_, i) => [i, i * 100]))
  })

  test('asks Redis once for each who waits', async () => {
    const gate = createGate({ limit: '1000/s burst 1', algorithm: 'leaky-bucket', store: await store(), ...patient })
    await gate.take('warm')
    const seen = await calls(async () => {
      for (let i = 0; i < 20; i++) await gate.wait('k')
    })
    expect(seen.evalsha).toBe(20)
  })

  test('keeps one number for a key, however many wait, until the last has gone', async () => {
    const { wait, gates } = await fleet('10/s burst 1')
    await wait(0, 0)
    const short = await redis.server.call('STRLEN', 'hg:default:k')
    for (let i = 1; i < 10; i++) await wait(i, i % 3)
    expect(await redis.server.call('STRLEN', 'hg:default:k')).toBe(short)
    expect(Number(await redis.server.call('PTTL', 'hg:default:k'))).toBeGreaterThan(1_000)
    expect((await gates[1]?.take('k'))?.retryAfterMs).toBe(1_000)
  })

  test('leaves no hole where somebody of the same process comes behind, and none longer than one turn else', async () => {
    const { left, wait, gone, waitMs, clock } = await fleet('10/s burst 1')
    const [first, second] = [new AbortController(), new AbortController()]
    await wait(0, 0)
    await wait(1, 0, { signal: first.signal })
    await wait(2, 1)
    await wait(3, 0)
    await wait(4, 1, { signal: second.signal })
    first.abort()
    await until('it is handed on', () => Number.isNaN(left.at(-1)?.[0]) || undefined)
    // The turn of 3 is free now and 4 stands behind it, in another process.
    expect(await waitMs()).toBe(500)
    second.abort()
    await until('the last is taken back', async () => (await waitMs()) === 400 || undefined)
    await gone(5, 100)
    expect(left.filter(([name]) => name > 0)).toEqual([
      [3, 100],
      [2, 200],
    ])
    expect(clock.now() - NOW).toBe(200)
  })

  test(`never departs faster than its rate, whoever gives up (HEADGATE_SEED=${seed})`, async () => {
    const random = randomBelow(seed)
    const { clock, left, told, wait, answered } = await fleet('10/s burst 1')
    const open: AbortController[] = []
    for (let i = 0; i < 40; i++) {
      const controller = new AbortController()
      open.push(controller)
      await wait(i, random(3), { signal: controller.signal })
      if (random(3) === 0) open[random(open.length)]?.abort()
      await answered()
      if (random(4) === 0) clock.advance(random(200))
    }
    await until('all have gone', async () => {
      clock.advance(50)
      await new Promise((resolve) => setImmediate(resolve))
      return left.length === 40 || undefined
    })
    const times = told.map((ms) => ms - (told[0] as number))
    for (let i = 1; i < times.length; i++)
      expect((times[i] as number) - (times[i - 1] as number), String(times)).toBeGreaterThanOrEqual(100)
  })

  test('by the clock of Redis too: so many take at least so long', async () => {
    const stores = await Promise.all([store(), store(), store()])
    const gates = stores.map((each) =>
      createGate({ limit: '200/s burst 1', algorithm: 'leaky-bucket', store: each, ...patient }),
    )
    const startMs = performance.now()
    const waits = Array.from({ length: 60 }, (_, i) => gates[i % 3]?.wait('k'))
    expect((await Promise.all(waits)).every((each) => each?.ok && !each.degraded)).toBe(true)
    expect(performance.now() - startMs).toBeGreaterThanOrEqual(59 * 5)
  })
})
