import { HeadgateError } from 'headgate'
import {
  type Admitted,
  createOverload,
  type OverloadOptions,
  type Shed,
  type Ticket,
  type Work,
} from 'headgate/overload'
import { fakeClock } from 'headgate/testing'
import { describe, expect, test, vi } from 'vitest'
import { overloadWith } from './create.ts'
import type { OverloadMode, Utilisation } from './types.ts'

/** An overload with the clock in hand, all that was shed, and how many timers are set. */
function setUp(options: OverloadOptions = {}) {
  const clock = fakeClock(1_000_000)
  const timers = new Set<object>()
  const counting = {
    now: clock.now,
    after(ms: number, call: () => void) {
      const timer = {}
      timers.add(timer)
      const cancel = clock.after(ms, () => {
        timers.delete(timer)
        call()
      })
      return () => {
        timers.delete(timer)
        cancel()
      }
    },
  }
  const sheds: (Shed & { observed: boolean })[] = []
  const overload = createOverload({
    reserve: { critical: 0, high: 0, normal: 0 },
    utilisation: false,
    clock: counting,
    onShed: (shed) => sheds.push(shed),
    ...options,
  })
  /** Enters and must be let in at once. */
  const enter = (work?: Work) => {
    const ticket = overload.enter(work)
    if (ticket instanceof Promise || !ticket.ok) throw new Error('was not let in at once')
    return ticket
  }
  const log: string[] = []
  /** Enters and must wait; what becomes of it is noted under that name. */
  const wait = (name: string, work?: Work) => {
    const ticket = overload.enter(work)
    if (!(ticket instanceof Promise)) throw new Error('did not have to wait')
    return ticket.then(
      (answer) => {
        log.push(answer.ok ? name : `${name}: ${answer.reason}`)
        return answer
      },
      (reason) => {
        log.push(`${name}: ${reason}`)
        return undefined
      },
    )
  }
  return { clock, overload, sheds, enter, wait, log, timers: () => timers.size }
}

/** An overload whose utilisation is in hand, and what that was asked and told. */
function setUpBusy(mode: OverloadMode, options: OverloadOptions = {}) {
  const told: unknown[] = []
  const calls: unknown[] = []
  const measure: Utilisation = {
    value: 0.9,
    mode,
    isBusy: true,
    slots: undefined,
    shedding: (priority) => (priority === 'low' ? 1 : priority === 'normal' ? 0.5 : 0),
    sheds: (priority, caller) => {
      calls.push([priority, caller])
      return priority === 'low'
    },
    tune: (tuning) => calls.push(tuning),
    close: () => calls.push('closed'),
  }
  const overload = overloadWith({ onShed: (shed) => told.push(shed), concurrency: 10, ...options }, () => measure)
  return { overload, measure, calls, told }
}

const settle = () => new Promise<void>((resolve) => setImmediate(resolve))

describe('slots', () => {
  test('as many as the limit are let in at once, and one more when one is done', () => {
    const { overload, enter } = setUp({ concurrency: 2, queue: false })
    const first = enter()
    enter()
    expect(overload.enter()).toMatchObject({ ok: false, reason: 'concurrency', priority: 'normal' })
    first.done()
    enter()
    expect(overload.state()).toMatchObject({ limit: 2, inFlight: 2, queued: 0 })
  })

  test('a slot comes back once, however often done is called', () => {
    const { overload, enter } = setUp({ concurrency: 3 })
    const [first] = [enter(), enter(), enter()]
    first.done()
    first.done('drop')
    expect(overload.state().inFlight).toBe(2)
  })

  test('by default low work leaves a fifth, normal 15 % and high 10 % of the slots to those above', () => {
    const { overload, enter } = setUp({ concurrency: 100, queue: false, reserve: {} })
    const fill = (priority: 'low' | 'normal' | 'high' | 'critical') => {
      while (overload.refusal({ priority }) === undefined) enter({ priority })
      return overload.state().inFlight
    }
    expect([fill('low'), fill('normal'), fill('high'), fill('critical')]).toEqual([80, 85, 90, 100])
  })

  test('however small the limit, low work has a slot when nobody else is there', () => {
    expect(setUp({ concurrency: 1, reserve: { critical: 0.5 } }).enter({ priority: 'low' }).ok).toBe(true)
  })

  test('a limit that shrinks below what is at work lets nobody in until enough is done', () => {
    const { overload, enter } = setUp({ concurrency: 4, queue: false })
    const tickets = [enter(), enter(), enter(), enter()]
    overload.tune({ concurrency: { max: 2 } })
    for (const ticket of tickets.slice(0, 2)) ticket.done()
    expect(overload.enter()).toMatchObject({ reason: 'concurrency' })
    tickets[2]?.done()
    enter()
  })

  test('an estimate of your own may say anything', () => {
    for (const value of [0, -3, Number.NaN, 0.5]) {
      const { enter, overload } = setUp({ concurrency: { value, learn() {} }, queue: false })
      enter()
      expect(overload.enter()).toMatchObject({ ok: false })
    }
  })

  test('an estimate learns how long work took, without its wait, and how many were at work', async () => {
    const learned: unknown[] = []
    const { clock, enter, wait } = setUp({ concurrency: { value: 1, learn: (sample) => learned.push(sample) } })
    const first = enter()
    const second = wait('second')
    clock.advance(20)
    first.done()
    const ticket = (await second) as Admitted
    clock.advance(7)
    ticket.done('drop')
    expect(ticket.queuedMs).toBe(20)
    expect(learned).toEqual([
      { nowUs: 1_000_020_000, rttUs: 20_000, inFlight: 1, outcome: 'success', isFree: false, isBusy: false },
      { nowUs: 1_000_027_000, rttUs: 7_000, inFlight: 1, outcome: 'drop', isFree: false, isBusy: false },
    ])
  })
})

