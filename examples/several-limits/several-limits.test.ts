import { expect, test } from 'vitest'
import { printed } from '../printed.ts'

test('five limits are decided as one and a refused call is charged nowhere', async () => {
  await expect(await printed(() => import('./several-limits.ts'))).toMatchFileSnapshot('output.txt')
})
