import { Redis } from 'ioredis'
import { describe, expect, onTestFinished, test } from 'vitest'
import { canStartRedis, type OwnRedis } from '../../headgate/test/redis-server.ts'
import { ownRedis } from '../test/service.ts'
import { quickCalls } from './script-calls.ts'

const TELL = `if ARGV[1] == 'fail' then return redis.error_reply('OOPS it failed') end return {KEYS, ARGV, 7}`

function clientOf(redis: OwnRedis): Redis {
  const client = new Redis(redis.url, { maxRetriesPerRequest: 0, enableOfflineQueue: false })
  client.on('error', () => {})
  onTestFinished(() => client.disconnect())
  return client
}

describe.skipIf(!canStartRedis)('a call of a script', () => {
  async function both(script = TELL) {
    const redis = await ownRedis()
    const client = clientOf(redis)
    await new Promise((resolve) => client.once('ready', resolve))
    const sha = (await client.script('LOAD', script)) as string
    const quick = quickCalls(client)
    return {
      redis,
      quick: (keys: string[], args: (string | number)[]) => quick.evalsha(sha, keys, args),
      usual: (keys: string[], args: (string | number)[]) => client.evalsha(sha, keys.length, ...keys, ...args),
    }
  }

  test('brings and gets the same bytes as one of ioredis', async () => {
    const { quick, usual } = await both()
    const long = 'x'.repeat(100_000)
    const told = ['', 'a', 'ключ', '🔑'.repeat(40), 'a\r\n$1\r\nb', '\u0000\u0001\u00ff', long]
    const numbers = [0, -1, 1.5, 2 ** 53, 1_800_000_000_000_000, 1_800_000_000_000_001, -0, 1e-7]
    for (const [keys, args] of [
      [[], []],
      [told, numbers],
      [told.slice(1), [...numbers, ...told]],
      [['k'], [1, '1', 1, '1']],
    ] as [string[], (string | number)[]][]) {
      const expected = await usual(keys, args)
      expect(await quick(keys, args)).toEqual(expected)
      expect(await quick(keys, args)).toEqual(expected)
    }
    // More than are kept.
    for (let i = 0; i < 2_500; i++)
      expect(await quick([`k${i}`], [i, `v${i}`])).toEqual([[`k${i}`], [`${i}`, `v${i}`], 7])
  })

  test('rejects with what Redis says, and with what the client says once there is no Redis', async () => {
    const { redis, quick } = await both()
    await expect(quick(['k'], ['fail'])).rejects.toThrow('OOPS it failed')
    await expect(quickCalls(clientOf(redis)).evalsha('0'.repeat(40), [], [])).rejects.toThrow()
    await redis.stop()
    await expect(quick(['k'], ['a'])).rejects.toThrow()
  })

  test('that is one of many under way gets its own reply', async () => {
    const { quick } = await both()
    const answers = await Promise.all(Array.from({ length: 500 }, (_, i) => quick([`k${i}`], [i])))
    expect(answers).toEqual(Array.from({ length: 500 }, (_, i) => [[`k${i}`], [`${i}`], 7]))
  })
})
