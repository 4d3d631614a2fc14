import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { connect } from '../../test/clients.ts'
import { canStartRedis } from '../../test/redis-server.ts'
import { type Calls, patient, rig } from '../../test/redis-store.ts'
import { ifStalled } from '../../test/stalls.ts'
import { until } from '../../test/until.ts'
import { createGate } from '../index.ts'
import { clockInUs, limitOf, runs, seen } from '../properties/support.ts'
import { kinds, smallRules, traces } from '../properties/traces.ts'
import { fakeClock } from '../testing/index.ts'

/** What told time adds to the life of a key, as it does not pass for Redis. */
const SLACK_MS = 600_000

describe.skipIf(!canStartRedis)('keys in Redis', { retry: ifStalled }, () => {
  const own = rig()
  const { store, calls } = own
  const ttlOf = async (key: string) => Number(await own.server.call('PTTL', key))
  const keys = async () => (await own.server.call('KEYS', '*')) as string[]
  const dump = async () => {
    const names = (await keys()).sort()
    return Promise.all(names.map(async (name) => [name, await own.server.call('DUMP', name)]))
  }

  /** For how many milliseconds keys were given to live meanwhile, one after the other. */
  async function lifetimes(work: () => Promise<void>): Promise<number[]> {
    const { client, close } = await connect('ioredis', own.server)
    const monitor = await client.monitor()
    const lives: number[] = []
    let done = false
    monitor.on('monitor', (_time: string, [command = '', ...args]: string[]) => {
      const [word, ms] = args.slice(-2)
      if (/^set$/i.test(command) && word === 'PX') lives.push(Number(ms))
      else if (/^pexpire$/i.test(command)) lives.push(Number(ms))
      else if (/^echo$/i.test(command)) done = true
    })
    await work()
    await own.server.call('ECHO', 'done')
    await until('the monitor', () => done || undefined)
    monitor.disconnect()
    await close()
    return lives
  }

  const limits = {
    gcra: { limit: '10/s' },
    'gcra, uneven': { limit: '7/s burst 3' },
    'gcra, fast': { limit: '100000/s burst 5' },
    'fixed-window': { limit: '10/s', algorithm: 'fixed-window' },
    'first-hit': { limit: '10/s', algorithm: 'fixed-window', align: 'first-hit' },
    staggered: { limit: '10/s', algorithm: 'fixed-window', align: 'staggered' },
    calendar: { limit: '10/day calendar' },
    'sliding-window': { limit: '10/s', algorithm: 'sliding-window' },
    'sliding-log': { limit: '10/s', algorithm: 'sliding-log' },
    'strict-window': { limit: '10/s strict' },
    'in flight': { atOnce: 10, holdMs: 60_000 }, // so long that none is renewed meanwhile
  } as const

  /** What is one number in Redis may outlive its use: then its time to live need not be said anew with every take. */
  const LONGER_MS = 60_000
  const numbers: readonly string[] = ['gcra', 'gcra, fast']

  describe.each(Object.entries(limits))('of %s', (name, limit) => {
    test.each(numbers.includes(name) ? ['that is told'] : ['of Redis', 'that is told'])(
      'live exactly until they are full again, by the clock %s',
      async (whose) => {
        const clock = fakeClock(Date.UTC(2026, 0, 1))
        const gate = createGate({
          limits: { x: { ...limit, by: (key: string) => key } },
          store: await store(),
          ...(whose !== 'of Redis' && { clock }),
          ...patient,
        })
        const resets: number[] = []
        const lives = await lifetimes(async () => {
          for (let i = 0; i < 40; i++) {
            clock.advance(i * 13.337)
            const { ok, resetAfterMs } = await gate.take(`key-${i % 5}`, { cost: 1 + (i % 2) })
            if (ok) resets.push(resetAfterMs)
          }
        })
        expect(Math.min(...resets)).toBeGreaterThanOrEqual(1)
        expect(lives).toEqual(resets.map((ms) => ms + (whose === 'of Redis' ? 0 : SLACK_MS)))
      },
    )

    test('are one, and small', async () => {
      const clock = fakeClock(Date.UTC(2026, 0, 1))
      const gate = createGate({
        limits: { x: { ...limit, by: (key: string) => key } },
        store: await store(),
        clock,
        ...patient,
      })
      for (let i = 0; i < 30; i++) {
        await gate.take('a')
        clock.advance(37)
      }
      const [name = '', ...others] = await keys()
      expect(others).toEqual([])
      if ('atOnce' in limit) return
      expect(await own.server.call('TYPE', name)).toBe('string')
      expect(await own.server.call('STRLEN', name)).toBeLessThan(limit === limits['sliding-log'] ? 600 : 120)
    })

    test('are not touched by what is refused, looked at or costs nothing [P7, P8]', async () => {
      const clock = fakeClock(Date.UTC(2026, 0, 1))
      const gate = createGate({
        limits: { x: { ...limit, by: (key: string) => key } },
        store: await store({ quickDeny: false }),
        clock,
        ...patient,
      })
      await gate.take('a', { upTo: 10 })
      clock.advance(0.001)
      const before = await dump()
      const { set, setrange, zadd, del, pexpire } = await calls(async () => {
        expect((await gate.take('a', { cost: 3 })).ok).toBe(false)
        expect((await gate.take('a', { cost: 3_000_000 })).ok).toBe(false)
        expect((await gate.take('a', { upTo: 7 })).ok).toBe(false)
        expect((await gate.take('a', { cost: 0 })).ok).toBe(true)
        await gate.peek('a')
        await gate.peek('nobody')
        expect((await gate.take('nobody', { cost: 0 })).ok).toBe(true)
        expect((await gate.take('nobody', { cost: 11 })).ok).toBe(false)
      })
      expect(await dump()).toEqual(before)
      expect([set, setrange, zadd, del, pexpire]).toEqual([undefined, undefined, undefined, undefined, undefined])
    })
  })

  test('of several limits live each as long as it needs, also when decided in one call', async () => {
    const clock = fakeClock(Date.UTC(2026, 0, 1))
    const by = (key: string) => key
    const gate = createGate({
      limits: { one: { limit: '10/s', by }, two: { limit: '3/min', by }, three: { limit: '1000/s burst 10', by } },
      store: await store(),
      clock,
      ...patient,
    })
    const resets: number[] = []
    await Promise.all(['a', 'b'].map((key) => gate.take(key)))
    clock.advance(0.7)
    const lives = await lifetimes(async () => {
      for (const decision of await Promise.all(['a', 'b', 'a'].map((key) => gate.take(key))))
        resets.push(...decision.limits.map(({ resetAfterMs }) => resetAfterMs + SLACK_MS))
    })
    // Each key is written once, as it is in the end.
    expect(lives.sort()).toEqual(resets.slice(3).sort())
  })

  test('of several limits live by the clock of Redis until they are full again', async () => {
    const by = (key: string) => key
    const limits = { one: { limit: '10/h', by }, two: { limit: '3/day', by } } as const
    const gate = createGate({ limits, store: await store(), ...patient })
    const beforeMs = performance.now()
    const decisions = await Promise.all(['a', 'b', 'a'].map((key) => gate.take(key)))
    for (const [i, key] of [
      [1, 'b'],
      [2, 'a'],
    ] as const) {
      for (const { name, resetAfterMs } of decisions[i]?.limits ?? []) {
        const ms = await ttlOf(`hg:${name}:${key}`)
        // Redis cuts the time off to milliseconds when it says what is left.
        expect(ms).toBeLessThanOrEqual(resetAfterMs + LONGER_MS + 1)
        expect(ms).toBeGreaterThanOrEqual(resetAfterMs - Math.ceil(performance.now() - beforeMs) - 1)
      }
    }
  })

  describe.each(['10/s', '600/min', '100000/s burst 5', '1000000/h', '5/min', '100/day'] as const)('of %s', (limit) => {
    test('live until they are full again, and a minute longer at most, whatever becomes of takes', async () => {
      const gate = createGate({ limit, store: await store({ quickDeny: false }), ...patient })
      const nowMs = async () => {
        const [s, us] = (await own.server.call('TIME')) as [string, string]
        return Number(s) * 1000 + Number(us) / 1000
      }
      const names = ['a', 'b', 'c']
      const take = (key: string) => gate.take(key)
      for (let i = 0; i < 60; i++) {
        const beforeMs = await nowMs()
        // Alone, and in one call with others: these are written in different ways, and so is what is given back.
        const taken = i % 3 === 0 ? [await take('a')] : await Promise.all(names.map(take))
        if (i % 7 === 0) await taken[0]?.refund()
        for (const key of names) {
          const { resetAfterMs } = await gate.peek(key)
          const [ms, afterMs] = [await ttlOf(`hg:default:${key}`), await nowMs()]
          if (ms < 0 && afterMs >= beforeMs + resetAfterMs - 2) continue
          expect(ms).toBeGreaterThanOrEqual(resetAfterMs - Math.ceil(afterMs - beforeMs) - 2)
          expect(ms).toBeLessThanOrEqual(resetAfterMs + LONGER_MS + Math.ceil(afterMs - beforeMs) + 2)
        }
      }
    })
  })

  test('keep their time to live while they are moved within it', async () => {
    const gate = createGate({ limit: '100000/day', store: await store(), ...patient })
    await gate.take('a')
    const alone = await calls(async () => {
      for (let i = 0; i < 40; i++) await gate.take('a')
    })
    const together = await calls(async () => {
      for (let i = 0; i < 20; i++) await Promise.all(['a', 'b'].map((key) => gate.take(key)))
    })
    // Sixteen units make a span: three or four of forty takes go on to the next.
    expect(alone.setrange).toBeGreaterThanOrEqual(36)
    expect(together.setrange).toBeGreaterThanOrEqual(35)
  })

  let gates = 0
  test.each(kinds)('of %s may go as soon as they are full again: nobody can tell [P14]', async (kind) => {
    const redis = await store({ quickDeny: false })
    await fc.assert(
      fc.asyncProperty(traces(smallRules(kind)), async ({ rule, steps }) => {
        const { clock, at } = clockInUs()
        const [kept, forgotten] = [`kept-${++gates}`, `forgotten-${gates}`].map((prefix) =>
          createGate({ limit: limitOf(rule), store: redis, clock, prefix, ...patient }),
        )
        const name = `forgotten-${gates}:default:key`
        let untilMs = Infinity
        for (const { at: us, cost } of steps) {
          at(us)
          // By then Redis would have forgotten it.
          if (clock.now() >= untilMs) await own.server.call('DEL', name)
          const units = { cost: Number(cost) }
          const [one, other] = await Promise.all([kept?.take('key', units), forgotten?.take('key', units)])
          if (one === undefined || other === undefined) throw new Error('no gate')
          expect(seen(other)).toEqual(seen(one))
          if (other.ok && cost > 0n) untilMs = clock.now() + other.resetAfterMs
        }
      }),
      runs(8),
    )
  })

  test('of a log hold no more than its limit, however many are refused and however often it starts over', async () => {
    const clock = fakeClock(Date.UTC(2026, 0, 1))
    const gate = createGate({ limit: '50/s', algorithm: 'sliding-log', store: await store(), clock, ...patient })
    let longest = 0
    for (let i = 0; i < 1_000; i++) {
      await gate.take('a')
      clock.advance(i % 100 === 0 ? 400 : 7)
      if (i % 10 === 0) longest = Math.max(longest, Number(await own.server.call('STRLEN', 'hg:default:a')))
    }
    // Sixteen bytes for each entry; what has left is cleared away once it is more than half.
    expect(longest).toBeGreaterThan(16 * 50)
    expect(longest).toBeLessThan(16 * (2 * 50 + 20) + 100)
  })

  describe('of a log with 100,000 entries', () => {
    const limit = 100_000
    const commands = (counts: Calls) => Object.values(counts).reduce((sum, each) => sum + each, 0)

    /** A gate and a key with all but one of its units in use, some of them long ago. */
    async function longLog({ gone = 0 } = {}) {
      const gate = createGate({
        limit: `${limit}/day`,
        algorithm: 'sliding-log',
        store: await store({ quickDeny: false }),
        ...patient,
      })
      const first = await gate.take('a')
      // The rest of the log, as so many takes would have left it.
      const fill = `
        local raw = redis.call('GET', KEYS[1])
        local at, gone = struct.unpack('<d', raw, #raw - 15), ${gone}
        local parts = {}
        for i = 1, gone do parts[i] = struct.pack('<dd', at - 86400000000 - gone + i, i) end
        for i = 1, ${limit - 1} do parts[gone + i] = struct.pack('<dd', at + i - 1, gone + i) end
        local head = string.sub(raw, 1, #raw - 16 - 48)
        local numbers = struct.pack('<dddddd', 0, gone + ${limit - 1}, 0, 0, 0, 0)
        redis.call('SET', KEYS[1], head .. numbers .. table.concat(parts), 'KEEPTTL')`
      await own.server.call('EVAL', fill, '1', 'hg:default:a')
      return { gate, first }
    }

    test('are decided by a few short reads', async () => {
      const { gate } = await longLog()
      const last = await calls(async () => expect((await gate.take('a')).remaining).toBe(0))
      const refused = await calls(async () => {
        const decision = await gate.take('a')
        expect(decision.ok).toBe(false)
        expect(decision.retryAfterMs).toBeGreaterThan(86_000_000)
      })
      expect(commands(last)).toBeLessThan(40)
      expect(commands(refused)).toBeLessThan(40)
      expect([last.get, refused.get, refused.set, refused.setrange]).toEqual([
        undefined,
        undefined,
        undefined,
        undefined,
      ])
    })

    test('are cleared of what has left them in one go', async () => {
      const { gate } = await longLog({ gone: 110_000 })
      const made = await calls(async () => expect((await gate.take('a')).remaining).toBe(0))
      expect(commands(made)).toBeLessThan(60)
      expect(Number(await own.server.call('STRLEN', 'hg:default:a'))).toBeLessThan(16 * limit + 100)
      expect((await gate.take('a')).ok).toBe(false)
    })

    test('are corrected at their very beginning by a few commands', async () => {
      const { gate, first } = await longLog()
      const made = await calls(() => first.refund())
      expect(commands(made)).toBeLessThan(60)
      expect((await gate.peek('a')).remaining).toBe(2)
      expect((await gate.take('a', { cost: 2 })).ok).toBe(true)
    })
  })

  test('of a long block or a reset outlive neither', async () => {
    const gate = createGate({ limit: '10/s', store: await store(), ...patient })
    await gate.block('blocked', 5_000)
    expect(await ttlOf('hg:default:blocked')).toBeGreaterThan(4_000)
    expect(await ttlOf('hg:default:blocked')).toBeLessThanOrEqual(5_000)
    await gate.block('blocked', 0)
    await gate.take('full')
    await gate.reset('full')
    expect(await ttlOf('hg:default:full')).toBeLessThanOrEqual(100)
    expect(await ttlOf('hg:default:blocked')).toBe(-2)
  })
})
