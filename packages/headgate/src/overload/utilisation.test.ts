import { describe, expect, test, vi } from 'vitest'
import { randomBy } from '../../test/random.ts'
import { HeadgateError } from '../errors.ts'
import { fakeClock } from '../testing/fake-clock.ts'
import { type Priority, priorities, type UtilisationOptions } from './types.ts'
import { createUtilisation } from './utilisation.ts'

type Mix = Readonly<Record<Priority, number>>

const alike: Mix = { critical: 0.25, high: 0.25, normal: 0.25, low: 0.25 }
const STEP_MS = 10
/** Pieces of work that this process can do in one step; and in how many steps it can do what may stand in its queue. */
const CAPACITY = 10
const QUEUE_STEPS = 30

interface Load {
  /** Work that comes, as a multiple of what can be done. */
  readonly times: number
  readonly mix: Mix
  readonly noise?: number
}

/** A process with a short queue, whose utilisation answers to what is shed; all on a virtual clock. */
function processUnder(options: UtilisationOptions = {}) {
  const clock = fakeClock(1_000_000)
  const random = randomBy(20_261_116)
  let [backlog, done, steps] = [0, 0, 0]
  const measure = () => {
    const share = steps === 0 ? 0 : done / (steps * CAPACITY)
    ;[done, steps] = [0, 0]
    return share
  }
  const utilisation = createUtilisation({ measure, good: 0.7, bad: 0.8, ...options }, clock)
  const owed = new Map<Priority, number>()
  const shed = new Map<Priority, number>()
  const came = new Map<Priority, number>()
  const add = (counts: Map<Priority, number>, priority: Priority, n: number) =>
    counts.set(priority, (counts.get(priority) ?? 0) + n)

  function one(priority: Priority): void {
    add(came, priority, 1)
    // Callers fall into lanes by a hash that differs from process to process, and this is to be the same each time.
    if (utilisation.sheds(priority, undefined)) add(shed, priority, 1)
    else backlog = Math.min(backlog + 1, QUEUE_STEPS * CAPACITY) // what finds the queue full is turned away
  }

  let all = 0
  function step({ times, mix, noise = 0 }: Load): void {
    const offered = times * CAPACITY * (1 + noise * (2 * random() - 1))
    for (const priority of priorities) {
      add(owed, priority, offered * mix[priority])
      for (; (owed.get(priority) as number) >= 1; add(owed, priority, -1)) one(priority)
    }
    const now = Math.min(backlog, CAPACITY)
    backlog -= now
    done += now
    all += now
    steps++
    clock.advance(STEP_MS)
  }

  const shedAll = () => priorities.reduce((sum, priority) => sum + utilisation.shedding(priority), 0)
  return {
    clock,
    utilisation,
    shedAll,
    /** How long it runs, looked at ten times a second. */
    run(seconds: number, load: Load, look: () => void = () => {}) {
      for (let i = 0; i < seconds * 100; i++) {
        step(load)
        if (i % 10 === 9) look()
      }
    },
    /** Which share of what it can do it has done in so many seconds. */
    goodput(seconds: number, load: Load): number {
      const before = all
      for (let i = 0; i < seconds * 100; i++) step(load)
      return (all - before) / (seconds * 100 * CAPACITY)
    },
    shareShed: (priority: Priority) => (shed.get(priority) ?? 0) / (came.get(priority) ?? 1),
  }
}

/** How often a course turns round, small steps included. */
function reversals(course: readonly number[]): number {
  let [turns, direction] = [0, 0]
  for (let i = 1; i < course.length; i++) {
    const next = Math.sign((course[i] as number) - (course[i - 1] as number))
    if (next !== 0 && direction !== 0 && next !== direction) turns++
    if (next !== 0) direction = next
  }
  return turns
}

const mixes: Readonly<Record<string, Mix>> = {
  'all alike': alike,
  'mostly low': { critical: 0.05, high: 0.05, normal: 0.1, low: 0.8 },
  'all normal': { critical: 0, high: 0, normal: 1, low: 0 },
  'little that can be shed': { critical: 0.1, high: 0.75, normal: 0.1, low: 0.05 },
}
const loads = [1.2, 2, 3, 10, 30].flatMap((times) => Object.keys(mixes).map((name) => [times, name] as const))

