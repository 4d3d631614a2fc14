import { expect, test } from 'vitest'
import { fakeClock } from '../testing/fake-clock.ts'
import { createThrottle, type ThrottleOptions } from './throttle.ts'
import { type Priority, priorities } from './types.ts'

/** A backend that takes so many a second, and callers who want more. */
function backendWith(options: ThrottleOptions = {}) {
  const clock = fakeClock(1_000)
  const throttle = createThrottle({ clock, ...options })
  const sent = new Map<Priority, number>()
  function second(wanted: number, accepts: number, priority: Priority = 'normal') {
    let [passed, accepted] = [0, 0]
    for (let i = 0; i < wanted; i++) {
      clock.advance(1_000 / wanted)
      if (!throttle.enter(priority)) continue
      passed++
      const ok = Math.floor(((i + 1) * accepts) / wanted) > accepted && accepted < accepts
      if (ok) accepted++
      throttle.done(ok ? 'accepted' : 'refused', priority)
    }
    sent.set(priority, passed)
    return passed
  }
  return { clock, throttle, second, sent }
}

test('refuses nothing while the backend accepts at least half of it', () => {
  const { second } = backendWith()
  for (let i = 0; i < 300; i++) expect(second(100, 60)).toBe(100)
})

test('sends twice what the backend accepts, once it has seen that for a while', () => {
  const { second } = backendWith({ maxRejection: 0.99 })
  for (let i = 0; i < 240; i++) second(100, 10)
  let sent = 0
  for (let i = 0; i < 60; i++) sent += second(100, 10)
  expect(sent / 60).toBeGreaterThan(18)
  expect(sent / 60).toBeLessThan(22)
})

test('still sends a tenth to a backend that accepts nothing, and soon everything when it is back', () => {
  const { second } = backendWith({ windowMs: 10_000 })
  for (let i = 0; i < 60; i++) second(100, 0)
  expect(second(100, 0)).toBe(10)
  for (let i = 0; i < 60; i++) second(100, 100)
  expect(second(100, 100)).toBe(100)
})

test('refuses evenly: no more than the share says in a row', () => {
  const { throttle, second } = backendWith()
  for (let i = 0; i < 60; i++) second(100, 0)
  let [row, longest] = [0, 0]
  for (let i = 0; i < 1_000; i++) {
    row = throttle.enter() ? 0 : row + 1
    longest = Math.max(longest, row)
  }
  expect(longest).toBeLessThanOrEqual(10)
})

test('throttles what matters less more', () => {
  const { second, sent, throttle } = backendWith({ maxRejection: 0.99 })
  for (let i = 0; i < 100; i++) for (const priority of priorities) second(100, 20, priority)
  expect(sent.get('critical')).toBeGreaterThan((sent.get('high') as number) + 5)
  expect(sent.get('high')).toBeGreaterThan((sent.get('normal') as number) + 5)
  expect(sent.get('normal')).toBeGreaterThan((sent.get('low') as number) + 5)
  expect(throttle.rejection('low')).toBeGreaterThan(throttle.rejection('critical'))
})

test('what is refused to one priority says nothing about another', () => {
  const { second, throttle } = backendWith()
  for (let i = 0; i < 60; i++) second(100, 0, 'low')
  expect(throttle.rejection('low')).toBe(0.9)
  expect(throttle.rejection('critical')).toBe(0)
})

test('does not take calls that are under way for refused ones', () => {
  const { throttle } = backendWith()
  for (let i = 0; i < 1_000; i++) expect(throttle.enter()).toBe(true)
})

test('refuses by chance where that is asked for', () => {
  const draws = [0.89, 0.91]
  const { second } = backendWith({ random: () => 1 })
  expect(second(100, 0)).toBe(100)
  const throttle = createThrottle({ random: () => draws.shift() ?? 1, clock: fakeClock() })
  for (let i = 0; i < 100; i++) throttle.done('refused')
  expect([throttle.enter(), throttle.enter()]).toEqual([false, true])
})

test.each([
  [{ k: 0.5 }, /"k" of createThrottle\(\) is 0.5: give a number from 1 on/],
  [{ maxRejection: 1 }, /"maxRejection" of createThrottle\(\) is 1/],
  [{ windowMs: Number.NaN }, /"windowMs" of createThrottle\(\) is NaN/],
  [{ K: 2 }, /unknown option "K"/],
  [{ random: 1 }, /"random" of createThrottle\(\) is 1/],
])('refuses %o', (options, message) => {
  expect(() => createThrottle(options as ThrottleOptions)).toThrow(message)
})
