import { expect, test } from 'vitest'
import { printed } from '../printed.ts'

test('a simulated fleet keeps its limits, and says the same every time', async () => {
  await expect(await printed(() => import('./simulator.ts'))).toMatchFileSnapshot('output.txt')
})