describe('the queue', () => {
  test('the most important go first', async () => {
    const { enter, wait, log } = setUp({ concurrency: 1 })
    let ticket: Ticket | undefined = enter()
    const waiting = (['low', 'normal', 'critical', 'high'] as const).map((priority) => wait(priority, { priority }))
    for (let i = 0; i < 4; i++) {
      if (ticket?.ok) ticket.done()
      ticket = await Promise.race(waiting.splice([2, 2, 1, 0][i] as number, 1))
    }
    expect(log).toEqual(['critical', 'high', 'normal', 'low'])
  })

  test('callers take turns: who has ten waiting does not come ten times before who has one', async () => {
    const { enter, wait, log } = setUp({ concurrency: 1 })
    const first = enter()
    for (let i = 0; i < 10; i++) void wait('greedy', { caller: 'a' }).then((ticket) => ticket?.ok && ticket.done())
    for (const caller of ['b', 'c']) void wait(caller, { caller }).then((ticket) => ticket?.ok && ticket.done())
    first.done()
    await settle()
    expect(log.slice(0, 4)).toEqual(['greedy', 'b', 'c', 'greedy'])
    expect(log).toHaveLength(12)
  })

  test('when it is full, a rarer caller takes the place of the newest of the greediest', async () => {
    const { overload, wait, log, enter } = setUp({ concurrency: 1, queue: { size: 4 } })
    enter()
    for (const name of ['a1', 'a2', 'a3']) void wait(name, { caller: 'a' })
    void wait('b1', { caller: 'b' })
    void wait('c1', { caller: 'c' })
    await settle()
    expect(log).toEqual(['a3: queue-full'])
    // Now everybody has one or two, and who has one already gets no more at their cost.
    expect(overload.enter({ caller: 'b' })).toMatchObject({ reason: 'queue-full' })
    expect(overload.refusal({ caller: 'b' })).toMatchObject({ reason: 'queue-full' })
    expect(overload.state().queued).toBe(4)
  })

  test('when it is full, more important work takes the place of the least important', async () => {
    const { overload, wait, log, enter } = setUp({ concurrency: 1, queue: { size: 2 } })
    enter({ priority: 'low' })
    void wait('low', { priority: 'low' })
    void wait('normal')
    void wait('high', { priority: 'high' })
    await settle()
    expect(log).toEqual(['low: queue-full'])
    expect(overload.enter({ priority: 'low' })).toMatchObject({ reason: 'queue-full' })
  })

  test('a burst may stay for intervalMs; in a queue that does not drain a stay ends at targetMs', async () => {
    const { clock, enter, wait, log, overload } = setUp({ concurrency: 1 })
    // Slots come free all the time elsewhere, so 5 ms are enough to see that none does here.
    for (let i = 0; i < 1000; i++) enter().done()
    enter()
    void wait('burst')
    clock.advance(99.9)
    await settle()
    expect(log).toEqual([])
    void wait('late')
    clock.advance(0.1)
    await settle()
    expect(log).toEqual(['burst: sojourn'])
    clock.advance(4.8)
    expect(overload.state()).toMatchObject({ queued: 1, sojournMs: 100 })
    clock.advance(0.1)
    await settle()
    expect(log).toEqual(['burst: sojourn', 'late: sojourn'])
    // Being emptied that way is not draining.
    void wait('next')
    clock.advance(5)
    await settle()
    expect(log.at(-1)).toBe('next: sojourn')
  })

  test('nor is being served, if others found it full meanwhile', async () => {
    const { clock, enter, wait, log, overload } = setUp({ concurrency: 1, queue: { size: 1 } })
    for (let i = 0; i < 1000; i++) enter().done()
    const busy = enter()
    void wait('first')
    clock.advance(90)
    expect(overload.enter()).toMatchObject({ reason: 'queue-full' })
    busy.done()
    void wait('second')
    clock.advance(10)
    await settle()
    expect(log).toEqual(['first', 'second: sojourn'])
  })

  test('once it was served empty, or nobody came for a while, everybody may stay for intervalMs again', async () => {
    const { clock, enter, wait, log } = setUp({ concurrency: 1 })
    for (let i = 0; i < 1000; i++) enter().done()
    enter()
    void wait('burst')
    clock.advance(250)
    void wait('after a while')
    clock.advance(50)
    await settle()
    expect(log).toEqual(['burst: sojourn'])
  })

  test('critical work may stay for intervalMs also in a queue that does not drain', async () => {
    const { clock, enter, wait, log } = setUp({ concurrency: 1 })
    for (let i = 0; i < 1000; i++) enter().done()
    enter()
    void wait('burst')
    clock.advance(60)
    void wait('critical', { priority: 'critical' })
    clock.advance(99)
    await settle()
    expect(log).toEqual(['burst: sojourn'])
    clock.advance(1)
    await settle()
    expect(log.at(-1)).toBe('critical: sojourn')
  })

  test('where slots come free slowly, nobody is sent away before two did', async () => {
    const { clock, enter, wait, log } = setUp({ concurrency: 1 })
    // 50 a second: one in 20 ms.
    for (let i = 0; i < 50; i++) {
      const ticket = enter()
      clock.advance(20)
      ticket.done()
    }
    enter()
    void wait('burst')
    clock.advance(90)
    void wait('late')
    clock.advance(35)
    await settle()
    expect(log).toEqual(['burst: sojourn'])
    clock.advance(20)
    await settle()
    expect(log).toEqual(['burst: sojourn', 'late: sojourn'])
  })

  test('in a queue that does not drain the newest goes first, in one that does the oldest', async () => {
    const { enter, wait, log } = setUp({ concurrency: 1, queue: { targetMs: 100, intervalMs: 100 } })
    const first = enter()
    void wait('old')
    void wait('new').then((ticket) => ticket?.ok && ticket.done())
    first.done()
    await settle()
    expect(log).toEqual(['old'])
    const standing = setUp({ concurrency: 1, queue: { targetMs: 100, intervalMs: 100 } })
    const busy = standing.enter()
    void standing.wait('first')
    standing.clock.advance(50)
    void standing.wait('second')
    standing.clock.advance(30)
    void standing.wait('third')
    standing.clock.advance(30)
    busy.done()
    await settle()
    expect(standing.log).toEqual(['first: sojourn', 'third'])
  })

  test('in a queue that does not drain callers still take turns, and among those who have waited as long for one the newest goes first', async () => {
    const { clock, enter, wait, log } = setUp({ concurrency: 1, queue: { targetMs: 100, intervalMs: 100 } })
    const busy = enter()
    const next = (name: string, caller: string) =>
      void wait(name, { caller }).then((ticket) => ticket?.ok && ticket.done())
    next('a1', 'a')
    clock.advance(60)
    next('a2', 'a')
    next('b', 'b')
    clock.advance(10)
    next('c', 'c')
    clock.advance(10)
    next('a3', 'a')
    clock.advance(30)
    busy.done()
    await settle()
    expect(log).toEqual(['a1: sojourn', 'a3', 'c', 'b', 'a2'])
  })

  test('nor does a caller who was just served go before one who came later', async () => {
    const { clock, enter, wait, log } = setUp({ concurrency: 1, queue: { targetMs: 100, intervalMs: 100 } })
    const busy = enter()
    void wait('sent away', { caller: 'z' })
    clock.advance(90)
    void wait('a1', { caller: 'a' })
    const served = wait('a2', { caller: 'a' })
    clock.advance(20)
    busy.done()
    void wait('b', { caller: 'b' })
    const ticket = await served
    if (ticket?.ok) ticket.done()
    await settle()
    expect(log).toEqual(['sent away: sojourn', 'a2', 'b'])
  })

  test('an event loop that was blocked lets nobody in who has waited for too long', async () => {
    // Timers that come late: only the time moves.
    let nowMs = 0
    const late = setUp({ concurrency: 1, clock: { now: () => nowMs, after: () => () => {} } })
    const busy = late.enter()
    void late.wait('stale')
    nowMs = 150
    busy.done()
    await settle()
    expect(late.log).toEqual(['stale: sojourn'])
  })

  test('one timer while somebody waits, none else', async () => {
    const { clock, enter, wait, timers } = setUp({ concurrency: 1 })
    expect(timers()).toBe(0)
    const first = enter()
    expect(timers()).toBe(0)
    for (let i = 0; i < 20; i++) void wait(`${i}`, { deadlineMs: 90 - i }).then((ticket) => ticket?.ok && ticket.done())
    expect(timers()).toBe(1)
    clock.advance(75)
    expect(timers()).toBe(1)
    first.done()
    await settle()
    expect(timers()).toBe(0)
  })
})

