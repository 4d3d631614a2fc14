import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type ClientKind,
  type Clients,
  type ClusterClients,
  clientKinds,
  connect,
  connectCluster,
  connectSentinel,
  type SentinelClients,
} from './clients.ts'
import { startProxy, type TcpProxy } from './proxy.ts'
import { type RedisCluster, startCluster } from './redis-cluster.ts'
import { type SentinelSet, startSentinelSet } from './redis-sentinel.ts'
import { canStartRedis, type OwnRedis, startRedis } from './redis-server.ts'
import { until } from './until.ts'

const source = "return { redis.call('INCR', KEYS[1]), ARGV[1], { false } }"
const sha = createHash('sha1').update(source).digest('hex')

/** How each library spells EVALSHA with one key and one argument. */
const evalsha: { [Kind in ClientKind]: (client: Clients[Kind], key: string, arg: string) => Promise<unknown> } = {
  ioredis: (client, key, arg) => client.evalsha(sha, 1, key, arg),
  iovalkey: (client, key, arg) => client.evalsha(sha, 1, key, arg),
  'node-redis': (client, key, arg) => client.evalSha(sha, { keys: [key], arguments: [arg] }),
  glide: (client, key, arg) => client.customCommand(['EVALSHA', sha, '1', key, arg]),
}

function runs<Kind extends ClientKind>(kind: Kind, client: Clients[Kind], key: string): Promise<unknown> {
  return evalsha[kind](client, key, 'é')
}

/** EVAL without keys, as a raw command: how each library spells what it has no method for. */
const evalRaw: { [Kind in ClientKind]: (client: Clients[Kind], code: string) => Promise<unknown> } = {
  ioredis: (client, code) => client.call('EVAL', code, 0),
  iovalkey: (client, code) => client.call('EVAL', code, 0),
  'node-redis': (client, code) => client.sendCommand(['EVAL', code, '0']),
  glide: (client, code) => client.customCommand(['EVAL', code, '0']),
}

function evaluate<Kind extends ClientKind>(kind: Kind, client: Clients[Kind], code: string): Promise<unknown> {
  return evalRaw[kind](client, code)
}

describe.skipIf(!canStartRedis).each(clientKinds)('%s', { timeout: 60_000 }, (kind) => {
  let redis: OwnRedis
  beforeAll(async () => {
    redis = await startRedis()
  })
  afterAll(async () => redis?.stop())

  test('runs scripts, and says when the server does not have one', async () => {
    const { client, close } = await connect(kind, redis)
    await redis.call('SCRIPT', 'FLUSH')
    await expect(runs(kind, client, 'key')).rejects.toThrow(/NOSCRIPT|NoScriptError/)
    await redis.call('SCRIPT', 'LOAD', source)
    expect(await runs(kind, client, 'key')).toEqual([1, 'é', [null]])
    await close()
  })

  test('hands on what an error reply says, in its own words', async () => {
    const { client, close } = await connect(kind, redis)
    const code = "return redis.error_reply('READONLY You cannot write')"
    const words = kind === 'glide' ? 'server: - ReadOnly: You cannot write' : /^READONLY You cannot write/
    await expect(evaluate(kind, client, code)).rejects.toThrow(words)
    await close()
  })

  const exact = kind === 'iovalkey' || kind === 'glide'
  test(`${exact ? 'keeps' : 'loses'} the last digit of integers close to 2^53`, async () => {
    const { client, close } = await connect(kind, redis)
    expect(await evaluate(kind, client, 'return 9007199254740941')).toBe(9007199254740941)
    expect(await evaluate(kind, client, 'return 9007199254740991')).toBe(exact ? 2 ** 53 - 1 : 2 ** 53)
    await close()
  })

  const again = kind === 'ioredis' || kind === 'iovalkey'
  test(`${again ? 'sends a command again' : 'rejects a command'} whose reply was lost`, async () => {
    const proxy = await startProxy(redis)
    const { client, close } = await connect(kind, proxy)
    await redis.call('SCRIPT', 'LOAD', source)
    proxy.stall('replies')
    const answer = runs(kind, client, 'lost').catch(() => 'rejected')
    await until('the command to arrive', async () => (await redis.call('GET', 'lost')) ?? undefined)
    await proxy.cut()
    await proxy.heal()
    expect(await answer).toEqual(again ? [2, 'é', [null]] : 'rejected')
    await until('the client to be back', () => runs(kind, client, 'later'))
    expect(await redis.call('GET', 'lost')).toBe(again ? '2' : '1')
    await close()
    await proxy.stop()
  })

  test('closes without a sound when the server is gone, or was never there', async () => {
    const gone = await startRedis()
    const { client, close } = await connect(kind, gone)
    await gone.kill()
    runs(kind, client, 'key').catch(() => {}) // may never settle
    await close()
    await close()

    const early = await connect(kind, gone, { ready: false })
    await early.close()
    await gone.stop()
  })
})

