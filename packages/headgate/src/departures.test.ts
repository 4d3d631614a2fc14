import { describe, expect, test } from 'vitest'
import { randomBelow, seed } from '../test/random.ts'
import { createGate, memory, type Store } from './index.ts'
import { type FakeClock, fakeClock } from './testing/index.ts'

/** Lets promise callbacks run; no time passes. */
async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve()
}

/** Moves on in small steps, so that whoever departs is seen at its own instant. */
async function pass(clock: FakeClock, ms: number, stepMs = 1): Promise<void> {
  for (let passed = 0; passed < ms; passed += stepMs) {
    clock.advance(stepMs)
    await settle()
  }
}

/** A store that answers in a microtask, as one across a network does sooner or later. */
function slow(clock: FakeClock): Store & { asked: number } {
  const inner = memory({ clock })
  const store = {
    asked: 0,
    async run(groups: Parameters<Store['run']>[0], nowUs?: number) {
      store.asked += groups.length
      return inner.run(groups, nowUs)
    },
  }
  return store
}

type Kind = 'memory' | 'a store that takes time'

function setUp(kind: Kind, limit = '10/s burst 1') {
  const clock = fakeClock(1_000_000)
  const store = kind === 'memory' ? memory({ clock }) : slow(clock)
  const gate = createGate({ limit, algorithm: 'leaky-bucket', clock, store })
  const left: [name: string, ms: number][] = []
  const wait = (name: string, options = {}) =>
    gate.wait('k', options).then(
      (decision) => left.push([decision.ok ? name : `no ${name}`, clock.now() - 1_000_000]),
      (reason) => left.push([`${name} ${reason}`, clock.now() - 1_000_000]),
    )
  return { clock, gate, store, left, wait }
}