test('a process does not end while somebody waits: it has nothing else to wait for where all that is missing is the pace', async () => {
  const timers = vi.spyOn(globalThis, 'setTimeout')
  const overload = createOverload({ concurrency: 1, utilisation: false })
  overload.enter()
  const waiting = overload.enter()
  const timer = timers.mock.results[0]?.value as { hasRef?(): boolean }
  timers.mockRestore()
  expect(timer).toBeDefined()
  // Where a timer is a number it cannot be asked.
  expect(timer.hasRef?.() ?? true).toBe(true)
  overload.close()
  expect(await waiting).toMatchObject({ ok: true })
})

describe('deadlines', () => {
  /** Work takes 30 ms. */
  function busy() {
    const all = setUp({ concurrency: 1 })
    for (let i = 0; i < 5; i++) {
      const ticket = all.enter()
      all.clock.advance(30)
      ticket.done()
    }
    return all
  }

  test('work that cannot be done in time is refused at once', () => {
    const { overload, enter } = busy()
    expect(overload.enter({ deadlineMs: 29 })).toMatchObject({ ok: false, reason: 'deadline' })
    expect(overload.refusal({ deadlineMs: 29 })).toMatchObject({ reason: 'deadline' })
    expect(overload.enter({ deadlineMs: 0 })).toMatchObject({ reason: 'deadline' })
    expect(overload.enter({ deadlineMs: -5 })).toMatchObject({ reason: 'deadline' })
    enter({ deadlineMs: 31 })
  })

  test('who waits is told the moment it cannot make it', async () => {
    const { clock, enter, wait, log } = busy()
    enter()
    void wait('hurried', { deadlineMs: 50 })
    clock.advance(19.9)
    await settle()
    expect(log).toEqual([])
    clock.advance(0.2)
    await settle()
    expect(log).toEqual(['hurried: deadline'])
  })

  test('one slow kind of work among quick ones does not refuse the quick', () => {
    const { overload, enter, clock } = setUp({ concurrency: 10 })
    for (let i = 0; i < 100; i++) {
      const ticket = enter()
      clock.advance(i % 2 === 0 ? 300 : 3)
      ticket.done()
    }
    expect(overload.refusal({ deadlineMs: 20 })).toBeUndefined()
  })

  test('what is known from long ago refuses nobody', () => {
    const { clock, enter } = busy()
    clock.advance(1001)
    enter({ deadlineMs: 10 })
  })
})

