import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createGate, type Period } from '../index.ts'
import { Windows } from './model.ts'
import { clockInUs, expected, runs, seen } from './support.ts'

/** Where windows start, worked out by asking for the local date of every minute: the first with a new date starts a day. */
const calendars: [what: string, per: Period, zone: string, starts: string][] = [
  [
    'days of 23 hours',
    'day',
    'America/New_York',
    '2026-03-07T05:00 2026-03-08T05:00 2026-03-09T04:00 2026-03-10T04:00',
  ],
  [
    'days of 25 hours',
    'day',
    'America/New_York',
    '2026-10-31T04:00 2026-11-01T04:00 2026-11-02T05:00 2026-11-03T05:00',
  ],
  [
    'days of 24.5 hours',
    'day',
    'Australia/Lord_Howe',
    '2026-04-03T13:00 2026-04-04T13:00 2026-04-05T13:30 2026-04-06T13:30',
  ],
  [
    'days of 23.5 hours',
    'day',
    'Australia/Lord_Howe',
    '2026-10-02T13:30 2026-10-03T13:30 2026-10-04T13:00 2026-10-05T13:00',
  ],
  [
    'days that start at 01:00',
    'day',
    'Africa/Cairo',
    '2026-04-22T22:00 2026-04-23T22:00 2026-04-24T21:00 2026-04-25T21:00',
  ],
  [
    'days that reach midnight twice',
    'day',
    'Africa/Cairo',
    '2026-10-27T21:00 2026-10-28T21:00 2026-10-29T22:00 2026-10-30T22:00',
  ],
  [
    'days without 00:00',
    'day',
    'America/Santiago',
    '2026-09-05T04:00 2026-09-06T04:00 2026-09-07T03:00 2026-09-08T03:00',
  ],
  [
    'days with two last hours',
    'day',
    'America/Santiago',
    '2026-04-03T03:00 2026-04-04T03:00 2026-04-05T04:00 2026-04-06T04:00',
  ],
  [
    'days that skip 00:01',
    'day',
    'America/St_Johns',
    '2006-04-01T03:30 2006-04-02T03:30 2006-04-03T02:30 2006-04-04T02:30',
  ],
  // At 00:01 on the 29th the clocks went back into the 28th. The 29th had begun, so it goes on.
  [
    'days that go back to the day before',
    'day',
    'America/St_Johns',
    '2006-10-28T02:30 2006-10-29T02:30 2006-10-30T03:30 2006-10-31T03:30',
  ],
  ['a date left out', 'day', 'Pacific/Apia', '2011-12-28T10:00 2011-12-29T10:00 2011-12-30T10:00 2011-12-31T10:00'],
  ['days in UTC', 'day', 'UTC', '2026-03-07T00:00 2026-03-08T00:00 2026-03-09T00:00 2026-03-10T00:00'],
  [
    'weeks from Monday',
    'week',
    'America/New_York',
    '2026-03-02T05:00 2026-03-09T04:00 2026-03-16T04:00 2026-03-23T04:00',
  ],
  [
    'weeks over a date lived twice',
    'week',
    'America/St_Johns',
    '2006-10-16T02:30 2006-10-23T02:30 2006-10-30T03:30 2006-11-06T03:30',
  ],
  ['months', 'month', 'America/New_York', '2026-02-01T05:00 2026-03-01T05:00 2026-04-01T04:00 2026-05-01T04:00'],
  ['a leap month', 'month', 'UTC', '2024-01-01T00:00 2024-02-01T00:00 2024-03-01T00:00 2024-04-01T00:00'],
  ['years', 'year', 'America/Santiago', '2023-01-01T03:00 2024-01-01T03:00 2025-01-01T03:00 2026-01-01T03:00'],
]

describe.each(calendars)('calendar windows: %s', (_, per, zone, list) => {
  const starts = list.split(' ').map((text) => BigInt(Date.parse(`${text}Z`)) * 1000n)
  const [first = 0n, end = 0n] = [starts[0], starts.at(-1)]
  const startOf = (now: bigint) => starts.filter((start) => start <= now).at(-1) ?? 0n
  /** Anywhere, and again and again within microseconds, seconds or an hour of a boundary. */
  const near = fc.tuple(fc.constantFrom(...starts), fc.bigInt(-3n, 3n), fc.constantFrom(1n, 1_000_000n, 1_200_000_000n))
  const anywhere = fc.oneof(
    near.map(([start, steps, us]) => start + steps * us),
    fc.bigInt(first, end - 1n),
  )
  const instants = fc
    .array(anywhere, { minLength: 1, maxLength: 30 })
    .map((all) => all.filter((at) => at >= first && at < end))

  const compare = (limit: bigint, all: readonly bigint[]) => {
    const { clock, at } = clockInUs()
    const gate = createGate({ limit: { limit: Number(limit), per, align: 'calendar', zone }, clock })
    const model = new Windows(limit, startOf)
    for (const instant of all) {
      at(instant)
      const ok = model.take(instant, 1n) !== undefined
      expect(seen(gate.take('k'))).toEqual(expected(model, instant, 1n, ok))
    }
  }

  it('count per local period and say to the millisecond when the next begins [P2, P3, P6]', () => {
    const sorted = instants.map((all) => all.sort((a, b) => Number(a - b)))
    fc.assert(fc.property(fc.bigInt(1n, 4n), sorted, compare), runs(12))
  })

  it('stay in the period they had got to when the clock steps back [P11]', () => {
    fc.assert(fc.property(fc.bigInt(1n, 4n), instants, compare), runs(12))
  })
})
