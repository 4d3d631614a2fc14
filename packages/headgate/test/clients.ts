import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type {
  GlideClient,
  GlideClientConfiguration,
  GlideClusterClient,
  GlideClusterClientConfiguration,
} from '@valkey/valkey-glide'
import type * as ioredis from 'ioredis'
import type * as iovalkey from 'iovalkey'
import type { createClient, createCluster, createSentinel } from 'redis'
import type { RedisCluster } from './redis-cluster.ts'
import type { SentinelSet } from './redis-sentinel.ts'

/** The clients that people hand in, with the settings they come with. What to expect of each: CLIENTS.md. */
export type ClientKind = 'ioredis' | 'iovalkey' | 'node-redis' | 'glide'
export const clientKinds: readonly ClientKind[] = ['ioredis', 'iovalkey', 'node-redis', 'glide']

type NodeRedis = ReturnType<typeof createClient>

export interface Clients {
  ioredis: ioredis.Redis
  iovalkey: iovalkey.Redis
  'node-redis': NodeRedis
  glide: GlideClient
}
/** GLIDE knows no sentinels. */
export interface SentinelClients {
  ioredis: ioredis.Redis
  iovalkey: iovalkey.Redis
  'node-redis': ReturnType<typeof createSentinel>
}
export interface ClusterClients {
  ioredis: ioredis.Cluster
  iovalkey: iovalkey.Cluster
  'node-redis': ReturnType<typeof createCluster>
  glide: GlideClusterClient
}

/** What the library's own function or constructor takes, beside the address. */
export interface Settings {
  ioredis: ioredis.RedisOptions
  iovalkey: iovalkey.RedisOptions
  'node-redis': NonNullable<Parameters<typeof createClient>[0]>
  glide: Partial<GlideClientConfiguration>
}
export interface SentinelSettings {
  ioredis: ioredis.RedisOptions
  iovalkey: iovalkey.RedisOptions
  'node-redis': Partial<Parameters<typeof createSentinel>[0]>
}
export interface ClusterSettings {
  ioredis: ioredis.ClusterOptions
  iovalkey: iovalkey.ClusterOptions
  'node-redis': Partial<Parameters<typeof createCluster>[0]>
  glide: Partial<GlideClusterClientConfiguration>
}

export interface Connected<Client> {
  readonly client: Client
  /** Quietly, whatever has become of the server. */
  close(): Promise<void>
}

/** A server, or a proxy in front of one. */
type At = { readonly port: number }

const host = '127.0.0.1'

export async function connect<Kind extends ClientKind>(
  kind: Kind,
  { port }: At,
  /** `ready: false` does not wait for the connection, the server may be down. */
  { settings, ready = true }: { readonly settings?: Settings[Kind]; readonly ready?: boolean } = {},
): Promise<Connected<Clients[Kind]>> {
  return toServer[kind]({ host, port }, ready, settings)
}

export async function connectSentinel<Kind extends keyof SentinelClients>(
  kind: Kind,
  { name, addresses, servers }: SentinelSet,
  { settings, through }: GroupOptions<SentinelSettings[Kind]> = {},
): Promise<Connected<SentinelClients[Kind]>> {
  return toSentinels[kind](name, [...addresses], detours(servers, through), settings)
}

export async function connectCluster<Kind extends ClientKind>(
  kind: Kind,
  { servers }: Pick<RedisCluster, 'servers'>,
  { settings, through }: GroupOptions<ClusterSettings[Kind]> = {},
): Promise<Connected<ClusterClients[Kind]>> {
  const nodes = servers.map(({ port }) => ({ host, port }))
  return toCluster[kind](nodes, detours(servers, through), settings)
}

interface GroupOptions<Setting> {
  readonly settings?: Setting
  /** A proxy for each server: the client goes there, whatever address the servers tell it. */
  readonly through?: readonly At[]
}

type Address = { host: string; port: number }
type Detours = Record<string, Address>

function detours(servers: readonly At[], proxies: readonly At[] = servers): Detours {
  return Object.fromEntries(servers.map(({ port }, i) => [`${host}:${port}`, { host, port: proxies[i]?.port ?? port }]))
}

// Modules are loaded when they are asked for: GLIDE brings a native library, and a test rarely needs all four.