describe.each(loads)('with %f times too much work, %s', (times, name) => {
  const load: Load = { times, mix: mixes[name] as Mix, noise: 0.1 }

  test('comes to rest between good and bad within half a minute, and stays there without swinging', () => {
    const { run, utilisation, shedAll } = processUnder()
    const course: number[] = []
    run(30, load, () => course.push(shedAll()))
    expect(reversals(course.map((share) => Math.round(share * 50)))).toBeLessThanOrEqual(4)
    const values: number[] = []
    const shares: number[] = []
    run(60, load, () => {
      values.push(utilisation.value)
      shares.push(shedAll())
    })
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length
    expect(mean).toBeGreaterThan(0.68)
    expect(mean).toBeLessThan(0.82)
    expect(Math.max(...values)).toBeLessThan(0.92)
    expect(Math.min(...values)).toBeGreaterThan(0.6)
    expect(Math.max(...shares) - Math.min(...shares)).toBeLessThan(0.15)
  })

  test('sheds nothing any more at most 30 s after it is over', () => {
    const { run, shedAll, utilisation } = processUnder()
    run(30, load)
    expect(shedAll()).toBeGreaterThan(0)
    run(30, { ...load, times: 0.65 })
    expect(priorities.map((priority) => utilisation.shedding(priority))).toEqual([0, 0, 0, 0])
  })
})

test('with its defaults it does nearly nine tenths of what it can, however much comes', () => {
  for (const times of [1.2, 3, 10]) {
    const { run, goodput } = processUnder({ good: undefined, bad: undefined } as unknown as UtilisationOptions)
    run(30, { times, mix: alike, noise: 0.1 })
    expect(goodput(60, { times, mix: alike, noise: 0.1 })).toBeGreaterThan(0.85)
  }
})

test('leaves critical work alone at three times too much, when it is less than half of what can be done', () => {
  const { run, shareShed } = processUnder()
  run(120, { times: 3, mix: { critical: 0.16, high: 0.24, normal: 0.3, low: 0.3 }, noise: 0.2 })
  expect(shareShed('critical')).toBe(0)
  expect(shareShed('low')).toBeGreaterThan(0.9)
})

test('sheds low before normal, normal before high, and high before critical', () => {
  const { run, utilisation } = processUnder()
  run(60, { times: 20, mix: alike }, () => {
    const [critical, high, normal, low] = priorities.map((priority) => utilisation.shedding(priority))
    if ((normal as number) > 0) expect(low).toBe(1)
    if ((high as number) > 0) expect(normal).toBe(1)
    if ((critical as number) > 0) expect(high).toBe(1)
  })
  // Only critical work comes now, and is five times too much: part of it goes.
  expect(utilisation.shedding('critical')).toBeGreaterThan(0.5)
})

test('never sheds all critical work, however bad it is and for however long', () => {
  const { run, utilisation } = processUnder({ measure: () => 1 })
  run(120, { times: 1, mix: alike })
  expect(priorities.slice(1).map((priority) => utilisation.shedding(priority))).toEqual([1, 1, 1])
  expect(utilisation.shedding('critical')).toBeCloseTo(0.9, 9)
})

test('has shed everything but critical work `afterMs` and `rampMs` after it turned as bad as can be', () => {
  const { run, utilisation } = processUnder({ measure: () => 1, afterMs: 2_000, rampMs: 4_000 })
  run(2, { times: 1, mix: alike })
  expect(utilisation.shedding('low')).toBe(0)
  run(4.7, { times: 1, mix: alike }) // the measure takes half a second to be believed
  expect(priorities.slice(1).map((priority) => utilisation.shedding(priority))).toEqual([1, 1, 1])
})

test('does not mind what is bad for a moment', () => {
  let value = 1
  const { run, shedAll } = processUnder({ measure: () => value })
  for (let i = 0; i < 10; i++) {
    value = 1
    run(1, { times: 1, mix: alike }, () => expect(shedAll()).toBe(0))
    value = 0.5
    run(1, { times: 1, mix: alike }, () => expect(shedAll()).toBe(0))
  }
})

