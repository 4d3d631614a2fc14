import { describe, expect, test } from 'vitest'
import { createGate, memory } from '../index.ts'
import { fakeClock } from '../testing/index.ts'
import { tables } from './all.cases.ts'

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
