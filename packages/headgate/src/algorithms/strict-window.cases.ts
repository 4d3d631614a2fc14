import type { Cases } from './table.cases.ts'

export const strictWindowCases: Cases = {
  limit: '3/min strict',
  cases: {
    'counts a unit for the window and to the end of its slice of a tenth': [
      [1, 3, true, 0, 0],
      [60, 1, false, 0, 6],
      [65.999, 1, false, 0, 0.001],
      [66, 3, true, 0, 0],
    ],
    'gives slices back one by one': [
      [0, 1, true, 2, 0],
      [7, 1, true, 1, 0],
      [13, 1, true, 0, 0],
      [14, 2, false, 0, 58],
      [72, 2, true, 0, 0],
      [72, 1, false, 0, 6],
    ],
    'never lets through a cost above its limit': [[0, 4, false, 3, Infinity]],
    'grants nothing extra when the clock steps back': [
      [30, 3, true, 0, 0],
      [10, 1, false, 0, 86],
      [96, 3, true, 0, 0],
    ],
  },
}