describe('who leaves', () => {
  test('leaves at once, with the reason of the signal, and no trace', async () => {
    const { overload, enter, wait, log, timers } = setUp({ concurrency: 1 })
    const first = enter()
    const away = new AbortController()
    void wait('gone', { signal: away.signal })
    away.abort('changed my mind')
    expect(overload.state().queued).toBe(0)
    expect(timers()).toBe(0)
    void wait('next')
    first.done()
    away.abort('again')
    await settle()
    expect(log).toEqual(['gone: changed my mind', 'next'])
    expect(overload.state().inFlight).toBe(1)
  })

  test('who has left before is not let in', async () => {
    const { overload } = setUp()
    await expect(overload.enter({ signal: AbortSignal.abort('too late') })).rejects.toBe('too late')
    expect(overload.state().inFlight).toBe(0)
  })

  test('a signal that fires after the turn changes nothing, and nobody listens to it any more', async () => {
    const { overload, enter, wait, log } = setUp({ concurrency: 1 })
    const first = enter()
    const late = new AbortController()
    const removed: string[] = []
    const remove = late.signal.removeEventListener.bind(late.signal)
    late.signal.removeEventListener = ((type: string, listener: () => void) => {
      removed.push(type)
      remove(type, listener)
    }) as typeof late.signal.removeEventListener
    const ticket = wait('served', { signal: late.signal })
    first.done()
    late.abort('late')
    await ticket
    expect(log).toEqual(['served'])
    expect(removed).toEqual(['abort'])
    expect(overload.state().inFlight).toBe(1)
  })
})

