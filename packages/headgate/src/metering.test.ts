import { describe, expect, test } from 'vitest'
import { randomBelow, seed } from '../test/random.ts'
import { rig } from '../test/redis-store.ts'
import { until } from '../test/until.ts'
import type { Decision } from './decision.ts'
import { bytesCost } from './http/bytes.ts'
import { createGate, memory, type Store } from './index.ts'
import { type Meter, UNASKED_BYTES, type Verdict } from './metering.ts'
import { runs } from './properties/support.ts'
import { fakeClock } from './testing/index.ts'

const NOW = 1_800_000_000_000
const shared = rig()

interface Asked {
  readonly key: string
  /** Undefined: it does not say. */
  readonly bytes: number | undefined
}

interface GateInside {
  take(request: Asked): Decision<unknown> | Promise<Decision<unknown>>
  meter(request: Asked, decision: Decision<unknown>): Meter
}

/** What is left of a limit that each key has. */
interface World {
  readonly gate: GateInside
  used(limit: 'both' | 'in' | 'out', key: string): Promise<number>
}

const LIMITS = { both: 2_000_000, in: 1_000_000, out: 1_500_000 }

function world(store: Store, algorithm: 'gcra' | 'fixed-window'): World {
  const limitOf = (name: keyof typeof LIMITS) => ({ limit: LIMITS[name], per: '1day', algorithm }) as const
  const by = ({ key }: Asked) => key
  const gate = createGate({
    store,
    clock: fakeClock(NOW),
    timeoutMs: 10_000,
    onStoreError: 'deny',
    limits: {
      both: { limit: limitOf('both'), by, cost: bytesCost<Asked>('bytes', ({ bytes }) => bytes) as never },
      in: { limit: limitOf('in'), by, cost: bytesCost<Asked>('bytes-in', ({ bytes }) => bytes) as never },
      out: { limit: limitOf('out'), by, cost: bytesCost<Asked>('bytes-out', ({ bytes }) => bytes) as never },
    },
  })
  return {
    gate: gate as unknown as GateInside,
    used: async (limit, key) => LIMITS[limit] - (await gate.peekKey(limit, key, { cost: 0 })).remaining,
  }
}

interface Passed {
  in: number
  out: number
}

/** A request from its decision to its end, however that comes, with others in between. */
async function visit({ gate }: World, key: string, random: (below: number) => number, passed: Passed): Promise<void> {
  const declared = [undefined, 0, random(200_000)][random(3)]
  const decision = await gate.take({ key, bytes: declared })
  if (!decision.ok) return
  if (random(20) === 0) return void (await decision.refund())
  const meter = gate.meter({ key, bytes: declared }, decision)
  // Some lie about their length, some leave in the middle, some are answered before they have sent all.
  const send = declared === 0 ? 0 : random(300_000)
  const answer = [0, random(900), random(400_000)][random(3)] as number
  if (await stream(meter.in as never, send, random, (bytes) => (passed.in += bytes))) {
    const refused = random(2) === 0 && (await meter.out?.reserve(answer))
    if (!refused) await stream(meter.out as never, answer, random, (bytes) => (passed.out += bytes))
  }
  meter.over()
}

/** Whether all of it passed. Somebody may leave while the answer about a piece is still out. */
async function stream(
  lane: { pass(bytes: number): Verdict | Promise<Verdict> },
  bytes: number,
  random: (below: number) => number,
  tell: (bytes: number) => void,
): Promise<boolean> {
  for (let left = bytes; left > 0; ) {
    const piece = Math.min(left, 1 + random(65_536))
    const answer = lane.pass(piece)
    const refusal = answer instanceof Promise ? await answer : answer
    if (refusal !== undefined) return false
    tell(piece)
    left -= piece
    if (random(12) === 0) return false
  }
  return true
}

const stores: Record<string, () => Promise<Store>> = {
  memory: async () => memory(),
  Redis: async () => await shared.store(),
}

for (const [name, storeOf] of Object.entries(stores)) {
  describe(`bytes counted in ${name}`, () => {
    test.each([NaN, -1, 0.5, undefined])(
      '%s is no number of bytes, and leaves what is counted alone',
      async (bytes) => {
        const it = world(await storeOf(), 'gcra')
        const meter = it.gate.meter({ key: 'a', bytes: 10 }, await it.gate.take({ key: 'a', bytes: 10 }))
        expect(() => meter.in?.pass(bytes as number)).toThrow(/HG_COST_INVALID/)
        expect(await it.used('in', 'a')).toBe(10)
      },
    )

    test('what was given back altogether is not given back again at the end', async () => {
      const it = world(await storeOf(), 'fixed-window')
      const visitOf = async (bytes: number) => {
        const decision = await it.gate.take({ key: 'a', bytes })
        return { decision, meter: it.gate.meter({ key: 'a', bytes }, decision) }
      }
      const paid = await visitOf(50_000)
      expect(await paid.meter.in?.pass(50_000)).toBeUndefined()
      paid.meter.over()
      const free = await visitOf(40_000)
      await free.decision.refund()
      free.meter.over()
      await until('all is settled', async () => (await it.used('out', 'a')) === 0 || undefined)
      expect(await it.used('in', 'a')).toBe(50_000)
    })

    for (const algorithm of ['gcra', 'fixed-window'] as const) {
      test(`what was reserved, settled and given back adds up to what passed, by ${algorithm} (HEADGATE_SEED=${seed})`, async () => {
        const random = randomBelow(seed)
        for (let run = 0; run < runs(4).numRuns; run++) {
          const it = world(await storeOf(), algorithm)
          const keys = ['a', 'b'].map((key) => `${key}${run}`)
          const passed = new Map(keys.map((key) => [key, { in: 0, out: 0 }]))
          const visits = Array.from({ length: 30 }, () => keys[random(2)] as string)
          await Promise.all(visits.map((key) => visit(it, key, random, passed.get(key) as Passed)))
          for (const [key, { in: into, out }] of passed) {
            // What goes past a limit is a debt, and does not show in what is left.
            const due = { in: into, out: Math.min(out, LIMITS.out), both: Math.min(into + out, LIMITS.both) }
            await until(`HEADGATE_SEED=${seed}, run ${run}: ${JSON.stringify(due)}`, async () =>
              same(await usedOf(it, key), due),
            )
            expect(await usedOf(it, key)).toEqual(due)
            expect(into).toBeLessThanOrEqual(LIMITS.in)
            expect(into).toBeGreaterThan(0)
            // Each answer may go over by what is not asked for.
            expect(out).toBeLessThanOrEqual(LIMITS.out + 30 * UNASKED_BYTES)
          }
        }
      })
    }
  })
}

async function usedOf(it: World, key: string): Promise<typeof LIMITS> {
  return { both: await it.used('both', key), in: await it.used('in', key), out: await it.used('out', key) }
}

function same(one: typeof LIMITS, other: typeof LIMITS): true | undefined {
  return (one.both === other.both && one.in === other.in && one.out === other.out) || undefined
}
