import type { Cases } from './table.cases.ts'

export const gcraCases: Cases = {
  limit: '10/min burst 3',
  cases: {
    'spends its burst at once, then one unit at a time': [
      [0, 1, true, 2, 0],
      [0, 2, true, 0, 0],
      [0, 1, false, 0, 6],
      [5.999, 1, false, 0, 0.001],
      [6, 1, true, 0, 0],
    ],
    'charges nothing for a refused request': [
      [0, 2, true, 1, 0],
      [0, 2, false, 1, 6],
      [0, 2, false, 1, 6],
      [0, 1, true, 0, 0],
    ],
    'saves up no more than its burst': [
      [0, 3, true, 0, 0],
      [100_000, 3, true, 0, 0],
      [100_000, 1, false, 0, 6],
    ],
    'never lets through a cost above its burst': [
      [0, 4, false, 3, Infinity],
      [0, 3, true, 0, 0],
    ],
    'counts parts of a unit that have come back': [
      [0, 3, true, 0, 0],
      [3, 1, false, 0, 3],
      [9, 1, true, 0, 0],
      [12, 1, true, 0, 0],
      [12, 3, false, 0, 18],
    ],
    'grants nothing extra when the clock steps back': [
      [30, 3, true, 0, 0],
      [24, 1, false, 0, 12],
      [36, 1, true, 0, 0],
    ],
  },
}

/** A unit takes 3,600,000,000 / 7 us to come back, which is no whole number. */
export const unevenCases: Cases = {
  limit: '7/h',
  cases: {
    'comes back after exactly a seventh of an hour, rounded up to the microsecond': [
      [0, 7, true, 0, 0],
      [0, 1, false, 0, 514.286],
      [514.285, 1, false, 0, 0.001],
      [514.286, 1, true, 0, 0],
      [1028.571, 1, false, 0, 0.001],
      [1028.572, 1, true, 0, 0],
      [3600, 5, true, 0, 0],
    ],
    'loses no part of a unit over a whole window of single takes': [
      [0, 7, true, 0, 0],
      [600, 1, true, 0, 0],
      [1100, 1, true, 0, 0],
      [1600, 1, true, 0, 0],
      [2100, 1, true, 0, 0],
      [2600, 1, true, 0, 0],
      [3100, 1, true, 0, 0],
      [3599.999, 1, false, 0, 0.001],
      [3600, 1, true, 0, 0],
    ],
  },
}
