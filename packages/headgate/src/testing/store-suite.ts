import type { Policy } from '../algorithms/algorithm.ts'
import { compileAtOnce, compileLimit } from '../limit.ts'
import { memory } from '../stores/memory.ts'
import {
  type Booking,
  type Counter,
  type Group,
  idOf,
  isAsked,
  type Op,
  type Outcome,
  type Result,
  type Store,
} from '../stores/store.ts'
import { type FakeClock, fakeClock } from './fake-clock.ts'

/** Makes an empty store that tells the time of this clock. */
export type MakeStore = (clock: FakeClock) => Store | Promise<Store>

export interface StoreTest {
  readonly name: string
  /** Throws, or rejects, if the store does not hold what the name promises. */
  run(): Promise<void>
}

/**
 * What every store must hold, as tests for any runner:
 *
 *     for (const { name, run } of storeSuite((clock) => myStore({ clock }))) test(name, run)
 *
 * The last one feeds random steps to the store and to `memory()`; it takes a seed, so that a failure can be repeated.
 */
export function storeSuite(make: MakeStore, { seed = Date.now() % 1_000_000, steps = 400 } = {}): StoreTest[] {
  const tests = Object.entries({ ...promises, ...ahead }).map(([name, check]) => ({
    name,
    run: () => withStore(make, check),
  }))
  return [...tests, { name: `decides random steps as memory does (seed ${seed})`, run: () => agree(make, seed, steps) }]
}

interface Bench {
  readonly clock: FakeClock
  run(...groups: Group[]): Promise<Result[]>
  /** One take of one key. */
  take(counter: Counter, key: string, cost?: number): Promise<Result>
  left(counter: Counter, key: string): Promise<number>
}

async function withStore(make: MakeStore, check: (bench: Bench) => Promise<void>): Promise<void> {
  const clock = fakeClock(Date.UTC(2026, 0, 1))
  const store = await make(clock)
  const run = async (...groups: Group[]) => store.run(groups)
  const one = async (group: Group) => (await run(group))[0] as Result
  try {
    await check({
      clock,
      run,
      take: (counter, key, cost = 1) => one({ ops: [op('take', counter, key, cost)], cost }),
      left: async (counter, key) => (await one({ ops: [op('peek', counter, key, 1)] })).outcomes[0]?.remaining ?? -1,
    })
  } finally {
    await store.close?.()
  }
}

let spaces = 0
/** A limit in a space of its own, so that the tests of a suite may share one server. */
function limit(text: string, space = `suite-${++spaces}`): Counter {
  return { space, policy: compileLimit(text) }
}

function op(verb: Op['verb'], counter: Counter, key: string, cost = 0, more: Partial<Op> = {}): Op {
  return { verb, counter, key, cost, ...more }
}

function same(actual: unknown, expected: unknown, what: string): void {
  const [seen, wanted] = [JSON.stringify(actual), JSON.stringify(expected)]
  if (seen !== wanted) throw new Error(`${what}: expected ${wanted}, got ${seen}`)
}