describe('modes', () => {
  test('observe lets everybody in and tells of whom it would not have', () => {
    const { overload, enter, sheds } = setUp({ concurrency: 1, queue: false, mode: 'observe' })
    enter()
    expect(sheds).toEqual([])
    enter()
    expect(sheds).toMatchObject([{ reason: 'concurrency', observed: true, ok: false }])
    expect(overload.refusal()).toBeUndefined()
  })

  test('observe knows of the queue: it tells when that would be full, or would not drain', () => {
    const { enter, sheds } = setUp({ concurrency: 1, queue: { size: 2 }, concurrencyMode: 'observe' })
    for (let i = 0; i < 3; i++) enter()
    expect(sheds).toEqual([])
    enter()
    expect(sheds.map(({ reason }) => reason)).toEqual(['queue-full'])
    const slow = setUp({ concurrency: 1, mode: 'observe' })
    slow.enter()
    slow.enter()
    slow.clock.advance(100)
    slow.enter()
    expect(slow.sheds.map(({ reason }) => reason)).toEqual(['sojourn'])
  })

  test('off lets everybody in, says nothing and learns nothing; slots are right when it is on again', () => {
    let learned = 0
    const { overload, enter, sheds } = setUp({
      concurrency: { value: 1, learn: () => learned++ },
      mode: 'off',
      queue: false,
    })
    const tickets = [enter({ deadlineMs: -1 }), enter(), enter()]
    tickets[0]?.done()
    expect([sheds.length, learned]).toEqual([0, 0])
    overload.tune({ mode: 'enforce' })
    expect(overload.enter()).toMatchObject({ reason: 'concurrency' })
    tickets[1]?.done()
    tickets[2]?.done()
    enter()
    expect(learned).toBe(2)
  })

  test.each(['off', 'observe'] as const)('switched to %s while some wait, they go', async (mode) => {
    const { overload, enter, wait, log, timers } = setUp({ concurrency: 1 })
    enter()
    void wait('a')
    void wait('b', { priority: 'critical' })
    overload.tune({ mode })
    await settle()
    expect(log).toEqual(['b', 'a'])
    expect(timers()).toBe(0)
    expect(overload.state()).toMatchObject({ inFlight: 3, queued: 0 })
  })

  test('a larger limit lets in who waits', async () => {
    const { overload, enter, wait, log } = setUp({ concurrency: 1 })
    enter()
    void wait('a')
    void wait('b')
    overload.tune({ concurrency: { min: 2 } })
    await settle()
    expect(log).toEqual(['a'])
  })

  test('a smaller queue sends nobody away but takes no more; a shorter target holds for those who wait', async () => {
    const { overload, clock, enter, wait, log } = setUp({ concurrency: 1, queue: { targetMs: 90, intervalMs: 100 } })
    for (let i = 0; i < 1000; i++) enter().done()
    enter()
    void wait('a')
    clock.advance(95)
    void wait('b')
    overload.tune({ queue: { size: 1, targetMs: 5 } })
    expect(overload.enter()).toMatchObject({ reason: 'queue-full' })
    clock.advance(10)
    await settle()
    expect(log).toEqual(['a: sojourn', 'b: sojourn'])
  })

  test('after close nobody is refused, who waits goes, and no timer is left', async () => {
    const { overload, enter, wait, log, timers } = setUp({ concurrency: 1 })
    enter()
    void wait('a')
    overload.close()
    enter({ deadlineMs: -1 })
    overload.tune({ mode: 'enforce' })
    enter()
    await settle()
    expect(log).toEqual(['a'])
    expect(timers()).toBe(0)
  })

  test('without a limit everybody is let in', () => {
    const { overload, enter } = setUp({ concurrency: false })
    for (let i = 0; i < 500; i++) enter()
    expect(overload.state()).toMatchObject({ limit: Infinity, inFlight: 500 })
  })
})