const toServer: {
  [Kind in ClientKind]: (to: Address, ready: boolean, settings?: Settings[Kind]) => Promise<Connected<Clients[Kind]>>
} = {
  ioredis: async (to, ready, settings) => io(new (await import('ioredis')).Redis({ ...to, ...settings }), ready),
  iovalkey: async (to, ready, settings) => io(new (await import('iovalkey')).Redis({ ...to, ...settings }), ready),
  'node-redis': async (to, ready, settings) =>
    nodeRedis((await import('redis')).createClient({ ...settings, socket: { ...to, ...settings?.socket } }), ready),
  glide: async (to, ready, settings) =>
    glide((await glideModule()).GlideClient, { addresses: [to], lazyConnect: !ready, ...settings }),
}

const toSentinels: {
  [Kind in keyof SentinelClients]: (
    name: string,
    sentinels: Address[],
    map: Detours,
    settings?: SentinelSettings[Kind],
  ) => Promise<Connected<SentinelClients[Kind]>>
} = {
  ioredis: async (name, sentinels, natMap, settings) =>
    io(new (await import('ioredis')).Redis({ name, sentinels, natMap, ...settings })),
  iovalkey: async (name, sentinels, natMap, settings) =>
    io(new (await import('iovalkey')).Redis({ name, sentinels, natMap, ...settings })),
  'node-redis': async (name, sentinelRootNodes, nodeAddressMap, settings) =>
    nodeRedis((await import('redis')).createSentinel({ name, sentinelRootNodes, nodeAddressMap, ...settings })),
}

const toCluster: {
  [Kind in ClientKind]: (
    nodes: Address[],
    map: Detours,
    settings?: ClusterSettings[Kind],
  ) => Promise<Connected<ClusterClients[Kind]>>
} = {
  ioredis: async (nodes, natMap, settings) => io(new (await import('ioredis')).Cluster(nodes, { natMap, ...settings })),
  iovalkey: async (nodes, natMap, settings) =>
    io(new (await import('iovalkey')).Cluster(nodes, { natMap, ...settings })),
  'node-redis': async (nodes, nodeAddressMap, settings) => {
    const rootNodes = nodes.map((socket) => ({ socket }))
    return nodeRedis((await import('redis')).createCluster({ rootNodes, nodeAddressMap, ...settings }))
  },
  glide: async (addresses, map, settings) => {
    function addressResolver(host: string, port: number): [string, number] {
      return [host, map[`${host}:${port}`]?.port ?? port]
    }
    return glide((await glideModule()).GlideClusterClient, { addresses, addressResolver, ...settings })
  },
}

type IoClient = NodeJS.EventEmitter & { readonly status: string; disconnect(): void }

async function io<Client extends IoClient>(client: Client, ready = true): Promise<Connected<Client>> {
  client.on('error', () => {}) // else it prints "Unhandled error event"
  if (ready) await once(client, 'ready')
  return {
    client,
    async close() {
      const { status } = client
      const ended = status === 'end' || status === 'reconnecting' || once(client, 'end')
      client.disconnect()
      // Disconnected while it waits to reconnect, it tells nobody and never settles what it has queued. Otherwise it ends when
      // the server agrees, or after two seconds.
      await Promise.race([ended, sleep(3_000, undefined, { ref: false })])
    },
  }
}

interface NodeRedisClient {
  on(event: 'error', listener: () => void): unknown
  connect(): Promise<unknown>
  readonly isOpen: boolean
  destroy(): unknown
}

async function nodeRedis<Client extends NodeRedisClient>(client: Client, ready = true): Promise<Connected<Client>> {
  client.on('error', () => {}) // else the first one ends the process
  const connected = client.connect()
  if (ready) await connected
  else connected.catch(() => {}) // rejects when it is closed before
  return {
    client,
    async close() {
      if (client.isOpen) await client.destroy()
    },
  }
}

async function glideModule() {
  const glide = await import('@valkey/valkey-glide')
  glide.Logger.init('off') // it writes warnings to the console
  return glide
}

async function glide<Client extends { close(): void }, Config>(
  kind: { createClient(config: Config): Promise<Client> },
  config: Config,
): Promise<Connected<Client>> {
  const client = await kind.createClient(config)
  return { client, close: async () => client.close() }
}
