import { expect, test } from 'vitest'
import { printed } from '../printed.ts'

test('a payment that is sent twice is made once and charged once', async () => {
  await expect(await printed(() => import('./idempotency.ts'))).toMatchFileSnapshot('output.txt')
})