const kinds: Kind[] = ['memory', 'a store that takes time']
describe.each(kinds)('a leaky bucket in %s', (kind) => {
  test('lets those who wait depart evenly spaced, in order of arrival', async () => {
    const { clock, left, wait } = setUp(kind)
    for (let i = 0; i < 20; i++) wait(`${i}`)
    await settle()
    await pass(clock, 2000)
    expect(left).toEqual(Array.from({ length: 20 }, (_, i) => [`${i}`, i * 100]))
  })

  test('with a burst lets that many go at once and the rest at the rate', async () => {
    const { clock, left, wait } = setUp(kind, '10/s burst 3')
    for (let i = 0; i < 6; i++) wait(`${i}`)
    await settle()
    await pass(clock, 400)
    expect(left.map(([, ms]) => ms)).toEqual([0, 0, 0, 100, 200, 300])
  })

  test('asks the store once for each who waits', async () => {
    const { clock, left, wait, store } = setUp(kind)
    for (let i = 0; i < 10; i++) wait(`${i}`)
    await pass(clock, 1000, 100)
    expect(left).toHaveLength(10)
    if ('asked' in store) expect(store.asked).toBe(10)
  })

  test('lets no take overtake, and tells it a true wait', async () => {
    const { clock, gate, wait } = setUp(kind)
    for (const name of ['a', 'b', 'c']) wait(name)
    await settle()
    expect(await gate.take('k')).toMatchObject({ ok: false, retryAfterMs: 300 })
    expect(await gate.peek('k')).toMatchObject({ ok: false, retryAfterMs: 300, remaining: 0 })
    clock.advance(299)
    expect((await gate.take('k')).ok).toBe(false)
    clock.advance(1)
    expect((await gate.take('k')).ok).toBe(true)
  })

  test('refuses at once a wait longer than maxMs and books nothing for it', async () => {
    const { clock, gate, wait } = setUp(kind)
    wait('a')
    wait('b')
    expect(await gate.wait('k', { maxMs: 199 })).toMatchObject({ ok: false, retryAfterMs: 200 })
    expect((await gate.peek('k')).retryAfterMs).toBe(200)
    const third = gate.wait('k', { maxMs: 200 })
    await settle()
    clock.advance(200)
    expect((await third).ok).toBe(true)
  })

  test('refuses for ever what can never depart', async () => {
    const { gate } = setUp(kind)
    expect(await gate.wait('k', { cost: 2 })).toMatchObject({ ok: false, retryAfterMs: Infinity })
    const none = setUp(kind, '0/s')
    expect(await none.gate.wait('k')).toMatchObject({ ok: false, retryAfterMs: Infinity })
    const all = setUp(kind, 'unlimited')
    expect((await all.gate.wait('k')).ok).toBe(true)
  })

  test('tells who departs its limits as they are then', async () => {
    const { clock, gate, wait } = setUp(kind)
    wait('a')
    const second = gate.wait('k')
    await settle()
    clock.advance(100)
    const decision = await second
    expect(decision).toMatchObject({ ok: true, remaining: 0, retryAfterMs: 0, resetAfterMs: 100, violated: [] })
    expect(decision.headers()['X-RateLimit-Reset']).toBe(String(Math.ceil((clock.now() + 100) / 1000)))
  })

  test('the last who gives up leaves no trace', async () => {
    const { gate, left, wait } = setUp(kind)
    const controller = new AbortController()
    wait('a')
    wait('b')
    await settle()
    const before = await gate.peek('k')
    wait('c', { signal: controller.signal })
    await settle()
    expect((await gate.peek('k')).retryAfterMs).toBe(300)
    controller.abort('gone')
    await settle()
    expect(left.at(-1)).toEqual(['c gone', 0])
    expect((await gate.peek('k')).toJSON()).toEqual(before.toJSON())
  })

  test('who gives up hands its departure to the next, who hands on its own', async () => {
    const { clock, gate, left, wait } = setUp(kind)
    const controller = new AbortController()
    wait('a')
    wait('b', { signal: controller.signal })
    wait('c')
    wait('d')
    await settle()
    controller.abort('gone')
    await settle()
    expect((await gate.peek('k')).retryAfterMs).toBe(300)
    await pass(clock, 300)
    expect(left.slice(1)).toEqual([
      ['b gone', 0],
      ['c', 100],
      ['d', 200],
    ])
    expect((await gate.peek('k')).ok).toBe(true)
  })

  test('who gives up while the store is asked hands on what it gets', async () => {
    const { clock, gate, left, wait } = setUp(kind)
    const controller = new AbortController()
    await gate.take('k')
    wait('a', { signal: controller.signal })
    wait('b')
    controller.abort('gone')
    await settle()
    await pass(clock, 100)
    expect(left).toEqual([
      ['a gone', 0],
      ['b', 100],
    ])
  })

  test('a decision that departed can be refunded while nobody is behind it, and never moves a departure', async () => {
    const { clock, gate, left, wait } = setUp(kind)
    const first = await gate.wait('k')
    wait('b')
    await settle()
    await first.refund()
    expect((await gate.peek('k')).retryAfterMs).toBe(200)
    await pass(clock, 100)
    expect(left).toEqual([['b', 100]])
    const last = gate.wait('k')
    await settle()
    clock.advance(100)
    await (await last).refund()
    expect((await gate.peek('k')).ok).toBe(true)
  })

  test('a block holds back who has a departure, and refuses who cannot wait for its end', async () => {
    const { clock, gate, left, wait } = setUp(kind)
    wait('a')
    wait('b', { maxMs: 500 })
    wait('c', { maxMs: 2000 })
    await settle()
    await gate.block('k', 1000)
    await settle()
    expect(left.slice(1)).toEqual([['no b', 0]])
    await pass(clock, 1000)
    expect(left.at(-1)).toEqual(['c', 1000])
  })

  test('a reset lets those who wait start over', async () => {
    const { clock, gate, left, wait } = setUp(kind)
    for (const name of ['a', 'b', 'c']) wait(name)
    await settle()
    clock.advance(50)
    await gate.reset('k')
    await settle()
    await pass(clock, 100)
    expect(left).toEqual([
      ['a', 0],
      ['b', 50],
      ['c', 150],
    ])
  })

  test('an override holds for those who wait already', async () => {
    const { clock, gate, left, wait } = setUp(kind)
    for (const name of ['a', 'b', 'c']) wait(name)
    await settle()
    gate.override('k', { limit: 100, per: '1s', burst: 1, algorithm: 'leaky-bucket' }, 60_000)
    await settle()
    await pass(clock, 20)
    expect(left.map(([name]) => name)).toEqual(['a', 'b', 'c'])
  })

  test('one that only watches holds nobody back', async () => {
    const clock = fakeClock()
    const store = kind === 'memory' ? memory({ clock }) : slow(clock)
    const gate = createGate({ limit: '1/min burst 1', algorithm: 'leaky-bucket', mode: 'observe', clock, store })
    for (let i = 0; i < 3; i++) expect((await gate.wait('k')).ok).toBe(true)
  })

  test('a quota beside it is charged with the departure, all or none', async () => {
    const clock = fakeClock(Date.UTC(2026, 0, 1))
    const limits = {
      pace: { limit: '10/s burst 1', algorithm: 'leaky-bucket' },
      day: { limit: '2/day calendar' },
    } as const
    const gate = createGate({ clock, limits, store: kind === 'memory' ? memory({ clock }) : slow(clock) })
    await gate.wait({})
    const second = gate.wait({})
    await settle()
    expect((await gate.peekKey('day')).remaining).toBe(0)
    expect(await gate.wait({}, { maxMs: 1000 })).toMatchObject({ ok: false, violated: ['pace', 'day'] })
    clock.advance(100)
    expect((await second).ok).toBe(true)
    expect((await gate.peekKey('pace')).retryAfterMs).toBe(100)
  })

  test('a bucket beside it is charged at the departure, not before', async () => {
    const clock = fakeClock(Date.UTC(2026, 0, 1))
    const limits = {
      pace: { limit: '1/s burst 1', algorithm: 'leaky-bucket', by: (user: string) => user },
      all: { limit: '20/s' },
    } as const
    const gate = createGate({ clock, limits, store: kind === 'memory' ? memory({ clock }) : slow(clock) })
    // Ten callers who all depart at the same instant: were the bucket charged when they came, it would be full again by then.
    const users = Array.from({ length: 10 }, (_, i) => `user ${i}`)
    for (const user of users) await gate.take(user)
    const waiting = users.map((user) => gate.wait(user))
    await settle()
    expect((await gate.peekKey('all')).remaining).toBe(10)
    clock.advance(999)
    await settle()
    expect((await gate.peekKey('all')).remaining).toBe(20)
    clock.advance(1)
    await settle()
    expect((await gate.peekKey('all')).remaining).toBe(10)
    expect((await Promise.all(waiting)).every(({ ok }) => ok)).toBe(true)
  })

  test('keys do not hold up each other', async () => {
    const { gate, wait } = setUp(kind)
    for (let i = 0; i < 5; i++) wait(`${i}`)
    await settle()
    expect((await gate.wait('other')).ok).toBe(true)
  })

  test('is full at ten thousand who wait for the same', async () => {
    const { gate, wait } = setUp(kind, '1000000/s burst 1')
    await gate.take('k')
    for (let i = 0; i < 10_000; i++) wait(`${i}`, { maxMs: 60_000 })
    await settle()
    expect(await gate.wait('k')).toMatchObject({ ok: false, retryAfterMs: 11 })
  })

  test(`whatever happens, departs in order and never faster than its rate (HEADGATE_SEED=${seed})`, async () => {
    const random = randomBelow(seed)
    for (let round = 0; round < 20; round++) await storm(kind, random)
  })
})

