import { expect, test } from 'vitest'
import { printed } from '../printed.ts'

test('the quick start lets a burst through, then tells when to come back', async () => {
  await expect(await printed(() => import('./quick-start.ts'))).toMatchFileSnapshot('output.txt')
})
