import { expect, test } from 'vitest'
import { printed } from '../printed.ts'

test('a limit is enforced for a share of its keys, and counts for all', async () => {
  await expect(await printed(() => import('./rollout.ts'))).toMatchFileSnapshot('output.txt')
})
