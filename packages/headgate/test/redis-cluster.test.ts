import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RedisCluster, startCluster } from './redis-cluster.ts'
import { canStartRedis, type OwnRedis } from './redis-server.ts'
import { callAll } from './resp.ts'
import { until } from './until.ts'

describe.skipIf(!canStartRedis)('a Redis cluster for tests', { timeout: 60_000 }, () => {
  let cluster: RedisCluster
  let servers: readonly OwnRedis[]
  beforeAll(async () => {
    cluster = await startCluster({ masters: 3 })
    servers = cluster.servers
  })
  afterAll(async () => cluster?.stop())

  async function owner(key: string): Promise<OwnRedis> {
    return servers[await cluster.ownerOf(cluster.slotOf(key))] as OwnRedis
  }

  test.each(['', 'key', 'é', '{user}:1', 'a{user}', '{}a', 'a{}{b}', 'a{b}{c}', 'a{b', 'a}b{c}'])(
    'knows the slot of "%s"',
    async (key) => {
      expect(cluster.slotOf(key)).toBe(await servers[0]?.call('CLUSTER', 'KEYSLOT', key))
    },
  )

  test('serves every slot, each at one server', async () => {
    expect(await cluster.ownerOf(0)).toBe(0)
    expect(await cluster.ownerOf(8_191)).toBe(1)
    expect(await cluster.ownerOf(16_383)).toBe(2)
    expect(await (await owner('key')).call('SET', 'key', 'value')).toBe('OK')
    const answers = await Promise.allSettled(servers.map((server) => server.call('GET', 'key')))
    expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  })

  test('moves a slot step by step, and says so to those who ask meanwhile', async () => {
    const [a, b, unborn] = ['{move}a', '{move}b', '{move}c']
    const slot = cluster.slotOf(a)
    const from = await cluster.ownerOf(slot)
    const to = (from + 1) % 3
    const [source, target] = [servers[from] as OwnRedis, servers[to] as OwnRedis]
    await source.call('MSET', a, '1', b, '2')

    const move = await cluster.beginMove(slot, to)
    expect(await source.call('GET', a)).toBe('1')
    await expect(source.call('GET', unborn)).rejects.toThrow(`ASK ${slot} 127.0.0.1:${target.port}`)
    expect(await callAll(target.url, [['ASKING'], ['SET', unborn, '3']])).toEqual(['OK', 'OK'])

    expect(await move.moveKeys(1)).toBe(1)
    await expect(source.call('MGET', a, b)).rejects.toThrow('TRYAGAIN')
    expect(await cluster.ownerOf(slot)).toBe(from)

    await move.finish()
    expect(await cluster.ownerOf(slot)).toBe(to)
    await expect(source.call('GET', a)).rejects.toThrow(`MOVED ${slot} 127.0.0.1:${target.port}`)
    expect(await target.call('MGET', a, b, unborn)).toEqual(['1', '2', '3'])

    await cluster.moveSlot(slot, from)
    expect(await source.call('MGET', a, b, unborn)).toEqual(['1', '2', '3'])
  })

  test('takes a server back that was killed, without its keys', async () => {
    const server = await owner('key')
    await server.kill()
    await server.restart()
    const answer = await until('its slots to be served again', () => server.call('GET', 'key').then((value) => [value]))
    expect(answer).toEqual([null])
  })
})
