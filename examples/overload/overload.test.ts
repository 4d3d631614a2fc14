import { expect, test } from 'vitest'
import { printed } from '../printed.ts'

test('a flood of reports holds up neither a payment nor another caller', async () => {
  await expect(await printed(() => import('./overload.ts'))).toMatchFileSnapshot('output.txt')
})
