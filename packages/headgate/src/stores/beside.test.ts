import { describe, expect, test } from 'vitest'
import { randomBelow, seed } from '../../test/random.ts'
import { createGate } from '../gate.ts'
import { compileLimit } from '../limit.ts'
import { runs } from '../properties/support.ts'
import { fakeClock, storeSuite } from '../testing/index.ts'
import { Beside } from './beside.ts'
import { type MemoryStore, memory } from './memory.ts'
import { type Counter, type Group, heldBy, idOf, type Op, type Outcome, type Result, type Store } from './store.ts'

/** A store that takes its time, and may fail. */
class Elsewhere implements Store {
  readonly asked: Group[] = []
  fails = false
  /** Answers when this does. */
  held: Promise<void> | undefined
  readonly #counts: MemoryStore

  constructor(counts: MemoryStore) {
    this.#counts = counts
  }

  get clock() {
    return this.#counts.clock
  }

  async run(groups: readonly Group[], nowUs?: number): Promise<Result[]> {
    this.asked.push(...groups)
    if (this.fails) throw new Error('away')
    const results = this.#counts.run(groups, nowUs)
    await this.held
    return results
  }
}

/** Every other space is counted here. Slots that come back at once would count in how long others are held on average. */
function isOdd(counter: Pick<Counter, 'hold'>): boolean {
  const { space, policy } = counter as Counter
  return Number(space.replace(/\D/g, '')) % 2 === 1 && policy.algorithm !== 'at-once'
}

/** Two steps book nothing ahead together: that is put to the proof without, below. */
const isOneStep = (name: string) =>
  name.startsWith('books all limits of a group ahead') || name.startsWith('decides random')

const counters: readonly Counter[] = ['10/s', '7/min burst 3', '20/10s strict', '30/day calendar', '40/h'].map(
  (text, n) => ({ space: `s-${n}`, policy: compileLimit(text) }),
)

function randomGroup(random: (below: number) => number): Group {
  const ops = Array.from({ length: 1 + random(4) }, (): Op => {
    const counter = counters[random(counters.length)] as Counter
    const verb = random(6) === 0 ? 'peek' : 'take'
    return { verb, counter, key: `k${random(2)}`, cost: random(4), ...(random(6) === 0 && { observe: true }) }
  })
  // As gates have it: a key once, and the cost of the call in all of them.
  const apart = ops.filter((op, i) => ops.findIndex((each) => idOf(each) === idOf(op)) === i)
  if (random(4) > 0) return { ops: apart, cost: 1 }
  return { ops: apart.map((op) => ({ ...op, cost: 1 })), cost: 1, upTo: 1 + random(6) }
}

function told(result: Result | undefined) {
  const outcomes = result?.outcomes.map(({ ok, remaining, waitUs, resetUs }) => [ok, remaining, waitUs, resetUs])
  return [result?.ok, result?.cost, outcomes]
}

/** What gives back each of what was taken. */
function bookings({ ops, upTo }: Group, seen: Result, wanted: Result) {
  if (!wanted.ok) return []
  return ops.flatMap((op, i) => {
    const units = upTo === undefined ? op.cost : wanted.cost
    const [one, two] = [seen.outcomes[i] as Outcome, wanted.outcomes[i] as Outcome]
    if (op.verb !== 'take' || !two.ok || units === 0) return []
    const back = (mark: Outcome): Op => ({ verb: 'settle', counter: op.counter, key: op.key, cost: -units, mark })
    return [{ seen: back(one), wanted: back(two) }]
  })
}

