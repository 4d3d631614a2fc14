import { expect, test } from 'vitest'
import { startRedis } from '../../packages/headgate/test/redis-server.ts'
import { printed } from '../printed.ts'

test('two processes share a limit, and nothing is charged for a refusal', async () => {
  const server = await startRedis()
  process.env.REDIS_URL = server.url
  try {
    await expect(await printed(() => import('./several-processes.ts'))).toMatchFileSnapshot('output.txt')
  } finally {
    await server.stop()
  }
})
