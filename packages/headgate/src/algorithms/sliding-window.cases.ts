import type { Cases } from './table.cases.ts'

export const slidingWindowCases: Cases = {
  limit: '10/min',
  options: { algorithm: 'sliding-window' },
  cases: {
    'fades the last window out in a straight line': [
      [0, 10, true, 0, 0],
      [60, 1, false, 0, 6],
      [65.999, 1, false, 0, 0.001],
      [66, 1, true, 0, 0],
      [90, 5, false, 4, 6],
      [90, 4, true, 0, 0],
      [96, 1, true, 0, 0],
    ],
    'waits into the next window where this one is too full': [
      [30, 8, true, 2, 0],
      [30, 5, false, 2, 52.5],
      [82.499, 5, false, 4, 0.001],
      [82.5, 5, true, 0, 0],
    ],
    'gives a burst at the start of a window back in full only two windows later': [
      [0, 10, true, 0, 0],
      [119.999, 10, false, 9, 0.001],
      [120, 10, true, 0, 0],
    ],
    'never lets through a cost above its limit': [[0, 11, false, 10, Infinity]],
    'charges nothing for a refused request': [
      [0, 6, true, 4, 0],
      [0, 5, false, 4, 70],
      [0, 4, true, 0, 0],
    ],
    'grants nothing extra when the clock steps back': [
      [60, 10, true, 0, 0],
      [55, 1, false, 0, 71],
      [126, 1, true, 0, 0],
    ],
  },
}
