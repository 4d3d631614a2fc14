import type { Cases } from './table.cases.ts'

const options = { algorithm: 'fixed-window' } as const

export const fixedWindowCases: Cases = {
  limit: '3/min',
  options,
  cases: {
    'starts anew at every full minute': [
      [50, 1, true, 2, 0],
      [50, 2, true, 0, 0],
      [50, 1, false, 0, 10],
      [59.999, 1, false, 0, 0.001],
      [60, 3, true, 0, 0],
      [60, 1, false, 0, 60],
    ],
    'charges nothing for a refused request': [
      [0, 2, true, 1, 0],
      [0, 2, false, 1, 60],
      [0, 1, true, 0, 0],
    ],
    'never lets through a cost above its limit': [[0, 4, false, 3, Infinity]],
    'stays in the window it had reached when the clock steps back': [
      [60, 2, true, 1, 0],
      [30, 2, false, 1, 90],
      [59, 1, true, 0, 0],
      [60, 1, false, 0, 60],
      [120, 1, true, 2, 0],
    ],
  },
}

export const firstHitCases: Cases = {
  limit: '2/min',
  options: { ...options, align: 'first-hit' },
  cases: {
    'starts its window with the first request': [
      [50, 1, true, 1, 0],
      [60, 1, true, 0, 0],
      [109.999, 1, false, 0, 0.001],
      [110, 2, true, 0, 0],
      [169, 1, false, 0, 1],
      [500, 1, true, 1, 0],
    ],
  },
}

/** New York set its clocks forward on 8 March 2026 at 2:00: that day had 23 hours. */
const march8 = Date.UTC(2026, 2, 8, 5) / 1000
export const calendarCases: Cases = {
  limit: '2/day calendar America/New_York',
  cases: {
    'starts anew at local midnight, also after a day of 23 hours': [
      [march8 - 1, 2, true, 0, 0],
      [march8 - 1, 1, false, 0, 1],
      [march8, 2, true, 0, 0],
      [march8, 1, false, 0, 23 * 3600],
      [march8 + 23 * 3600, 1, true, 1, 0],
      [march8 + 23 * 3600, 2, false, 1, 24 * 3600],
    ],
  },
}

/** February 2026 has 28 days; weeks start on Monday. */
const february = Date.UTC(2026, 1, 1) / 1000
export const monthCases: Cases = {
  limit: '5/month calendar',
  cases: {
    'starts anew on the first of the month': [
      [february, 5, true, 0, 0],
      [february, 1, false, 0, 28 * 86_400],
      [february + 28 * 86_400, 1, true, 4, 0],
      [february + 28 * 86_400, 5, false, 4, 31 * 86_400],
    ],
  },
}

const monday = Date.UTC(2026, 1, 2) / 1000
export const weekCases: Cases = {
  limit: '5/week calendar',
  cases: {
    'starts anew on Monday': [
      [monday - 1, 5, true, 0, 0],
      [monday, 5, true, 0, 0],
      [monday, 1, false, 0, 7 * 86_400],
    ],
  },
}
