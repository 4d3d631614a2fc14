import { expect, test } from 'vitest'
import { Evenly } from './evenly.ts'

test('picks as many as the share says, and never many in a row', () => {
  for (const share of [0.1, 0.25, 1 / 3, 0.5, 0.9]) {
    const evenly = new Evenly()
    let [picked, row] = [0, 0]
    for (let i = 0; i < 1_000; i++) {
      const picks = evenly.picks(share, undefined)
      row = picks ? row + 1 : 0
      if (picks) picked++
      expect(row).toBeLessThanOrEqual(Math.ceil(share / (1 - share)))
    }
    expect(Math.abs(picked - 1_000 * share)).toBeLessThanOrEqual(1)
  }
})

test('picks nothing at 0 and everything at 1', () => {
  const evenly = new Evenly()
  for (let i = 0; i < 100; i++) expect([evenly.picks(0, 'a'), evenly.picks(1, 'a')]).toEqual([false, true])
})

test('picks as much of each of two callers who take turns', () => {
  const evenly = new Evenly()
  const picked = { ann: 0, bob: 0 }
  for (let i = 0; i < 10_000; i++) {
    if (i % 100 === 0) evenly.rotate() // those who share a lane do so for a while only
    if (evenly.picks(0.5, 'ann')) picked.ann++
    if (evenly.picks(0.5, 'bob')) picked.bob++
  }
  expect(picked.ann).toBeGreaterThan(4_000)
  expect(picked.bob).toBeGreaterThan(4_000)
})

test('picks a share of many callers who come once each', () => {
  const evenly = new Evenly()
  let picked = 0
  for (let i = 0; i < 2_000; i++) if (evenly.picks(0.2, `caller-${i}`)) picked++
  expect(picked).toBeGreaterThan(300)
  expect(picked).toBeLessThan(500)
})