const promises: Record<string, (bench: Bench) => Promise<void>> = {
  async 'lets through what fits and tells the wait for the rest'({ take, clock }) {
    const ten = limit('10/min burst 2')
    same((await take(ten, 'a')).ok, true, 'first')
    same((await take(ten, 'a')).ok, true, 'second')
    const refused = await take(ten, 'a')
    same([refused.ok, refused.outcomes[0]?.waitUs], [false, 6_000_000], 'third')
    clock.advance(6000)
    same((await take(ten, 'a')).ok, true, 'after the wait')
  },

  async 'charges all limits of a group or none'({ run, left }) {
    const [wide, narrow] = [limit('10/min'), limit('1/min')]
    const both = { ops: [op('take', wide, 'a', 1), op('take', narrow, 'a', 1)], cost: 1 }
    const [first, second] = await run(both, both)
    same([first?.ok, second?.ok], [true, false], 'two requests')
    same(
      second?.outcomes.map(({ ok }) => ok),
      [true, false],
      'who refused',
    )
    same(await left(wide, 'a'), 9, 'charged once')
  },

  async 'keeps keys and limits apart'({ take, left }) {
    const [one, other] = [limit('5/min'), limit('5/min')]
    await take(one, 'a', 3)
    same([await left(one, 'a'), await left(one, 'b'), await left(other, 'a')], [2, 5, 5], 'left')
  },

  async 'leaves no trace of a refusal, a peek or a cost of 0'({ run, take, left }) {
    const five = limit('5/min')
    await take(five, 'a', 3)
    same((await take(five, 'a', 3)).ok, false, 'too much')
    await run({ ops: [op('peek', five, 'a', 1)] })
    same((await take(five, 'a', 0)).ok, true, 'nothing')
    same(await left(five, 'a'), 2, 'left')
  },

  async 'says that a cost above the limit never fits'({ take }) {
    same((await take(limit('5/min'), 'a', 6)).outcomes[0]?.waitUs === Infinity, true, 'wait')
    same((await take(limit('0/min'), 'a', 1)).outcomes[0]?.waitUs === Infinity, true, 'limit 0')
  },

  async 'lets two takes of one key in a group see each other'({ run, left }) {
    const one = limit('1/min')
    const [result] = await run({ ops: [op('take', one, 'a', 1), op('take', one, 'a', 1)] })
    same([result?.ok, await left(one, 'a')], [false, 1], 'twice the last unit')
    const known = limit('2/min')
    const again = { ops: [op('take', known, 'a', 1), op('take', known, 'a', 1)] }
    const [, second] = await run({ ops: [op('take', known, 'a', 1)] }, again)
    same([second?.ok, await left(known, 'a')], [false, 1], 'twice the last unit of a known key')
  },

  async 'lets a peek beside a take of one key see what is taken before it, and nothing else'({ run, left }) {
    const space = `suite-${++spaces}`
    const [seven, eight] = [7, 8].map((n): Counter => {
      return { space, policy: compileLimit(`${n}/h`, { algorithm: 'fixed-window' }) }
    }) as [Counter, Counter]
    const both = (units: number, look: Op) => [op('take', seven, look.key, units), look]
    const told = async (ops: readonly Op[]) => {
      const [result] = await run({ ops })
      return [result?.ok, ...(result?.outcomes ?? []).map(({ ok, waitUs }) => ok && waitUs === 0)]
    }
    same(await told(both(5, op('peek', eight, 'a', 1))), [true, true, true], 'behind a take')
    same(await told(both(2, op('peek', eight, 'a', 1)).reverse()), [true, true, true], 'before it')
    const watching = op('peek', seven, 'b', 3, { observe: true })
    same(await told(both(5, watching)), [true, true, false], 'that only watches, behind it')
    same(await told(both(2, { ...watching, cost: 2 }).reverse()), [true, true, true], 'that only watches, before it')
    const tooMuch = op('take', seven, 'd', 8, { observe: true })
    same(await told([tooMuch, op('peek', eight, 'd', 1)]), [true, false, true], 'behind one that was not charged')
    same(await told(both(5, op('peek', eight, 'c', 4))), [false, true, false], 'that refuses')
    same([await left(seven, 'a'), await left(seven, 'b'), await left(seven, 'c')], [0, 0, 7], 'left')
  },

  async 'takes up to as many as fit in all limits, at least one'({ run, left }) {
    const [ten, four] = [limit('10/min'), limit('4/min')]
    const group = { ops: [op('take', ten, 'a', 1), op('take', four, 'a', 1)], upTo: 7 }
    const [first, second] = await run(group, group)
    same([first?.cost, second?.ok, await left(ten, 'a')], [4, false, 6], 'cost, then nothing, left')
  },

  async 'settles up past the limit and down to what was used, and refunds'({ run, take, left }) {
    const ten = limit('10/min')
    const mark = (await take(ten, 'a', 4)).outcomes[0] as Outcome
    await run({ ops: [op('settle', ten, 'a', -3, { mark })] })
    same(await left(ten, 'a'), 9, 'settled down')
    const more = (await take(ten, 'a', 1)).outcomes[0] as Outcome
    await run({ ops: [op('settle', ten, 'a', 14, { mark: more })] })
    same((await take(ten, 'a', 1)).outcomes[0]?.waitUs, 42_000_000, 'wait of an overdrawn key')
  },

  async 'gives nothing back into a window that is over'({ run, take, left, clock }) {
    const window: Counter = {
      space: `suite-${++spaces}`,
      policy: compileLimit('10/min', { algorithm: 'fixed-window' }),
    }
    const mark = (await take(window, 'a', 4)).outcomes[0] as Outcome
    clock.advance(60_000)
    await take(window, 'a', 2)
    await run({ ops: [op('settle', window, 'a', -4, { mark })] })
    same(await left(window, 'a'), 8, 'left')
  },

  async 'holds slots until they are released or their time is over'({ run, take, clock }) {
    const slots: Counter = { space: `suite-${++spaces}`, policy: compileAtOnce(2, 10_000) }
    const first = await take(slots, 'a')
    await take(slots, 'a')
    same((await take(slots, 'a')).ok, false, 'both in use')
    const mark = first.outcomes[0] as Outcome
    await run({ ops: [op('release', slots, 'a', 1, { mark })] }, { ops: [op('release', slots, 'a', 1, { mark })] })
    same([(await take(slots, 'a')).ok, (await take(slots, 'a')).ok], [true, false], 'released once')
    clock.advance(10_000)
    same((await take(slots, 'a', 2)).ok, true, 'after the hold time')
  },

  async 'blocks a key for a time, lifts that, and resets'({ run, take, left }) {
    const ten = limit('10/min')
    await take(ten, 'a')
    await run({ ops: [op('block', ten, 'a', 5_000_000)] })
    const { waitUs, remaining, growUs, resetUs } = (await take(ten, 'a')).outcomes[0] as Outcome
    same(waitUs, 5_000_000, 'blocked')
    same([remaining, growUs, resetUs >= 5_000_000], [0, 5_000_000, true], 'left while blocked')
    same((await take(ten, 'b')).ok, true, 'another key')
    await run({ ops: [op('block', ten, 'a', 0)] })
    same((await take(ten, 'a')).ok, true, 'lifted')
    await run({ ops: [op('block', ten, 'a', 5_000_000)] }, { ops: [op('reset', ten, 'a')] })
    same(await left(ten, 'a'), 10, 'reset')
  },

  async 'answers a repeated id from the first result and charges it once'({ run, left, clock }) {
    const one = limit('1/min')
    const group = { ops: [op('take', one, 'a', 1)], cost: 1, id: `id-${++spaces}`, idUs: 60_000_000 }
    same(
      (await run(group, group)).map(({ ok }) => ok),
      [true, true],
      'repeat',
    )
    same((await run({ ...group, id: `id-${++spaces}` }))[0]?.ok, false, 'another id')
    clock.advance(60_000)
    same([(await run(group))[0]?.ok, await left(one, 'a')], [true, 0], 'after its time it is charged anew')
  },

  async 'corrects a booking once by its id, also if it was made without one'({ run, left, clock }) {
    const ten = limit('10/min')
    const known = { ops: [op('take', ten, 'a', 4)], cost: 4, id: `id-${++spaces}`, idUs: 60_000_000 }
    const [first] = await run(known, { ops: [op('take', ten, 'a', 3)], cost: 3 })
    const mark = first?.outcomes[0] as Outcome
    for (const id of [known.id, `id-${++spaces}`]) {
      const back = { ops: [op('settle', ten, 'a', -1, { mark })], id, idUs: 30_000_000, forget: false, cost: 1 }
      same(
        (await run(back, back, { ...back, forget: true })).map(({ cost }) => cost),
        [1, 0, 0],
        'once',
      )
    }
    same(await left(ten, 'a'), 5, 'given back')
    const late = { ops: [op('settle', ten, 'b', 2)], id: `id-${++spaces}`, idUs: 30_000_000, forget: false, cost: 1 }
    same([(await run(late))[0]?.cost, (await run({ ...known, id: late.id }))[0]?.cost], [1, 4], 'a take is a new one')
    clock.advance(60_000)
    same((await run(late))[0]?.cost, 1, 'after its time')
  },

  async 'judges an observed limit but never refuses by it'({ run, left }) {
    const [wide, seen] = [limit('10/min'), limit('1/min')]
    const group = { ops: [op('take', wide, 'a', 1), op('take', seen, 'a', 1, { observe: true })], cost: 1 }
    const [, second] = await run(group, group)
    same([second?.ok, second?.outcomes[1]?.ok, await left(wide, 'a')], [true, false, 8], 'second')
  },

  async 'keeps what was used when the limit of a key changes'({ take, left }) {
    const space = `suite-${++spaces}`
    const [slow, fast, window] = [limit('10/min', space), limit('30/min', space), limit('20/h strict', space)]
    await take(slow, 'a', 6)
    same([await left(fast, 'a'), await left(window, 'a')], [24, 14], 'seen through other limits')
    await take(fast, 'a', 1)
    same(await left(slow, 'a'), 3, 'and back')
  },
}

