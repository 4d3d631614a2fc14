import fc from 'fast-check'
import { expect, test } from 'vitest'
import { randomBy } from '../../../headgate/test/random.ts'
import { TopKeys } from './top-keys.ts'

/** Some keys ask much, most ask little: how much is drawn. */
const traffic = fc
  .record({
    keys: fc.integer({ min: 1, max: 3_000 }),
    skew: fc.double({ min: 0.5, max: 3, noNaN: true }),
    seed: fc.nat(),
  })
  .map(({ keys, skew, seed }) => {
    const random = randomBy(seed)
    return Array.from({ length: 20_000 }, () => Math.floor(keys * random() ** (skew ** 2)))
  })

test('nobody counts for more than it asked, nor for less by more than a part of all', () => {
  const most = 64
  fc.assert(
    fc.property(traffic, (asks) => {
      const top = new TopKeys(most)
      const truth = new Map<string, number>()
      for (const ask of asks) {
        top.add(String(ask), 1, ask % 2 === 0)
        truth.set(String(ask), (truth.get(String(ask)) ?? 0) + 1)
      }
      const found = new Map(top.top(2 * most).map((each) => [each.key, each]))
      const [{ error }] = [...found.values(), { error: asks.length / most }] as [{ error: number }]
      expect(error).toBeLessThanOrEqual(asks.length / most)
      const wrong = [...truth].filter(([key, count]) => {
        const told = found.get(key)?.count ?? 0
        return told > count || told + error < count
      })
      expect(wrong).toEqual([])
      for (const { key, count, denied } of found.values()) expect(denied).toBeCloseTo(Number(key) % 2 === 0 ? count : 0)
    }),
    { numRuns: 30, seed: 11 },
  )
})

test('whoever asks more than its share is found among very many who do not', () => {
  const top = new TopKeys(256)
  for (let i = 0; i < 200_000; i++) top.add(i % 50 === 0 ? `loud-${i % 250}` : `one-${i}`, 1, false)
  const names = top.top(5).map(({ key }) => key)
  expect(names.sort()).toEqual(['loud-0', 'loud-100', 'loud-150', 'loud-200', 'loud-50'])
})

test('what was long ago counts less, and is forgotten in the end', () => {
  const top = new TopKeys(4)
  for (let i = 0; i < 100; i++) top.add('before', 1, false)
  top.decay(0.5)
  for (let i = 0; i < 60; i++) top.add('now', 1, false)
  expect(top.top(2).map(({ key, count }) => [key, count])).toEqual([
    ['now', 60],
    ['before', 50],
  ])
  for (let i = 0; i < 10; i++) top.decay(0.5)
  expect(top.top(2)).toEqual([])
})
