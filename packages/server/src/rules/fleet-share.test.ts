import { expect, test } from 'vitest'
import { fleetShare } from './fleet-share.ts'

test.each([
  [{ limit: '10000/s' }, 20, { limit: '8000/s', most: 8000 }],
  [{ limit: '10_000/s burst 500' }, 20, { limit: '8000/s burst 400', most: 400 }],
  [{ limit: '1000/day calendar Europe/Berlin' }, 10, { limit: '900/day calendar Europe/Berlin', most: 900 }],
  [{ limit: '100/15min strict' }, 33.3, { limit: '66/15min strict', most: 66 }],
  [{ limit: 'unlimited' }, 20, { limit: 'unlimited', most: Infinity }],
  [{ limit: { limit: 10, per: '1s', burst: 20 } }, 50, { limit: { limit: 5, per: '1s', burst: 10 }, most: 5 }],
  [{ atOnce: 5000 }, 20, { atOnce: 4000, most: 4000 }],
  [{ atOnce: 7 }, 50, { atOnce: 3, most: 3 }],
  // 29 is 0.29 * 100 to nobody but a computer.
  [{ atOnce: 100 }, 71, { atOnce: 29, most: 29 }],
  [{ limit: '2/s' }, 60, { limit: '0/s', most: 0 }],
  [{ limit: '2/s' }, 0, { limit: '2/s', most: 2 }],
] as const)('%j without %d of a hundred', (limit, reserve, share) => {
  expect(fleetShare(limit, reserve)).toEqual(share)
})