/** Whoever may wait is booked ahead: each at its own instant, all limits as one, and nobody before them. */
const ahead: typeof promises = {
  async 'books a departure ahead, in one step, and refuses what would wait longer'({ run, take, clock }) {
    const shaper = leaky('10/s burst 1')
    const within = (withinUs: number) => ({ ops: [op('take', shaper, 'a', 1, { withinUs })], cost: 1 })
    const results = await run(within(0), within(500_000), within(500_000), within(199_999), within(300_000))
    same(
      results.map(({ ok, waitUs }) => [ok, waitUs ?? 0]),
      [
        [true, 0],
        [true, 100_000],
        [true, 200_000],
        [false, 0],
        [true, 300_000],
      ],
      'departures',
    )
    same((await take(shaper, 'a')).outcomes[0]?.waitUs, 400_000, 'a take does not overtake')
    clock.advance(399.999)
    same((await take(shaper, 'a')).ok, false, 'nor later on')
    clock.advance(0.001)
    same((await take(shaper, 'a')).ok, true, 'behind the last')
  },

  async 'takes back a departure booked ahead if it is the last, and else keeps its place'({ run, take }) {
    const shaper = leaky('10/s burst 1')
    const book = { ops: [op('take', shaper, 'a', 1, { withinUs: 1_000_000 })], cost: 1 }
    const [, first, last] = await run(book, book, book)
    const back = (result: Result | undefined) => ({
      ops: [op('settle', shaper, 'a', -1, { mark: result?.outcomes[0] as Outcome })],
    })
    await run(back(first))
    same((await take(shaper, 'a')).outcomes[0]?.waitUs, 300_000, 'from the middle')
    await run(back(last))
    same((await take(shaper, 'a')).outcomes[0]?.waitUs, 200_000, 'the last')
  },

  async 'books all limits of a group ahead or none, and none that would count otherwise then'({ run, left, clock }) {
    const [shaper, day, second] = [leaky('1/s burst 1'), limit('9/day calendar'), limit('9/s')]
    const group = (other: Counter) => ({
      ops: [op('take', shaper, 'a', 1, { withinUs: 5_000_000 }), op('take', other, 'a', 1)],
      cost: 1,
    })
    const [, quota, bucket] = await run(group(day), group(day), group(second))
    same([quota?.ok, quota?.waitUs, await left(day, 'a')], [true, 1_000_000, 7], 'in the same window')
    same([bucket?.ok, bucket?.outcomes[0]?.waitUs, await left(second, 'a')], [false, 2_000_000, 9], 'idle until then')
    clock.set(Date.UTC(2026, 0, 1, 23, 59, 59))
    const [now, later] = await run(group(day), group(day))
    same([now?.ok, later?.ok], [true, false], 'not across the end of a window')
  },

  async 'books nobody ahead who is blocked'({ run }) {
    const shaper = leaky('10/s burst 1')
    const book = { ops: [op('take', shaper, 'a', 1, { withinUs: 9_000_000 })], cost: 1 }
    const [, , blocked] = await run(book, { ops: [op('block', shaper, 'a', 5_000_000)] }, book)
    same([blocked?.ok, blocked?.outcomes[0]?.waitUs], [false, 5_000_000], 'blocked')
    const other = { ops: [op('take', shaper, 'b', 1, { withinUs: 9_000_000 })], cost: 1 }
    const results = await run(other, other, other, { ops: [op('block', shaper, 'b', 50_000)] }, other)
    same([results[2]?.ok, results[4]?.ok], [true, false], 'also if its turn came later than that')
  },
}
function leaky(text: string): Counter {
  return { space: `suite-${++spaces}`, policy: compileLimit(text, { algorithm: 'leaky-bucket' }) }
}

