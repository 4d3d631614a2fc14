import { afterAll, expect, test } from 'vitest'
import { printed } from '../printed.ts'
import { byTheRules, inABatch, reserveAndSettle, service } from './decisions.ts'

afterAll(() => service.stop())

test('a request is judged by the rules', async () => {
  await expect(await printed(byTheRules)).toMatchFileSnapshot('by-the-rules.txt')
})

test('what was reserved is corrected once', async () => {
  await expect(await printed(reserveAndSettle)).toMatchFileSnapshot('reserve-and-settle.txt')
})

test('each item of a batch has its own answer', async () => {
  await expect(await printed(inABatch)).toMatchFileSnapshot('in-a-batch.txt')
})
