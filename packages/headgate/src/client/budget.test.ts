import { describe, expect, test } from 'vitest'
import type { Policy } from '../headers/parse.ts'
import { Budget } from './budget.ts'

const START = 1_000_000

/** A budget, and what happens to it at which millisecond. */
function tenASecond(over: Partial<Policy> = {}) {
  const budget = new Budget('["legacy",10,""]')
  const situation = { demand: 100, peers: 1, patienceMs: 60_000 }
  const send = (ms: number) => budget.send(1, START + ms, situation)
  return {
    budget,
    send,
    /** The call that was sent then is answered now. */
    told(index: number, sentMs: number, ms: number, remaining: number, extra: Partial<Policy> = {}, refused = false) {
      if (index > 0) budget.answered(1)
      const policy: Policy = { limit: 10, remaining, resetAfterMs: 1000, source: 'legacy', ...over, ...extra }
      const lesson = {
        policy,
        index,
        sentMs: START + sentMs,
        nowMs: START + ms,
        refused,
        isCounted: index > 0,
        isFromInstant: false,
      }
      budget.learn(lesson)
    },
    readyMs: (ms: number, demand = 100) => budget.readyAtMs(1, { ...situation, demand, nowMs: START + ms }) - START,
  }
}

describe('one limit as its server tells it', () => {
  test('goes out evenly, a little faster than that', () => {
    const { told, send, readyMs } = tenASecond()
    told(0, 0, 0, 9)
    send(0)
    expect(readyMs(0)).toBeCloseTo(91, 0)
    send(91)
    expect(readyMs(91)).toBeCloseTo(182, 0)
  })

  test('goes out sooner where it is enough for all who wait, and at once where it is ten times that', () => {
    const { told, send, readyMs } = tenASecond()
    told(0, 0, 0, 9)
    send(0)
    expect(readyMs(0, 8)).toBeCloseTo(20, 0)
    expect(readyMs(0, 0)).toBeLessThanOrEqual(0)
  })

  test('waits for the end of the window when nothing is left, and not for that of a rounded field', () => {
    const { told, send, readyMs } = tenASecond()
    told(0, 0, 0, 9)
    const index = send(500)
    told(index, 500, 510, 0)
    expect(readyMs(510)).toBe(1002)
  })

  test('does not take the last word about a window that is over for one about the next', () => {
    const { told, send, readyMs } = tenASecond()
    told(0, 0, 0, 9)
    const index = send(995)
    told(index, 995, 1010, 0)
    expect(readyMs(1010)).toBeLessThanOrEqual(1010)
  })

  test('is known for one that fills up all the time when more is left than there should be', () => {
    const { told, send, readyMs } = tenASecond({ windowMs: 1000 })
    told(0, 0, 0, 9)
    for (const ms of [100, 200, 300, 400]) told(send(ms), ms, ms + 5, 9)
    told(send(500), 500, 505, 0)
    // The next unit, not the next window.
    expect(readyMs(505)).toBeCloseTo(607, 0)
  })

  test('is shared with many if we were refused and have used next to nothing of it, in this window and in the one before', () => {
    const { budget, told, send, readyMs } = tenASecond({ windowMs: 1000 })
    told(0, 0, 0, 0, {}, true)
    expect(budget.crowdMs).toBe(20_000)
    for (const ms of [1100, 1200, 1300]) told(send(ms), ms, ms + 5, 9)
    expect(budget.crowdMs).toBe(0)
    // The window is over, and of the next one nothing was used yet.
    readyMs(2_500)
    told(send(2_500), 2_500, 2_505, 0, {}, true)
    expect(budget.crowdMs).toBe(0)
  })

  test('learns what calls use where nobody says it', () => {
    const budget = new Budget('["vendor","tokens","tokens"]', 'tokens')
    let left = 100_000
    for (let call = 1; call <= 20; call++) {
      const index = budget.send(1, START + call * 100, { demand: 1, peers: 1 })
      budget.answered(1)
      left -= 1_000
      const policy: Policy = { limit: 100_000, remaining: left, unit: 'tokens', source: 'vendor' }
      budget.learn({
        policy,
        index,
        sentMs: START,
        nowMs: START + call * 100,
        refused: false,
        isCounted: true,
        isFromInstant: false,
      })
    }
    expect(budget.weigh(undefined)).toBeGreaterThan(900)
    expect(budget.weigh({ tokens: 50 })).toBe(50)
    expect(budget.weigh(3)).toBeGreaterThan(900)
  })
})