/** The same random steps for the store and for memory, at the same instants: every number must be the same. */
async function agree(make: MakeStore, seed: number, steps: number): Promise<void> {
  const clock = fakeClock(Date.UTC(2026, 0, 1))
  const [store, reference] = [await make(clock), memory({ clock })]
  const random = randomFrom(seed)
  const counters = limits.flatMap((policies) => {
    const space = `suite-${++spaces}`
    return policies.map((policy) => ({ space, policy }))
  })
  const marks: Marks = new Map()
  try {
    for (let step = 0; step < steps; step++) {
      clock.advance(random(3) === 0 ? random(40_000) : random(200) / 1000)
      const groups = Array.from({ length: random(3) === 0 ? 1 + random(6) : 1 }, () => randomGroup(counters, random))
      const pick = random(4)
      const nowUs = Math.round(clock.now() * 1000)
      // Each store gets its own marks back.
      const marked = (which: 'seen' | 'wanted') => groups.map((group) => withMarks(group, marks, which, pick))
      const [seen, wanted] = [await store.run(marked('seen'), nowUs), reference.run(marked('wanted'), nowUs)]
      same(seen.map(plain), wanted.map(plain), `step ${step} of seed ${seed}, ${groups.map(describe).join('; ')}`)
      for (const [n, { ops, upTo }] of groups.entries()) {
        for (const [i, { verb, counter, key, cost }] of ops.entries()) {
          const [one, two] = [seen[n]?.outcomes[i], wanted[n]?.outcomes[i]]
          if (verb !== 'take' || !wanted[n]?.ok || !one?.ok || !two) continue
          const made = { seen: one, wanted: two, cost: upTo === undefined ? cost : wanted[n].cost }
          const name = idOf({ counter, key })
          marks.set(name, [made, ...(marks.get(name) ?? [])].slice(0, 4))
        }
      }
    }
  } finally {
    await store.close?.()
  }
}