test('keeps shedding what it sheds between good and bad', () => {
  let value = 1
  const { run, shedAll } = processUnder({ measure: () => value })
  run(5, { times: 1, mix: alike })
  value = 0.75
  run(3, { times: 1, mix: alike })
  const before = shedAll()
  expect(before).toBeGreaterThan(0)
  run(60, { times: 1, mix: alike })
  expect(shedAll()).toBeCloseTo(before, 1) // shares are of what comes, and that is counted
})

test('takes the same share of every caller, also of two who take turns', () => {
  let value = 1
  const clock = fakeClock()
  const utilisation = createUtilisation({ measure: () => value }, clock)
  const callers = Array.from({ length: 20 }, (_, i) => `caller-${i}`)
  while (utilisation.shedding('low') < 0.5) {
    for (const priority of priorities) utilisation.sheds(priority, 'anybody')
    clock.advance(100)
  }
  value = 0.9
  const shed = new Map<string, number>()
  let share = 0
  for (let i = 0; i < 4_000; i++) {
    for (const priority of priorities.slice(0, 3)) utilisation.sheds(priority, 'anybody')
    for (const caller of callers) if (utilisation.sheds('low', caller)) shed.set(caller, (shed.get(caller) ?? 0) + 1)
    clock.advance(10)
    share += utilisation.shedding('low') / 4_000
  }
  expect(share).toBeGreaterThan(0.1)
  for (const caller of callers) expect((shed.get(caller) ?? 0) / 4_000).toBeCloseTo(share, 1)
})

