import fc from 'fast-check'
import { expect, test } from 'vitest'
import { runs } from '../properties/support.ts'
import { staggerUs } from './stagger.ts'
import { mulDiv, mulDivUp, rest } from './whole.ts'

test('multiplies and divides exactly, also where the product is far above 2^53', () => {
  const divisor = fc.integer({ min: 1, max: 3e15 })
  const operands = divisor.chain((m) =>
    fc.tuple(fc.integer({ min: 0, max: m - 1 }), fc.integer({ min: 0, max: 2 ** 53 - 1 }), fc.constant(m)),
  )
  fc.assert(
    fc.property(operands, ([a, b, m]) => {
      const product = BigInt(a) * BigInt(b)
      const quotient = mulDiv(a, b, m)
      expect([BigInt(quotient), BigInt(rest)]).toEqual([product / BigInt(m), product % BigInt(m)])
      expect(BigInt(mulDivUp(a, b, m))).toBe((product + BigInt(m) - 1n) / BigInt(m))
    }),
    {
      ...runs(2000),
      examples: [[[2999999999999999, 2 ** 53 - 1, 3e15]], [[0, 5, 1]], [[86399999999, 999983, 86400000000]]],
    },
  )
})

test('shifts the windows of keys evenly over the window, the same at every call', () => {
  const tenths = new Array(10).fill(0)
  for (let i = 0; i < 10_000; i++) {
    const offset = staggerUs(`user-${i}`, 60_000_000)
    expect(offset).toBe(staggerUs(`user-${i}`, 60_000_000))
    expect(Number.isInteger(offset) && offset >= 0 && offset < 60_000_000).toBe(true)
    tenths[Math.floor(offset / 6_000_000)]++
  }
  expect(Math.min(...tenths)).toBeGreaterThan(850)
  expect(Math.max(...tenths)).toBeLessThan(1150)
})