/** The latest bookings of a key, as both stores name them. */
type Marks = Map<string, { readonly seen: Booking; readonly wanted: Booking; readonly cost: number }[]>

function withMarks(group: Group, marks: Marks, which: 'seen' | 'wanted', pick: number): Group {
  const ops = group.ops.map((each) => {
    const made = marks.get(idOf(each)) ?? []
    const { [which]: mark, cost = 1 } = made[pick % made.length] ?? {}
    if (isAsked(each)) return each
    const isSlot = each.verb === 'settle' && each.counter.policy.algorithm === 'at-once'
    return { ...each, ...(isSlot && { verb: 'release' as const, cost }), mark }
  })
  return { ...group, ops }
}

function describe({ ops }: Group): string {
  return ops.map(({ verb, cost, key, counter }) => `${verb} ${cost} of ${key} by ${counter.policy.shape}`).join(', ')
}

/** Several for one key: it meets now this one, now that one. */
const limits: readonly (readonly Policy[])[] = [
  [compileLimit('10/s')],
  [compileLimit('7/min burst 3'), compileLimit('11/min')],
  [compileLimit('70000/s')],
  [compileLimit('3000000/s'), compileLimit('5/s strict')],
  [compileLimit('100/day calendar'), compileLimit('30/week calendar Europe/Berlin')],
  [compileLimit('11/h burst 40'), compileLimit('20/min', { algorithm: 'sliding-log' })],
  [compileLimit('20/10s', { algorithm: 'sliding-log' })],
  [compileLimit('9/s', { algorithm: 'sliding-window' }), compileLimit('9/s', { algorithm: 'fixed-window' })],
  [compileLimit('9/min', { algorithm: 'sliding-window', align: 'staggered' })],
  [
    compileLimit('9/min', { algorithm: 'fixed-window', align: 'staggered' }),
    compileLimit('4/s', { align: 'first-hit' }),
  ],
  [compileLimit('0/s'), compileLimit('unlimited')],
  [compileLimit('7/h', { algorithm: 'fixed-window' }), compileLimit('9/h', { algorithm: 'fixed-window' })],
  [compileLimit('3/s burst 2', { algorithm: 'leaky-bucket' })],
  [compileLimit('2/s burst 1', { algorithm: 'leaky-bucket' }), compileLimit('2/s burst 4')],
  [compileAtOnce(7, 5_000)],
]

