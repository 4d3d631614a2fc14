import { expect, test } from 'vitest'
import { printed } from '../printed.ts'

test('a denied caller is told which limit, what is left of the others, and when to come back', async () => {
  await expect(await printed(() => import('./denied.ts'))).toMatchFileSnapshot('output.txt')
})