describe('utilisation', () => {
  test('sheds what it says, before anything else is asked', () => {
    const { overload, calls, told } = setUpBusy('enforce')
    expect(overload.enter({ priority: 'low', caller: 'x' })).toMatchObject({ reason: 'utilisation' })
    expect(overload.enter({ priority: 'normal' })).toMatchObject({ ok: true })
    expect(calls).toEqual([
      ['low', 'x'],
      ['normal', undefined],
    ])
    expect(told).toMatchObject([{ reason: 'utilisation', observed: false }])
  })

  test('a look asks only for what is certain, and decides nothing', () => {
    const { overload, calls } = setUpBusy('enforce')
    expect(overload.refusal({ priority: 'low' })).toMatchObject({ reason: 'utilisation' })
    expect(overload.refusal({ priority: 'normal' })).toBeUndefined()
    expect(calls).toEqual([])
  })

  test.each([
    ['its own mode', 'observe', {}],
    ['the mode of all', 'enforce', { mode: 'observe' }],
  ] as const)('observes by %s', (_, mode, options) => {
    const { overload, told } = setUpBusy(mode, options)
    expect(overload.enter({ priority: 'low' })).toMatchObject({ ok: true })
    expect(told).toMatchObject([{ reason: 'utilisation', observed: true }])
    expect(overload.refusal({ priority: 'low' })).toBeUndefined()
  })

  test('is told the slots, tuned and closed, and seen in the state', () => {
    const { overload, measure, calls } = setUpBusy('enforce')
    overload.enter({ priority: 'critical' })
    expect(measure.slots?.()).toEqual({ share: 0.1, suffice: false })
    expect(overload.state()).toMatchObject({
      utilisation: 0.9,
      shedding: { critical: 0, high: 0, normal: 0.5, low: 1 },
    })
    calls.length = 0
    overload.tune({ utilisation: { good: 0.5, bad: 0.6 } })
    overload.close()
    expect(calls).toEqual([{ good: 0.5, bad: 0.6 }, 'closed'])
  })

  test.each([
    ['off', 'enforce'],
    ['observe', 'enforce'],
    ['enforce', 'off'],
    ['enforce', 'observe'],
  ] as const)('where all is %s and it is %s, nothing is being shed, and the state says so', (mode, own) => {
    const { overload, measure } = setUpBusy(own, { mode })
    expect(measure.mode).toBe(mode === 'enforce' ? own : mode)
    expect(overload.state().shedding).toEqual({ critical: 0, high: 0, normal: 0, low: 0 })
    overload.tune({ mode: 'enforce', utilisation: { mode: 'enforce' } })
    expect(measure.mode).toBe('enforce')
    expect(overload.state().shedding.low).toBe(1)
  })

  test.each(['off', 'observe'] as const)('slots that are %s may all be taken without anybody being busy', (mode) => {
    const { overload, measure } = setUpBusy('enforce', { concurrency: 2, concurrencyMode: mode })
    for (let i = 0; i < 5; i++) overload.enter({ priority: 'critical' })
    expect(measure.slots?.()).toEqual({ share: 0, suffice: false })
    expect(overload.state()).toMatchObject({ mode, limit: 2, inFlight: 5 })
  })
})

describe('slots of which all are taken', () => {
  const estimate = (rttMinUs: number) => ({ value: 1, rttMinUs, learn: vi.fn() })

  test('suffice for a second after they sent somebody away, if their number was measured', () => {
    const clock = fakeClock(1_000_000)
    const { overload, measure } = setUpBusy('enforce', { clock, concurrency: estimate(1_000), queue: false })
    overload.enter({ priority: 'critical' })
    expect(measure.slots?.()).toEqual({ share: 1, suffice: false })
    overload.enter({ priority: 'critical' })
    expect(measure.slots?.()).toEqual({ share: 1, suffice: true })
    clock.advance(1_001)
    expect(measure.slots?.()).toEqual({ share: 1, suffice: false })
  })

  test('do not suffice, if somebody has only said how many there are', () => {
    const { overload, measure } = setUpBusy('enforce', { concurrency: 1, queue: false })
    for (let i = 0; i < 2; i++) overload.enter({ priority: 'critical' })
    expect(measure.slots?.()).toEqual({ share: 1, suffice: false })
  })

  test('an estimate is told that this process is busy', () => {
    const limit = estimate(1_000)
    const ticket = setUpBusy('enforce', { concurrency: limit }).overload.enter({ priority: 'critical' }) as Admitted
    ticket.done()
    expect(limit.learn).toHaveBeenCalledWith(expect.objectContaining({ isBusy: true }))
  })
})

