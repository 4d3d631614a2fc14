import { describe, expect, test } from 'vitest'
import { Calendar, type CalendarUnit } from './calendar.ts'

/** Start and end of the period around an instant, as ISO text. */
function around(unit: CalendarUnit, zone: string, at: string): string[] {
  const calendar = new Calendar(unit, zone)
  calendar.locate(Date.parse(at) * 1000)
  return [calendar.startUs, calendar.endUs].map((us) => new Date(us / 1000).toISOString().replace('.000', ''))
}

const hours = ([start = '', end = '']: string[]) => (Date.parse(end) - Date.parse(start)) / 3_600_000

describe('calendar periods', () => {
  test('are as long as the people of a zone live them', () => {
    expect(hours(around('day', 'America/New_York', '2026-03-08T12:00Z'))).toBe(23)
    expect(hours(around('day', 'America/New_York', '2026-11-01T12:00Z'))).toBe(25)
    expect(hours(around('day', 'Australia/Lord_Howe', '2026-04-05T00:00Z'))).toBe(24.5)
    expect(hours(around('day', 'UTC', '2026-03-08T12:00Z'))).toBe(24)
    expect(hours(around('month', 'Europe/Berlin', '2026-03-15T00:00Z'))).toBe(31 * 24 - 1)
    expect(hours(around('year', 'UTC', '2028-03-15T00:00Z'))).toBe(366 * 24)
  })

  test('start at the first instant of their date, also where midnight is skipped', () => {
    expect(around('day', 'Africa/Cairo', '2026-04-24T12:00Z')[0]).toBe('2026-04-23T22:00:00Z')
    expect(hours(around('day', 'Africa/Cairo', '2026-04-24T12:00Z'))).toBe(23)
    expect(around('day', 'America/Santiago', '2026-09-06T12:00Z')[0]).toBe('2026-09-06T04:00:00Z')
    expect(around('day', 'Asia/Kolkata', '2026-01-01T00:00Z')[0]).toBe('2025-12-31T18:30:00Z')
  })

  test('do not start twice where clocks fall back across midnight', () => {
    // St John's left summer time at 00:01 on 29 October 2006: 23:01 on the 28th came again.
    const first = around('day', 'America/St_Johns', '2006-10-29T02:30:30Z')
    expect(first[0]).toBe('2006-10-29T02:30:00Z')
    expect(around('day', 'America/St_Johns', '2006-10-29T03:00:00Z')).toEqual(first)
    expect(hours(first)).toBe(25)
  })

  test('skip no day and leave no gap over years, in zones far apart', () => {
    for (const zone of ['Pacific/Apia', 'America/St_Johns', 'Asia/Kathmandu', 'Europe/London', 'Africa/Casablanca']) {
      const calendar = new Calendar('day', zone)
      let us = Date.UTC(2010, 0, 1) * 1000
      calendar.locate(us)
      for (let day = 0; day < 800; day++) {
        const end = calendar.endUs
        expect(calendar.startUs).toBeLessThanOrEqual(us)
        us = end
        calendar.locate(us)
        expect(calendar.startUs).toBe(end)
        calendar.locate(end - 1)
        expect(calendar.endUs).toBe(end)
        calendar.locate(us)
      }
    }
  }, 60_000)

  test('weeks start on Monday and months on the first', () => {
    expect(around('week', 'UTC', '2026-11-15T23:59:59Z')).toEqual(['2026-11-09T00:00:00Z', '2026-11-16T00:00:00Z'])
    expect(around('week', 'UTC', '2026-11-16T00:00:00Z')[0]).toBe('2026-11-16T00:00:00Z')
    expect(around('month', 'Asia/Tokyo', '2026-01-31T15:00:00Z')).toEqual([
      '2026-01-31T15:00:00Z',
      '2026-02-28T15:00:00Z',
    ])
    expect(around('month', 'UTC', '2026-12-31T00:00:00Z')[1]).toBe('2027-01-01T00:00:00Z')
  })
})
