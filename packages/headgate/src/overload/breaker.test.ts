import { describe, expect, test } from 'vitest'
import { fakeClock } from '../testing/fake-clock.ts'
import { type BreakerChange, type BreakerOptions, type CallOutcome, createBreaker, type Passage } from './breaker.ts'

function breakerWith(options: BreakerOptions = {}) {
  const clock = fakeClock(5_000)
  const changes: string[] = []
  const onChange = ({ from, to }: BreakerChange) => changes.push(`${from} > ${to}`)
  const breaker = createBreaker({ minRequests: 10, clock, onChange, ...options })
  const call = (outcome: CallOutcome, tookMs = 0) => {
    const passage = breaker.enter()
    clock.advance(tookMs)
    passage?.done(outcome)
    return passage !== undefined
  }
  const calls = (n: number, outcome: CallOutcome, tookMs = 0) => {
    let passed = 0
    for (let i = 0; i < n; i++) if (call(outcome, tookMs)) passed++
    return passed
  }
  return { clock, changes, breaker, call, calls }
}

describe('a breaker', () => {
  test('opens when half of the calls have failed, and then lets nothing pass', () => {
    const { breaker, calls, changes } = breakerWith()
    calls(6, 'success')
    calls(5, 'failure')
    expect(breaker.state()).toBe('closed')
    expect(calls(100, 'failure')).toBe(1)
    expect(breaker.state()).toBe('open')
    expect(changes).toEqual(['closed > open'])
  })

  test('decides nothing by a few calls', () => {
    const { breaker, calls } = breakerWith()
    calls(9, 'failure')
    expect(breaker.state()).toBe('closed')
    calls(1, 'failure')
    expect(breaker.state()).toBe('open')
  })

  test('does not remember what is longer ago than its window', () => {
    const { breaker, calls, clock } = breakerWith({ windowMs: 10_000 })
    calls(9, 'failure')
    clock.advance(10_000)
    calls(9, 'failure')
    expect(breaker.state()).toBe('closed')
  })

  test('remembers what came within nine tenths of its window', () => {
    const { breaker, calls, clock } = breakerWith({ windowMs: 10_000 })
    calls(9, 'failure')
    clock.advance(8_999)
    calls(1, 'failure')
    expect(breaker.state()).toBe('open')
  })

  test('opens when most calls are slow, also if they succeed', () => {
    const { breaker, calls } = breakerWith({ slowMs: 100, slowRatio: 0.8 })
    calls(2, 'success', 100)
    calls(7, 'success', 101)
    expect(breaker.state()).toBe('closed')
    calls(1, 'success', 101)
    expect(breaker.state()).toBe('open')
  })

  test('counts neither calls that were not sent nor those nobody knows the end of', () => {
    const { breaker, calls } = breakerWith()
    calls(100, 'unsent')
    calls(100, 'ignore')
    calls(9, 'failure')
    expect(breaker.state()).toBe('closed')
  })

  test('lets one call pass after a while, and closes if that succeeds', () => {
    const { breaker, call, calls, clock, changes } = breakerWith({ openMs: 1_000 })
    calls(10, 'failure')
    clock.advance(999)
    expect(breaker.retryAfterMs()).toBe(1)
    expect(call('success')).toBe(false)
    clock.advance(1)
    const probe = breaker.enter() as Passage
    expect([breaker.state(), breaker.isShut(), breaker.enter()]).toEqual(['half-open', true, undefined])
    probe.done()
    expect(breaker.state()).toBe('closed')
    expect(calls(9, 'failure')).toBe(9) // what was before is forgotten
    expect(breaker.state()).toBe('closed')
    expect(changes).toEqual(['closed > open', 'open > half-open', 'half-open > closed'])
  })

  test('a clock that is set back does not keep it open for longer', () => {
    const { breaker, call, calls, clock } = breakerWith()
    clock.advance(3_600_000)
    calls(10, 'failure')
    clock.set(0)
    expect([breaker.isShut(), breaker.retryAfterMs()]).toEqual([false, 0])
    expect(call('success')).toBe(true)
    expect(breaker.state()).toBe('closed')
  })

  test('waits twice as long each time that call fails, up to a bound, and starts anew once it was closed', () => {
    const { breaker, calls, clock } = breakerWith({ openMs: 1_000, maxOpenMs: 5_000 })
    calls(10, 'failure')
    const pauses: number[] = []
    for (let i = 0; i < 5; i++) {
      pauses.push(breaker.retryAfterMs())
      clock.advance(breaker.retryAfterMs())
      expect(calls(5, 'failure')).toBe(1)
    }
    expect(pauses).toEqual([1_000, 2_000, 4_000, 5_000, 5_000])
    clock.advance(5_000)
    calls(1, 'success')
    calls(10, 'failure')
    expect(breaker.retryAfterMs()).toBe(1_000)
  })

  test('opens again when the call that was tried succeeds too slowly', () => {
    const { breaker, calls, clock } = breakerWith({ slowMs: 100 })
    calls(10, 'failure')
    clock.advance(1_000)
    calls(1, 'success', 200)
    expect(breaker.state()).toBe('open')
    expect(breaker.retryAfterMs()).toBe(2_000)
  })

  test('is open again when the call that was tried was never sent, and the next may try at once', () => {
    const { breaker, calls, clock, changes } = breakerWith()
    calls(10, 'failure')
    clock.advance(1_000)
    calls(1, 'unsent')
    expect(breaker.state()).toBe('open')
    expect(calls(1, 'success')).toBe(1)
    expect(breaker.state()).toBe('closed')
    expect(changes.slice(1)).toEqual(['open > half-open', 'half-open > open', 'open > half-open', 'half-open > closed'])
  })

  test('waits as long again when nobody learned how the call that was tried ended', () => {
    const { breaker, calls, clock } = breakerWith({ openMs: 1_000 })
    calls(10, 'failure')
    clock.advance(1_000)
    calls(1, 'ignore')
    expect([breaker.state(), breaker.retryAfterMs()]).toEqual(['open', 1_000])
  })

  test('tries another call when one is never heard of again, and does not mind what that one says later', () => {
    const { breaker, calls, clock } = breakerWith({ maxOpenMs: 30_000 })
    calls(10, 'failure')
    clock.advance(1_000)
    const lost = breaker.enter() as Passage
    clock.advance(29_999)
    expect(breaker.enter()).toBeUndefined()
    clock.advance(1)
    const next = breaker.enter() as Passage
    lost.done('failure')
    expect(breaker.state()).toBe('half-open')
    next.done()
    expect(breaker.state()).toBe('closed')
  })

  test('does not mind how calls end that were sent before it opened', () => {
    const { breaker, calls, clock } = breakerWith()
    const before = Array.from({ length: 50 }, () => breaker.enter() as Passage)
    calls(10, 'failure')
    for (const passage of before.slice(0, 25)) passage.done('success')
    expect(breaker.state()).toBe('open')
    clock.advance(1_000)
    const probe = breaker.enter() as Passage
    for (const passage of before) passage.done('failure')
    expect(breaker.state()).toBe('half-open')
    probe.done()
    expect(breaker.state()).toBe('closed')
  })

  test('counts a call once, whatever is said of it afterwards', () => {
    const { breaker } = breakerWith()
    const passage = breaker.enter() as Passage
    for (let i = 0; i < 100; i++) passage.done('failure')
    expect(breaker.state()).toBe('closed')
  })

  test('works with a hook that throws', () => {
    const { breaker, calls } = breakerWith({
      onChange: () => {
        throw new Error('mine')
      },
    })
    calls(10, 'failure')
    expect(breaker.state()).toBe('open')
  })

  test.each([
    [{ errorRatio: 0 }, /"errorRatio" of createBreaker\(\) is 0/],
    [{ openMs: 5_000, maxOpenMs: 1_000 }, /"maxOpenMs" of createBreaker\(\) is 1000: give at least openMs, 5000/],
    [{ slowMs: '1s' }, /"slowMs" of createBreaker\(\) is "1s"/],
    [{ minRequest: 5 }, /did you mean "minRequests"/],
    [{ onChange: true }, /"onChange" of createBreaker\(\) is true/],
  ])('refuses %o', (options, message) => {
    expect(() => createBreaker(options as BreakerOptions)).toThrow(message)
  })
})
