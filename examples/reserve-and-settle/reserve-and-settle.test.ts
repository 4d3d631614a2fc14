import { expect, test } from 'vitest'
import { printed } from '../printed.ts'

test('an estimate is reserved, settled to what was used, and refunded on failure', async () => {
  await expect(await printed(() => import('./reserve-and-settle.ts'))).toMatchFileSnapshot('output.txt')
})