describe('what it measures', () => {
  test('slots that are taken count as utilisation', () => {
    // On a virtual clock this process would be busy all the time, where a runtime tells.
    const idle = { active: 0, idle: 0, utilization: 0 }
    if (performance.eventLoopUtilization !== undefined)
      vi.spyOn(performance, 'eventLoopUtilization').mockReturnValue(idle)
    const clock = fakeClock()
    const utilisation = createUtilisation({}, clock)
    clock.advance(3_000)
    expect(utilisation.value).toBeLessThan(0.5)
    utilisation.slots = () => ({ share: 1, suffice: false })
    clock.advance(3_000)
    expect(utilisation.value).toBeGreaterThan(0.99)
    expect(utilisation.isBusy).toBe(false)
    utilisation.close()
    vi.restoreAllMocks()
  })

  test('slots that cannot be told are none', () => {
    const clock = fakeClock()
    const utilisation = createUtilisation({ measure: () => 1 }, clock)
    utilisation.slots = () => {
      throw new Error('an estimate of somebody else')
    }
    expect(() => clock.advance(3_000)).not.toThrow()
    expect(utilisation).toMatchObject({ value: 0, isBusy: false })
    utilisation.close()
  })

  test('while slots suffice nothing is shed for being busy, and what was comes back slowly', () => {
    const { run, utilisation, shedAll } = processUnder({ measure: () => 1 })
    run(10, { times: 1, mix: alike })
    const shed = shedAll()
    expect(shed).toBeGreaterThan(1)
    utilisation.slots = () => ({ share: 1, suffice: true })
    run(1, { times: 1, mix: alike })
    expect(shedAll()).toBeGreaterThan(shed / 4)
    run(10, { times: 1, mix: alike })
    expect(shedAll()).toBe(0)
    expect(utilisation).toMatchObject({ isBusy: true, value: expect.closeTo(1) })
    utilisation.slots = () => ({ share: 1, suffice: false })
    run(5, { times: 1, mix: alike })
    expect(shedAll()).toBeGreaterThan(1)
  })

  test('it is busy above what is bad', () => {
    let value = 0.75
    const { run, utilisation } = processUnder({ measure: () => value })
    run(5, { times: 1, mix: alike })
    expect(utilisation.isBusy).toBe(false)
    value = 0.85
    run(5, { times: 1, mix: alike })
    expect(utilisation.isBusy).toBe(true)
  })

  test('a busy event loop counts as utilisation, on the real clock', async () => {
    const utilisation = createUtilisation({}, undefined)
    const untilMs = performance.now() + 20_000
    while (utilisation.value < 0.8 && performance.now() < untilMs) {
      const busyUntilMs = performance.now() + 50
      while (performance.now() < busyUntilMs);
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(utilisation.value).toBeGreaterThanOrEqual(0.8)
    utilisation.close()
  })

  test.each([
    [
      'throws',
      () => {
        throw new Error('no figures')
      },
    ],
    ['tells no number', () => Number.NaN],
  ])('a measure that %s sheds nothing', (_, measure) => {
    const { run, shedAll } = processUnder({ measure })
    run(10, { times: 3, mix: alike })
    expect(shedAll()).toBe(0)
  })

  test('where timers are refused at first, the first piece of work starts to measure', () => {
    const clock = fakeClock()
    let refuses = true
    const edge = {
      now: clock.now,
      after(ms: number, call: () => void) {
        if (refuses) throw new Error('no timers in global scope')
        return clock.after(ms, call)
      },
    }
    const utilisation = createUtilisation({ measure: () => 1 }, edge)
    clock.advance(5_000)
    expect(utilisation.value).toBe(0)
    refuses = false
    expect(utilisation.sheds('low', 'anybody')).toBe(false)
    clock.advance(5_000)
    expect(utilisation.shedding('low')).toBeGreaterThan(0)
  })

  test('a process that was suspended has not been busy meanwhile', () => {
    const clock = fakeClock()
    let value = 1
    const utilisation = createUtilisation({ measure: () => value }, clock)
    clock.set(3_600_000)
    value = 0.1
    clock.advance(5_000)
    expect(utilisation.shedding('low')).toBe(0)
  })
})

describe('while it runs', () => {
  test('it can be switched off, and sheds nothing from then on', () => {
    const { run, utilisation, shedAll } = processUnder({ measure: () => 1 })
    run(10, { times: 1, mix: alike })
    utilisation.mode = 'off'
    expect(shedAll()).toBe(0)
    run(10, { times: 1, mix: alike })
    expect(shedAll()).toBe(0)
  })

  test('what is good and bad can be changed, and what makes no sense changes nothing', () => {
    const { run, utilisation, shedAll } = processUnder({ measure: () => 0.75 })
    run(10, { times: 1, mix: alike })
    expect(shedAll()).toBe(0)
    expect(() => utilisation.tune({ good: 0.5, bad: 0.4 })).toThrow(HeadgateError)
    run(10, { times: 1, mix: alike })
    expect(shedAll()).toBe(0)
    utilisation.tune({ good: 0.5, bad: 0.6 })
    run(10, { times: 1, mix: alike })
    expect(shedAll()).toBeGreaterThan(0)
  })

  test('what was only observed is forgotten when it is enforced: shedding begins slowly', () => {
    let value = 1
    const { run, utilisation, shedAll } = processUnder({ measure: () => value, mode: 'observe' })
    run(30, { times: 1, mix: alike })
    expect(utilisation.shedding('low')).toBe(1)
    value = 0.75 // neither good nor bad
    utilisation.mode = 'enforce'
    run(10, { times: 1, mix: alike })
    expect(shedAll()).toBe(0)
  })

  test('a closed one sheds nothing and looks at nothing', () => {
    let looks = 0
    const { run, utilisation, shedAll, clock } = processUnder({
      measure: () => {
        looks++
        return 1
      },
    })
    run(10, { times: 1, mix: alike })
    utilisation.close()
    looks = 0
    clock.advance(10_000)
    expect([looks, shedAll()]).toEqual([0, 0])
  })
})

test.each([
  [{ good: 0.8, bad: 0.8 }, /"good" of "utilisation" is 0.8 and "bad" is 0.8/],
  [{ bad: 1.1 }, /"bad" of "utilisation" is 1.1/],
  [{ afterMs: -1 }, /"afterMs" of "utilisation" is -1/],
  [{ rampMs: 0 }, /"rampMs" of "utilisation" is 0/],
  [{ measure: 5 }, /"measure" of "utilisation" is 5/],
  [{ mode: 'on' }, /"mode" of "utilisation" is "on"/],
  [{ rampms: 5 }, /unknown option "rampms"/],
])('refuses %o', (options, message) => {
  expect(() => createUtilisation(options as UtilisationOptions, fakeClock())).toThrow(message)
})