describe('while the store fails, a wait for a leaky bucket', () => {
  const broken: Store = { run: () => Promise.reject(new Error('no connection')) }
  const options = { limit: '10/s burst 1', algorithm: 'leaky-bucket', store: broken } as const

  test('goes at once where that is allowed, and is refused where it is denied', async () => {
    const allow = createGate({ ...options, clock: fakeClock(), onStoreError: 'allow' })
    for (let i = 0; i < 3; i++) expect(await allow.wait('k')).toMatchObject({ ok: true, degraded: 'allow' })
    const deny = createGate({ ...options, clock: fakeClock(), onStoreError: 'deny' })
    expect(await deny.wait('k', { maxMs: 50 })).toMatchObject({ ok: false, degraded: 'deny' })
  })

  test('is booked ahead in this process where it counts for itself', async () => {
    const clock = fakeClock()
    const gate = createGate({ ...options, store: { ...broken }, clock, onStoreError: 'local' })
    const left: number[] = []
    for (let i = 0; i < 4; i++)
      void gate.wait('k').then(({ ok, degraded }) => void (ok && degraded === 'local' && left.push(clock.now())))
    await settle()
    const controller = new AbortController()
    const last = gate.wait('k', { signal: controller.signal })
    await settle()
    controller.abort('gone')
    await expect(last).rejects.toBe('gone')
    await pass(clock, 300)
    expect(left).toEqual([0, 100, 200, 300])
    expect((await gate.peek('k')).retryAfterMs).toBe(100)
  })
})

test('departures that are booked ahead outlive a flood of other keys', () => {
  const clock = fakeClock(1_000_000)
  const store = memory({ clock, maxBytes: 65_536 })
  const gate = createGate({ limit: '10/s burst 1', algorithm: 'leaky-bucket', clock, store })
  for (let i = 0; i < 50; i++) void gate.wait('k', { maxMs: 60_000 })
  for (let i = 0; i < 50_000; i++) gate.take(`other ${i}`)
  expect(gate.take('k').retryAfterMs).toBe(5000)
})

