import { expect, test } from 'vitest'
import { printed } from '../printed.ts'

test('processes share a limit in the service, and go on without it', async () => {
  await expect(await printed(() => import('./remote.ts'))).toMatchFileSnapshot('output.txt')
})