describe.skipIf(!canStartRedis)('clients of a cluster', { timeout: 60_000 }, () => {
  let cluster: RedisCluster
  beforeAll(async () => {
    cluster = await startCluster()
    await Promise.all(cluster.servers.map((server) => server.call('SCRIPT', 'LOAD', source)))
  })
  afterAll(async () => cluster?.stop())

  const clusterEvalsha: { [Kind in ClientKind]: (client: ClusterClients[Kind], key: string) => Promise<unknown> } = {
    ioredis: (client, key) => client.evalsha(sha, 1, key, 'é'),
    iovalkey: (client, key) => client.evalsha(sha, 1, key, 'é'),
    'node-redis': (client, key) => client.evalSha(sha, { keys: [key], arguments: ['é'] }),
    glide: (client, key) => client.customCommand(['EVALSHA', sha, '1', key, 'é']),
  }
  async function follows<Kind extends ClientKind>(kind: Kind): Promise<void> {
    const proxies = await Promise.all(cluster.servers.map(startProxy))
    const { client, close } = await connectCluster(kind, cluster, { through: proxies })
    const key = `key of ${kind}`
    const slot = cluster.slotOf(key)
    const from = await cluster.ownerOf(slot)
    expect(await clusterEvalsha[kind](client, key)).toEqual([1, 'é', [null]])
    const move = await cluster.beginMove(slot, (from + 1) % 3)
    expect(await clusterEvalsha[kind](client, key)).toEqual([2, 'é', [null]])
    await move.moveKeys(1)
    expect(await clusterEvalsha[kind](client, key)).toEqual([3, 'é', [null]]) // ASK
    await move.finish()
    expect(await clusterEvalsha[kind](client, key)).toEqual([4, 'é', [null]]) // MOVED
    expect(proxies.filter(({ bytes }) => bytes.replies > 0).length).toBeGreaterThan(1)
    await close()
    await Promise.all(proxies.map((proxy) => proxy.stop()))
  }

  test.each(clientKinds)('%s follows a slot that moves', (kind) => follows(kind))
})

describe.skipIf(!canStartRedis)('clients of sentinels', { timeout: 60_000 }, () => {
  const sentinelEvalsha: {
    [Kind in keyof SentinelClients]: (client: SentinelClients[Kind], key: string) => Promise<unknown>
  } = {
    ioredis: (client, key) => client.evalsha(sha, 1, key, 'é'),
    iovalkey: (client, key) => client.evalsha(sha, 1, key, 'é'),
    'node-redis': (client, key) => client.evalSha(sha, { keys: [key], arguments: ['é'] }),
  }
  const kinds = ['ioredis', 'iovalkey', 'node-redis'] as const

  async function open<Kind extends keyof SentinelClients>(kind: Kind, set: SentinelSet, through: TcpProxy[]) {
    const { client, close } = await connectSentinel(kind, set, { through })
    return { evalsha: (key: string) => sentinelEvalsha[kind](client, `${kind} ${key}`), close }
  }

  test('follow when the master is killed', async () => {
    const set = await startSentinelSet()
    await Promise.all(set.servers.map((server) => server.call('SCRIPT', 'LOAD', source)))
    const proxies = await Promise.all(set.servers.map(startProxy))
    const clients = await Promise.all(kinds.map((kind) => open(kind, set, proxies)))
    const master = await set.master()
    for (const { evalsha } of clients) expect(await evalsha('before')).toEqual([1, 'é', [null]])
    await master.kill()
    const next = await set.masterAfter(master)
    for (const { evalsha } of clients) expect(await evalsha('after')).toEqual([1, 'é', [null]])
    expect(await next.call('EXISTS', ...kinds.map((kind) => `${kind} after`))).toBe(3)
    await Promise.all([...clients.map(({ close }) => close()), ...proxies.map((proxy) => proxy.stop())])
    await set.stop()
  })
})
