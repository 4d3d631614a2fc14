import { type OwnRedis, startRedis } from './redis-server.ts'
import type { Reply } from './resp.ts'
import { until } from './until.ts'

/** Masters that share all slots between them, evenly and in order. No replicas. */
export interface RedisCluster {
  readonly servers: readonly OwnRedis[]
  slotOf(key: string): number
  /** Which of `servers` serves the slot, in the eyes of the first that answers. */
  ownerOf(slot: number): Promise<number>
  /** From here on the source answers ASK for keys of the slot that it does not have, and the target takes those from who says ASKING. */
  beginMove(slot: number, toIndex: number): Promise<SlotMove>
  /** All of a move at once. */
  moveSlot(slot: number, toIndex: number): Promise<void>
  stop(): Promise<void>
}

export interface SlotMove {
  /** Takes up to so many keys to the target; tells how many that were. While some are left, scripts on several keys hear TRYAGAIN. */
  moveKeys(count: number): Promise<number>
  /** Moves the rest and tells all: from here on the source answers MOVED. */
  finish(): Promise<void>
}

const slots = 16_384

export async function startCluster({ masters = 3 } = {}): Promise<RedisCluster> {
  const args = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '1000', '--cluster-announce-ip', '127.0.0.1']
  const servers = await Promise.all(Array.from({ length: masters }, () => startRedis({ args })))
  await Promise.all(servers.map((server, i) => assign(server, i, masters)))
  // Each meets each, because gossip would take seconds to introduce them.
  for (const one of servers) {
    for (const other of servers) if (one !== other) await one.call('CLUSTER', 'MEET', '127.0.0.1', String(other.port))
  }
  await Promise.all(servers.map((server) => joined(server, masters)))
  return ofServers(servers)
}

async function assign(server: OwnRedis, index: number, masters: number): Promise<void> {
  const first = Math.round((index * slots) / masters)
  const last = Math.round(((index + 1) * slots) / masters) - 1
  await server.call('CLUSTER', 'SET-CONFIG-EPOCH', String(index + 1)) // else they would first quarrel about who is newer
  await server.call('CLUSTER', 'ADDSLOTSRANGE', String(first), String(last))
}

/** Takes two seconds: so long a master that has just started waits for what others may know about it. */
async function joined(server: OwnRedis, masters: number): Promise<true> {
  return until('a node to find the cluster complete', async () => {
    const info = String(await server.call('CLUSTER', 'INFO'))
    return (info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${masters}\r\n`)) || undefined
  })
}

function ofServers(servers: readonly OwnRedis[]): RedisCluster {
  async function ownerOf(slot: number): Promise<number> {
    const ranges = await Promise.any(servers.map((server) => server.call('CLUSTER', 'SLOTS')))
    for (const [first, last, node] of ranges as [number, number, Reply[]][]) {
      if (first <= slot && slot <= last) return servers.findIndex(({ port }) => port === node[1])
    }
    throw new Error(`nobody serves slot ${slot}`)
  }
  async function beginMove(slot: number, toIndex: number): Promise<SlotMove> {
    const source = servers[await ownerOf(slot)] as OwnRedis
    const target = servers[toIndex] as OwnRedis
    if (source === target) throw new Error(`slot ${slot} is at server ${toIndex} already`)
    return move(servers, slot, source, target)
  }
  return {
    servers,
    slotOf,
    ownerOf,
    beginMove,
    moveSlot: async (slot, toIndex) => (await beginMove(slot, toIndex)).finish(),
    stop: async () => void (await Promise.all(servers.map((server) => server.stop()))),
  }
}

/** The steps and their order are those of `redis-cli --cluster reshard`. */
async function move(servers: readonly OwnRedis[], slot: number, source: OwnRedis, target: OwnRedis): Promise<SlotMove> {
  const [from, to] = (await Promise.all([source, target].map((each) => each.call('CLUSTER', 'MYID')))) as string[]
  await target.call('CLUSTER', 'SETSLOT', String(slot), 'IMPORTING', from as string)
  await source.call('CLUSTER', 'SETSLOT', String(slot), 'MIGRATING', to as string)

  async function moveKeys(count: number): Promise<number> {
    const keys = (await source.call('CLUSTER', 'GETKEYSINSLOT', String(slot), String(count))) as string[]
    const address = ['127.0.0.1', String(target.port)]
    if (keys.length > 0) await source.call('MIGRATE', ...address, '', '0', '5000', 'KEYS', ...keys)
    return keys.length
  }
  async function finish(): Promise<void> {
    while ((await moveKeys(100)) > 0); // ends, because the source takes no new keys
    const tell = (each: OwnRedis) => each.call('CLUSTER', 'SETSLOT', String(slot), 'NODE', to as string)
    await tell(target)
    await tell(source)
    await Promise.allSettled(servers.map(tell)) // one that is down will hear it from the others
  }
  return { moveKeys, finish }
}

/** CRC-16/XMODEM of what stands in the first braces, if anything does; else of the whole key. */
export function slotOf(key: string): number {
  const open = key.indexOf('{')
  const close = key.indexOf('}', open + 1)
  const tag = open >= 0 && close > open + 1 ? key.slice(open + 1, close) : key
  let crc = 0
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
  }
  return (crc & 0xffff) % slots
}