test('what takes no slot any more says nothing about how long work takes when it ends', () => {
  const took: number[] = []
  const limit = { value: 2, heldAfterUs: 1_000_000, learn: ({ rttUs }: { rttUs: number }) => took.push(rttUs / 1000) }
  const { clock, enter, overload } = setUp({ concurrency: limit, queue: false })
  const stream = enter()
  for (let i = 0; i < 40; i++) {
    const ticket = enter()
    clock.advance(100)
    ticket.done()
  }
  for (const ticket of [enter(), enter()]) ticket.done('ignore') // there is room for two again
  expect(overload.state()).toMatchObject({ limit: 3, inFlight: 1 })
  stream.done()
  expect(overload.state()).toMatchObject({ limit: 2, inFlight: 0 })
  expect(took).toEqual([...Array(40).fill(100), 0, 0])
})

test('a tuning that is refused for one thing changes nothing else', () => {
  const { overload } = setUp({ concurrency: 10, utilisation: {} })
  const wrong = { mode: 'off', concurrency: { max: 2 }, utilisation: { good: 0.99, bad: 0.5 } } as const
  expect(() => overload.tune(wrong)).toThrow('HG_OPTION_INVALID')
  expect(overload.state()).toMatchObject({ mode: 'enforce', limit: 10 })
  overload.close()
})

describe('what a refused caller is told', () => {
  test('a second while nothing was ever done, then how long all who were refused would take', () => {
    const { overload, clock, enter } = setUp({ concurrency: 1, queue: false })
    const first = enter()
    expect(overload.enter()).toMatchObject({ retryAfterMs: 1000 })
    first.done()
    for (let i = 0; i < 99; i++) enter().done()
    enter()
    // A hundred a second are done, and one was refused.
    expect(overload.enter()).toMatchObject({ retryAfterMs: 20 })
    for (let i = 0; i < 97; i++) overload.enter()
    expect(overload.enter()).toMatchObject({ retryAfterMs: 1000 })
    clock.advance(2000)
    expect(overload.enter()).toMatchObject({ retryAfterMs: 1000 })
  })

  test('a hook that throws decides nothing', () => {
    const { overload, enter } = setUp({
      concurrency: 1,
      queue: false,
      onShed: () => {
        throw new Error('hook')
      },
    })
    enter()
    expect(overload.enter()).toMatchObject({ ok: false })
  })
})