describe('limits of which some are counted here and some elsewhere', () => {
  const both = (clock: ReturnType<typeof fakeClock>) =>
    new Beside(memory({ clock }), new Elsewhere(memory({ clock })), isOdd)
  for (const { name, run } of storeSuite(both, { seed })) if (!isOneStep(name)) test(name, run)

  test(`are decided as if all were counted in one place, in random steps (HEADGATE_SEED=${seed})`, async () => {
    for (let n = 0; n < runs(30).numRuns; n++) {
      const clock = fakeClock(Date.UTC(2026, 0, 1))
      const random = randomBelow(seed + n)
      const [store, reference] = [both(clock), memory({ clock })]
      const taken: { readonly seen: Op; readonly wanted: Op }[] = []
      for (let step = 0; step < 200; step++) {
        clock.advance(random(3) === 0 ? random(20_000) : 0)
        const back = random(5) === 0 ? taken.splice(random(taken.length), 1)[0] : undefined
        const group = randomGroup(random)
        const [seen] = await store.run([back === undefined ? group : { ops: [back.seen] }])
        const [wanted] = reference.run([back === undefined ? group : { ops: [back.wanted] }])
        expect(told(seen), `step ${step} of run ${n}`).toEqual(told(wanted))
        if (back === undefined) taken.push(...bookings(group, seen as Result, wanted as Result))
      }
    }
  })

  function setUp() {
    const clock = fakeClock()
    const there = new Elsewhere(memory({ clock }))
    const store = new Beside(memory({ clock }), there, heldBy('share', false))
    Object.assign(store, { holds: ['share'] })
    const limits = {
      here: { limit: '10/min', hold: 'share' },
      slots: { atOnce: 3, hold: 'share' },
      there: { limit: '5/min', when: (kind: string) => kind === 'both' },
    } as const
    const gate = createGate({ limits, store, timeoutMs: 1_000, onStoreError: 'deny' })
    const left = async () => {
      const decision = await gate.peek('both')
      return Object.fromEntries(decision.limits.map(({ name, remaining }) => [name, remaining]))
    }
    return { gate, there, left, clock }
  }

  test('are decided at once where all of them are here, and nobody else is asked', () => {
    const { gate, there } = setUp()
    const decision = gate.take('here')
    expect(decision).not.toBeInstanceOf(Promise)
    expect(decision).toMatchObject({ ok: true })
    expect(there.asked).toEqual([])
  })

  test('are all charged or none, whoever refuses', async () => {
    const { gate, left } = setUp()
    for (let i = 0; i < 5; i++) {
      const decision = await gate.take('both')
      expect(decision.ok).toBe(true)
      await decision.release()
    }
    expect(await gate.take('both')).toMatchObject({ ok: false, violated: ['there'] })
    expect(await left()).toEqual({ here: 5, slots: 3, there: 0 })
    const refused = await gate.take('both', { cost: 6 })
    expect([...refused.violated].sort()).toEqual(['here', 'slots', 'there'])
    expect(await left()).toEqual({ here: 5, slots: 3, there: 0 })
  })

  test('charge nothing here when the rest could not be asked', async () => {
    const { gate, there, left } = setUp()
    there.fails = true
    expect(await gate.take('both')).toMatchObject({ ok: false, degraded: 'deny' })
    there.fails = false
    expect(await left()).toEqual({ here: 10, slots: 3, there: 5 })
  })

  test('are charged neither here nor there for an answer that comes too late', async () => {
    const { gate, there, left, clock } = setUp()
    let answer = () => {}
    there.held = new Promise((resolve) => {
      answer = resolve
    })
    const late = gate.take('both', { cost: 2 })
    clock.advance(2_000)
    expect(await late).toMatchObject({ ok: false, degraded: 'deny' })
    there.held = undefined
    expect(gate.peek('here')).toMatchObject({ limits: [{ remaining: 10 }, { remaining: 3 }] })
    answer()
    for (let i = 0; i < 20; i++) await Promise.resolve()
    expect(await left()).toEqual({ here: 10, slots: 3, there: 5 })
  })

  test('are decided here also while the rest is held to be down', async () => {
    const { gate, there } = setUp()
    there.fails = true
    for (let i = 0; i < 8; i++) await gate.take('both')
    expect(gate.health().state).toBe('down')
    expect(gate.take('here')).toMatchObject({ ok: true, degraded: false })
  })

  test('take as many as fit in all of them', async () => {
    const { gate, left } = setUp()
    const decision = await gate.take('both', { upTo: 100 })
    expect(decision).toMatchObject({ ok: true, cost: 3 })
    expect(await left()).toEqual({ here: 7, slots: 0, there: 2 })
  })

  test('know a repeat by its id, and give back once what it is corrected by', async () => {
    const { gate, left } = setUp()
    for (let i = 0; i < 3; i++) {
      expect(await gate.take('both', { id: 'order-6' })).toMatchObject({ ok: true, cost: 1 })
      expect(await left()).toEqual({ here: 9, slots: 2, there: 4 })
    }
    await gate.reset('slots')
    const first = await gate.take('both', { id: 'order-7', cost: 2 })
    const again = await gate.take('both', { id: 'order-7', cost: 2 })
    expect([first.ok, again.ok, again.cost]).toEqual([true, true, 2])
    expect(await left()).toEqual({ here: 7, slots: 1, there: 2 })
    await first.refund()
    await again.refund()
    expect(await left()).toMatchObject({ here: 9, there: 4 })
  })
})
