import { expect, test } from 'vitest'
import { startRedis } from '../../packages/headgate/test/redis-server.ts'
import { printed } from '../printed.ts'

test('a process borrows units of a hot key, spends them without asking, and gives back the rest', async () => {
  const server = await startRedis()
  process.env.REDIS_URL = server.url
  try {
    await expect(await printed(() => import('./leases.ts'))).toMatchFileSnapshot('output.txt')
  } finally {
    await server.stop()
  }
})
