import { expect, test } from 'vitest'
import { printed } from '../printed.ts'

test('reports are shed while there is too much to do, and payments pass', async () => {
  await expect(await printed(() => import('./overload.ts'))).toMatchFileSnapshot('output.txt')
})
