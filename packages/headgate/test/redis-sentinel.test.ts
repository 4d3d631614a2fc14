import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type SentinelSet, startSentinelSet } from './redis-sentinel.ts'
import { canStartRedis } from './redis-server.ts'
import type { Reply } from './resp.ts'
import { until } from './until.ts'

describe.skipIf(!canStartRedis)('Redis with sentinels, for tests', { timeout: 60_000 }, () => {
  let set: SentinelSet
  beforeAll(async () => {
    set = await startSentinelSet()
  })
  afterAll(async () => set?.stop())

  async function role(server: SentinelSet['servers'][number]): Promise<Reply> {
    const [name = null] = (await server.call('ROLE')) as Reply[]
    return name
  }

  test('begins with one master, whose keys its replicas have', async () => {
    expect(await set.master()).toBe(set.servers[0])
    expect(await Promise.all(set.servers.map(role))).toEqual(['master', 'slave', 'slave'])
    await set.servers[0]?.call('SET', 'key', 'value')
    await until('the copy', async () => ((await set.servers[2]?.call('GET', 'key')) === 'value' ? true : undefined))
  })

  test('promotes a replica when it is told to, and demotes the master', async () => {
    const old = await set.master()
    const next = await set.failover()
    expect(next).not.toBe(old)
    expect(await set.master()).toBe(next)
    expect(await next.call('SET', 'key', 'after the failover')).toBe('OK')
    await until('the old master to follow', async () => ((await role(old)) === 'slave' ? true : undefined))
    await expect(old.call('SET', 'key', 'lost')).rejects.toThrow('READONLY')
  })

  test('promotes a replica when the master is killed; the killed one comes back as a replica', async () => {
    const old = await set.master()
    await old.kill()
    const next = await set.masterAfter(old)
    expect(await role(next)).toBe('master')
    await old.restart()
    await until('the old master to follow', async () => ((await role(old)) === 'slave' ? true : undefined))
  })
})