describe('the pace, while more comes than fits', () => {
  /** Ten at a time, each of which takes 10 ms alone: one a millisecond. */
  const tenOf10Ms = { value: 10, rttMinUs: 10_000, learn() {} }

  /** All slots are taken, and with a queue of five somebody was sent away. */
  function full(more: Partial<OverloadOptions> = {}) {
    const set = setUp({ concurrency: tenOf10Ms, queue: { size: 5, targetMs: 90 }, ...more })
    const tickets = Array.from({ length: 10 }, () => set.enter())
    for (let i = 0; i < 5; i++) void set.wait(`${i}`)
    expect(set.overload.enter()).toMatchObject({ ok: false, reason: 'queue-full' })
    return { ...set, tickets }
  }

  test('slots that come free together are taken one after the other', async () => {
    const { clock, log, tickets } = full()
    clock.advance(20)
    for (const ticket of tickets) ticket.done()
    await settle()
    expect(log).toEqual(['0', '1']) // two may come at once
    for (const count of [3, 4, 5]) {
      clock.advance(1)
      await settle()
      expect(log).toHaveLength(count)
    }
  })

  test('who comes when slots are free stands behind those who wait for it; critical work does not', async () => {
    const { clock, log, tickets, wait, enter } = full()
    clock.advance(20)
    for (const ticket of tickets) ticket.done()
    enter({ priority: 'critical' })
    clock.advance(4)
    await settle()
    void wait('later')
    expect(log).not.toContain('later')
    clock.advance(2)
    await settle()
    expect(log.at(-1)).toBe('later')
  })

  test('where timers come late, whoever comes in the meantime does not overtake those who wait', async () => {
    let nowMs = 0
    const clock = { now: () => nowMs, after: () => () => {} }
    const { log, tickets, wait, overload } = full({ clock })
    nowMs = 20
    for (const ticket of tickets) ticket.done()
    for (let i = 0; i < 3; i++) {
      nowMs += 1
      void wait(`low ${i}`, { priority: 'low' })
    }
    await settle()
    expect(log).toEqual(['0', '1', '2', '3', '4'])
    nowMs += 1
    expect(overload.enter({ priority: 'critical' })).toMatchObject({ ok: true })
    await settle()
    expect(log.at(-1)).toBe('low 0')
  })

  test('a clock that is set back keeps nobody out', async () => {
    let nowMs = 60_000
    const clock = { now: () => nowMs, after: () => () => {} }
    const { tickets, enter, log } = full({ clock })
    nowMs = 0
    for (const ticket of tickets) ticket.done()
    await settle()
    expect(log).toHaveLength(5)
    for (let i = 0; i < 5; i++) enter()
  })

  test('nor does one that is set back by less than it holds', async () => {
    let nowMs = 60_000
    const clock = { now: () => nowMs, after: () => () => {} }
    const { tickets, log } = full({ clock })
    nowMs += 80
    tickets.pop()?.done()
    nowMs -= 50
    tickets.pop()?.done()
    await settle()
    expect(log).toHaveLength(2)
  })

  test('holds for a second after somebody was last sent away', () => {
    const { clock, tickets, enter, overload } = full()
    clock.advance(100)
    for (const ticket of tickets) ticket.done()
    clock.advance(800)
    for (const ticket of [enter(), enter()]) ticket.done()
    expect(overload.enter()).toBeInstanceOf(Promise)
    clock.advance(200)
    for (let i = 0; i < 8; i++) enter()
  })

  test('keeps nobody for longer than work takes alone, however many came before it held', async () => {
    const { clock, enter, wait, log, overload } = setUp({ concurrency: tenOf10Ms, queue: { size: 1, targetMs: 90 } })
    for (let i = 0; i < 1_000; i++) enter().done() // each at once
    const tickets = Array.from({ length: 10 }, () => enter())
    void wait('first')
    expect(overload.enter()).toMatchObject({ reason: 'queue-full' })
    for (const ticket of tickets) ticket.done()
    clock.advance(5)
    await settle()
    expect(log).toEqual([])
    clock.advance(5)
    await settle()
    expect(log).toEqual(['first'])
  })

  test.each([0, Number.NaN, Infinity, -5])(
    'there is none where an estimate tells %s of work alone',
    async (rttMinUs) => {
      const { tickets, enter, log } = full({ concurrency: { ...tenOf10Ms, rttMinUs } })
      for (const ticket of tickets) ticket.done()
      for (let i = 0; i < 5; i++) enter()
      await settle()
      expect(log).toEqual(['0', '1', '2', '3', '4'])
    },
  )

  test('begins once the estimate tells', async () => {
    const limit = { ...tenOf10Ms, rttMinUs: Number.NaN }
    const { clock, tickets, log } = full({ concurrency: limit })
    limit.rttMinUs = 10_000
    clock.advance(20)
    for (const ticket of tickets) ticket.done()
    await settle()
    expect(log).toEqual(['0', '1'])
  })

  test('there is none without a queue, where nobody could wait for it', () => {
    const { overload, enter } = setUp({ concurrency: tenOf10Ms, queue: false })
    const tickets = Array.from({ length: 10 }, () => enter())
    expect(overload.enter()).toMatchObject({ reason: 'concurrency' })
    for (const ticket of tickets) ticket.done()
    for (let i = 0; i < 10; i++) enter()
  })
})

describe('misuse', () => {
  const wrong: Record<string, () => unknown> = {
    'a priority that is none': () => createOverload().enter({ priority: 'urgent' as never }),
    'a deadline that is no number': () => createOverload().enter({ deadlineMs: Number.NaN }),
    'an outcome that is none': () => (createOverload().enter() as Admitted).done('failed' as never),
  }
  test.each(Object.entries(wrong))('%s is refused with a reason', (_, act) => {
    expect(act).toThrow(HeadgateError)
    expect(act).toThrow('HG_OPTION_INVALID')
  })
})
