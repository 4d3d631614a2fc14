import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import { memory, type Store } from 'headgate'
import { type RedisModes, redis } from 'headgate/redis'
import { Cluster, Redis, type RedisOptions } from 'ioredis'
import type { ConnectionRules, RedisRules, StoreRules } from './config/store-schema.ts'
import { SlabConnector } from './redis-connector.ts'
import { quickCalls } from './script-calls.ts'

export interface OpenStore {
  readonly store: Store
  /** Of a shared store: for rules and changes that all instances share. */
  readonly client?: Redis | Cluster
  close(): Promise<void>
}

/** Opens the store that the rules name. A Redis that is away does not keep the service from starting: it is waited for as long as
 *  a connection may take, so that the first requests are counted where all are. */
export async function openStore(rules: StoreRules, onProblem: (problem: Error) => void): Promise<OpenStore> {
  if ('memory' in rules) {
    const { maxBytes } = rules.memory
    return { store: memory(maxBytes === undefined ? {} : { maxBytes }), close: async () => {} }
  }
  const { prefix, quickDeny, hashKeys, connectTimeoutMs } = rules.redis
  const [client, ...far] = [rules.redis, ...farOf(rules.redis)].map(opened) as [Redis | Cluster]
  await isReady(client, connectTimeoutMs)
  const options = { prefix, quickDeny, onProblem, ...(hashKeys !== undefined && { hashKeys }) }
  const store = redis((client instanceof Redis ? quickCalls(client) : client) as never, {
    ...options,
    ...modesOf(rules.redis, far),
  })
  // What was borrowed goes back, and what is to be told is told, while there is a connection.
  const close = async () => {
    await (store as Store).close?.()
    for (const each of [client, ...far]) each.disconnect()
  }
  return { store, client, close }
}

/** Where the other regions are. */
function farOf({ regions, connectTimeoutMs, keepAliveMs }: RedisRules): ConnectionRules[] {
  return Object.values(regions?.others ?? {}).map((each) =>
    typeof each === 'string' ? { url: each, connectTimeoutMs, keepAliveMs } : each,
  )
}

function modesOf({ lease, share, sync, shards, regions }: RedisRules, far: readonly unknown[]): RedisModes {
  const names = Object.keys(regions?.others ?? {})
  const others = Object.fromEntries(names.map((name, i) => [name, far[i]]))
  const modes = { lease, share, sync, shards, regions: regions && { ...regions, others } }
  // An option that is there and undefined is absent, but not to the types.
  return Object.fromEntries(Object.entries(modes).filter(([, value]) => value !== undefined))
}

function opened(rules: ConnectionRules): Redis | Cluster {
  const client = connect(rules)
  client.on('error', () => {}) // told by the store's health
  return client
}

function isReady(client: Redis | Cluster, withinMs: number): Promise<void> {
  return new Promise((resolve) => {
    if (client.status === 'ready') return resolve()
    const timer = setTimeout(resolve, withinMs)
    client.once('ready', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}

/** The gate has its own deadline and fallback: the client shall neither wait nor try again by itself. */
function connect(rules: ConnectionRules): Redis | Cluster {
  const { url, sentinels, masterName = 'mymaster', cluster } = rules
  const options = optionsOf(rules)
  if (cluster !== undefined)
    return new Cluster(cluster.map(hostPortOf), { redisOptions: options, enableOfflineQueue: false })
  const isPlain = url?.startsWith('redis:') && options.tls === undefined
  if (sentinels === undefined)
    return new Redis(url as string, { ...options, ...(isPlain && { Connector: SlabConnector }) })
  return new Redis({
    ...options,
    sentinels: sentinels.map(hostPortOf),
    name: masterName,
    sentinelUsername: rules.sentinelUsername,
    sentinelPassword: rules.sentinelPassword,
  } as RedisOptions)
}

function optionsOf({ db, username, password, tls, connectTimeoutMs, keepAliveMs }: ConnectionRules): RedisOptions {
  const options: Record<string, unknown> = {
    db,
    username,
    password,
    tls: tls === undefined || tls === false ? undefined : tlsOf(tls),
    connectTimeout: connectTimeoutMs,
    keepAlive: keepAliveMs,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    retryStrategy: (times: number) => Math.min(100 * times, 1000),
  }
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))
}

function tlsOf(tls: Exclude<ConnectionRules['tls'], undefined | false>): ConnectionOptions {
  if (tls === true) return {}
  const { ca, cert, key, servername } = tls
  return {
    ...(ca !== undefined && { ca: readFileSync(ca) }),
    ...(cert !== undefined && { cert: readFileSync(cert) }),
    ...(key !== undefined && { key: readFileSync(key) }),
    ...(servername !== undefined && { servername }),
  }
}

function hostPortOf(text: string): { host: string; port: number } {
  const colon = text.lastIndexOf(':')
  return { host: text.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(text.slice(colon + 1)) }
}
