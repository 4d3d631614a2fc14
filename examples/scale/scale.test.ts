import { expect, test } from 'vitest'
import { startRedis } from '../../packages/headgate/test/redis-server.ts'
import { printed } from '../printed.ts'

test('limits are divided, split, lent and merged over processes, nodes and regions', async () => {
  const [eu, us] = [await startRedis(), await startRedis()]
  process.env.REDIS_EU = eu.url
  process.env.REDIS_US = us.url
  try {
    await expect(await printed(() => import('./scale.ts'))).toMatchFileSnapshot('output.txt')
  } finally {
    await eu.stop()
    await us.stop()
  }
})