function randomGroup(counters: readonly Counter[], random: (below: number) => number): Group {
  const verbs: Op['verb'][] = ['take', 'take', 'take', 'take', 'peek', 'settle', 'settle', 'reset', 'block']
  const verb = verbs[random(random(4) === 0 ? verbs.length : 5)] as Op['verb']
  const asked = verb === 'take' || verb === 'peek'
  const looks = verb === 'take' && random(3) === 0
  const one = counters[random(counters.length)] as Counter
  const ops = Array.from({ length: asked ? 1 + random(3) : 1 }, () => {
    // Some look at what others of the same group take.
    const counter = looks && random(2) === 0 ? one : (counters[random(counters.length)] as Counter)
    const own = looks && random(2) === 0 ? 'peek' : verb
    const key = `k${random(3)}`
    const cost = verb === 'settle' ? random(9) - 5 : verb === 'block' ? random(3) * 1_000_000 : random(5)
    const withinUs = counter.policy.algorithm === 'leaky-bucket' && own === 'take' ? random(4_000_000) : undefined
    return op(own, counter, key, cost, { ...(random(8) === 0 && { observe: true }), withinUs })
  }).filter((each, i, all) => {
    // A request meets a key's limits of one shape, and watches none twice.
    return all
      .slice(0, i)
      .every(
        ({ counter: { space, policy }, observe }) =>
          space !== each.counter.space || (policy.shape === each.counter.policy.shape && !observe && !each.observe),
      )
  })
  return { ops, cost: 1, ...(verb === 'take' && !looks && random(5) === 0 ? { upTo: 1 + random(10) } : {}) }
}

/** Infinity does not survive JSON; marks are the store's own affair. */
function plain(result: Result | undefined): unknown {
  return [
    result?.ok,
    result?.cost,
    result?.waitUs ?? 0,
    result?.outcomes.map((each) => [each.ok, each.remaining, String(each.waitUs), each.resetUs, String(each.growUs)]),
  ]
}

/** A small seeded generator: whole numbers below `below`. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed >>> 0 || 1
  return (below) => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % below
  }
}
