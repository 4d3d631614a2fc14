import { describe, expect, test } from 'vitest'
import { createGate, memory } from '../index.ts'
import { fakeClock } from '../testing/index.ts'
import { calendarCases, firstHitCases, fixedWindowCases, monthCases, weekCases } from './fixed-window.cases.ts'
import { gcraCases, unevenCases } from './gcra.cases.ts'
import { slidingLogCases } from './sliding-log.cases.ts'
import { slidingWindowCases } from './sliding-window.cases.ts'
import { strictWindowCases } from './strict-window.cases.ts'
import type { Cases } from './table.cases.ts'

const tables: Record<string, Cases> = {
  gcra: gcraCases,
  'token-bucket': { ...gcraCases, options: { algorithm: 'token-bucket' } },
  'leaky-bucket': { ...gcraCases, options: { algorithm: 'leaky-bucket' } },
  'gcra, uneven rate': unevenCases,
  'fixed-window': fixedWindowCases,
  'fixed-window from the first hit': firstHitCases,
  'fixed-window by local day': calendarCases,
  'fixed-window by month': monthCases,
  'fixed-window by week': weekCases,
  'sliding-window': slidingWindowCases,
  'sliding-log': slidingLogCases,
  'strict-window': strictWindowCases,
}

describe.each(Object.entries(tables))('%s', (_, { limit, options, cases }) => {
  test.each(Object.entries(cases))('%s', (_, rows) => {
    const clock = fakeClock()
    const gate = createGate({ limit, ...options, store: memory({ clock }) })
    for (const [at, cost, ok, remaining, retryAfter] of rows) {
      clock.set(at * 1000)
      // Without options a take goes the short way; both must decide alike.
      const seen = cost === 1 ? gate.take('key') : gate.take('key', { cost })
      expect([at, cost, seen.ok, seen.remaining, seen.retryAfterMs / 1000]).toEqual([
        at,
        cost,
        ok,
        remaining,
        retryAfter,
      ])
    }
  })
})
