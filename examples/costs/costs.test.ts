import { expect, test } from 'vitest'
import { printed } from '../printed.ts'

test('each call costs what it is worth', async () => {
  await expect(await printed(() => import('./costs.ts'))).toMatchFileSnapshot('output.txt')
})