/** Arrivals of any cost, some of whom give up. */
async function storm(kind: Kind, random: (below: number) => number): Promise<void> {
  const [count, burst] = [1 + random(50), 1 + random(4)]
  const clock = fakeClock(1_000_000)
  const store = kind === 'memory' ? memory({ clock }) : slow(clock)
  const departed: { cost: number; us: number }[] = []
  const arrivals: { cost: number; arrival: number }[] = []
  // Told at the very instant of the departure.
  const onDecision = ({ ok, cost }: { ok: boolean; cost: number }) => {
    if (ok) departed.push({ cost, us: Math.round(clock.now() * 1000) })
  }
  const limit = { limit: count, per: '1s', burst }
  const gate = createGate({ limit, algorithm: 'leaky-bucket', clock, store, onDecision })
  const open: { controller: AbortController; done: boolean }[] = []
  const all: Promise<unknown>[] = []
  const arrive = (arrival: number) => {
    const [cost, each] = [1 + random(burst), { controller: new AbortController(), done: false }]
    open.push(each)
    const { signal } = each.controller
    const wait = gate.wait('k', { cost, maxMs: random(4) === 0 ? random(2000) : 60_000, signal }).then(
      ({ ok }) => {
        if (ok) arrivals.push({ cost, arrival })
      },
      () => {},
    )
    all.push(
      wait.then(() => {
        each.done = true
      }),
    )
  }
  let bookedMs = 0
  for (let step = 0; step < 60; step++) {
    arrive(step)
    if (random(3) === 0) open[random(open.length)]?.controller.abort('gone')
    // No time passes on the way to the store and back: who departs at once would be told late.
    await settle()
    bookedMs = Math.max(bookedMs, clock.now() + (await gate.peek('k', { cost: burst })).retryAfterMs)
    if (random(3) === 0) await pass(clock, random(60), 1)
  }
  while (open.some(({ done }) => !done)) await pass(clock, 10, 1)
  await Promise.all(all)
  expectEnvelope(departed, count, burst)
  expect(arrivals).toHaveLength(departed.length)
  expectOrder(arrivals)
  // Nobody is left, and nothing stays booked beyond the last departure; or, where costs differ, beyond what was booked once.
  clock.advance((burst * 1000) / count + 1)
  if (burst > 1) clock.advance(Math.max(0, bookedMs - clock.now()))
  expect((await gate.peek('k', { cost: burst })).ok).toBe(true)
}

/** In any stretch of time no more than the burst and what the rate lets through. */
function expectEnvelope(departed: readonly { cost: number; us: number }[], count: number, burst: number): void {
  for (let from = 0; from < departed.length; from++) {
    let units = 0
    for (let to = from; to < departed.length; to++) {
      units += (departed[to] as { cost: number }).cost
      const us = (departed[to] as { us: number }).us - (departed[from] as { us: number }).us
      expect(units).toBeLessThanOrEqual(burst + (count * (us + 1)) / 1_000_000 + 1e-9)
    }
  }
}

/** Those who cost the same go in the order in which they came. */
function expectOrder(departed: readonly { cost: number; arrival: number }[]): void {
  for (const cost of new Set(departed.map((each) => each.cost))) {
    const arrivals = departed.filter((each) => each.cost === cost).map(({ arrival }) => arrival)
    expect(arrivals).toEqual([...arrivals].sort((a, b) => a - b))
  }
}

test('nobody leaves before the turn comes, though timers go off early', async () => {
  const fake = fakeClock(1_000_000)
  const clock = { now: fake.now, after: (ms: number, call: () => void) => fake.after(Math.max(0.25, ms - 0.9), call) }
  const gate = createGate({ limit: '100/s burst 1', algorithm: 'leaky-bucket', clock, store: memory({ clock }) })
  const left: number[] = []
  for (let i = 0; i < 5; i++) void gate.wait('k').then(() => left.push(fake.now() - 1_000_000))
  await pass(fake, 50, 0.25)
  expect(left.map(Math.floor)).toEqual([0, 10, 20, 30, 40])
})

test('on real timers nobody leaves before the turn comes, and who gives up in the last moment leaves no trace', async () => {
  const gate = createGate({ limit: '100/s burst 1', algorithm: 'leaky-bucket' })
  const startMs = performance.now()
  const leaver = new AbortController()
  const left: number[] = []
  let given = 0
  const waits = Array.from({ length: 5 }, (_, i) =>
    gate.wait('k', i === 2 ? { signal: leaver.signal } : {}).then(
      () => left.push(performance.now() - startMs),
      () => given++,
    ),
  )
  await waits[1]
  leaver.abort()
  await Promise.all(waits)
  // On a machine that stood still its turn may have come by then.
  expect(left).toHaveLength(5 - given)
  left.forEach((ms, i) => {
    expect(ms).toBeGreaterThanOrEqual(i * 10 - 0.5)
  })
})
