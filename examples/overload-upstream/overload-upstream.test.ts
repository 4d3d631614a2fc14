import { expect, test } from 'vitest'
import { printed } from '../printed.ts'

test('a service that has a bad day is spared, and served by again when it is well', async () => {
  await expect(await printed(() => import('./overload-upstream.ts'))).toMatchFileSnapshot('output.txt')
})
