import { expect, test } from 'vitest'
import { fakeClock } from '../testing/fake-clock.ts'
import { createRetryBudget, type RetryBudgetOptions } from './retry-budget.ts'

function budgetWith(options: RetryBudgetOptions) {
  const clock = fakeClock(1_000)
  const budget = createRetryBudget({ clock, ...options })
  const send = (requests: number) => {
    for (let i = 0; i < requests; i++) budget.deposit()
  }
  const retry = (wanted: number) => {
    let retries = 0
    for (let i = 0; i < wanted; i++) if (budget.withdraw()) retries++
    return retries
  }
  return { clock, budget, send, retry }
}

test('lets a tenth of the requests be sent again, and no more', () => {
  const { send, retry, budget } = budgetWith({ minPerSecond: 0 })
  send(1_000)
  expect(budget.balance()).toBe(100)
  expect(retry(1_000)).toBe(100)
  expect(budget.balance()).toBe(0)
  send(9)
  expect(retry(5)).toBe(0)
  send(1)
  expect(retry(5)).toBe(1)
})

test('lets those retry who send few requests: so many a second, whatever was sent', () => {
  const { retry, clock } = budgetWith({ minPerSecond: 2, ttlMs: 10_000 })
  expect(retry(100)).toBe(20)
  clock.advance(10_000)
  expect(retry(100)).toBe(20)
})

test('forgets what was paid in and not spent', () => {
  const { send, retry, clock } = budgetWith({ minPerSecond: 0, ttlMs: 10_000 })
  send(1_000)
  clock.advance(10_000)
  expect(retry(10)).toBe(0)
})

test('stays within its share for an hour in which every request fails and is sent again three times', () => {
  const { send, retry, clock } = budgetWith({ ratio: 0.1, minPerSecond: 1, ttlMs: 10_000 })
  let [requests, retries] = [0, 0]
  for (let second = 0; second < 3_600; second++) {
    const now = second % 60 < 30 ? 200 : 20
    for (let i = 0; i < now; i++) {
      send(1)
      retries += retry(3)
    }
    requests += now
    clock.advance(1_000)
  }
  expect(retries).toBeLessThanOrEqual(0.1 * requests + 3_600 + 20)
  expect(retries).toBeGreaterThan(0.08 * requests)
})

test.each([
  [{ ratio: 1.5 }, /"ratio" of createRetryBudget\(\) is 1.5: give a number from 0 to 1/],
  [{ minPerSecond: -1 }, /"minPerSecond" of createRetryBudget\(\) is -1/],
  [{ ttlMs: 0 }, /"ttlMs" of createRetryBudget\(\) is 0/],
  [{ ttl: 5 }, /unknown option "ttl"/],
])('refuses %o', (options, message) => {
  expect(() => createRetryBudget(options as RetryBudgetOptions)).toThrow(message)
})
