import type { Cases } from './table.cases.ts'

export const slidingLogCases: Cases = {
  limit: '3/min',
  options: { algorithm: 'sliding-log' },
  cases: {
    'gives every unit back exactly a window after it was taken': [
      [0, 1, true, 2, 0],
      [10, 1, true, 1, 0],
      [20, 1, true, 0, 0],
      [59.999, 1, false, 0, 0.001],
      [60, 1, true, 0, 0],
      [60, 1, false, 0, 10],
      [70, 2, false, 1, 10],
      [80, 2, true, 0, 0],
    ],
    'stores only what it let through': [
      [0, 3, true, 0, 0],
      [30, 1, false, 0, 30],
      [59, 1, false, 0, 1],
      [60, 3, true, 0, 0],
    ],
    'never lets through a cost above its limit': [[0, 4, false, 3, Infinity]],
    'grants nothing extra when the clock steps back': [
      [30, 2, true, 1, 0],
      [20, 1, true, 0, 0],
      [80, 1, false, 0, 10],
      [90, 3, true, 0, 0],
    ],
  },
}
