import { type OwnRedis, startRedis } from './redis-server.ts'
import type { Reply } from './resp.ts'
import { until } from './until.ts'

/** One master, its replicas, and three sentinels that agree by two on who the master is. */
export interface SentinelSet {
  /** What the sentinels call the master. */
  readonly name: string
  /** For the `sentinels` or `sentinelRootNodes` of a client. */
  readonly addresses: readonly { readonly host: string; readonly port: number }[]
  /** To be killed and paused: first the one that began as master. */
  readonly servers: readonly OwnRedis[]
  readonly sentinels: readonly OwnRedis[]
  /** The one that the sentinels hold to be the master now. */
  master(): Promise<OwnRedis>
  /** Waits until all sentinels that live name another master than `old`, and it takes writes. */
  masterAfter(old: OwnRedis): Promise<OwnRedis>
  /** Has a replica promoted while all is well, and waits for it. For a moment longer the old master still takes writes. */
  failover(): Promise<OwnRedis>
  stop(): Promise<void>
}

export interface SentinelOptions {
  readonly replicas?: number
  readonly downAfterMs?: number
}

const name = 'headgate-test'

export async function startSentinelSet({
  replicas = 2,
  downAfterMs = 500,
}: SentinelOptions = {}): Promise<SentinelSet> {
  const first = await startRedis({ args: atOnce })
  const following = ['--replicaof', '127.0.0.1', String(first.port), ...atOnce]
  const [others, sentinels] = await Promise.all([
    startMany(replicas, { args: following }),
    startMany(3, { sentinel: notes(first.port, downAfterMs) }),
  ])
  const set = ofServers([first, ...others], sentinels)
  await Promise.all(sentinels.map((each) => hurry(each, quickly)))
  await Promise.all(sentinels.map((each) => knowsAll(each, replicas)))
  await Promise.all(sentinels.map((each) => hurry(each, calmly)))
  return set
}

/** A master waits 5 s for more replicas before it copies itself to the first. */
const atOnce = ['--repl-diskless-sync-delay', '0']

function startMany(count: number, options: Parameters<typeof startRedis>[0]): Promise<OwnRedis[]> {
  return Promise.all(Array.from({ length: count }, () => startRedis(options)))
}

function notes(port: number, downAfterMs: number): string {
  return [
    `sentinel monitor ${name} 127.0.0.1 ${port} 2`,
    `sentinel down-after-milliseconds ${name} ${downAfterMs}`,
    `sentinel failover-timeout ${name} 2000`, // and twice that from one failover to the next, unless it is asked for
    '',
  ].join('\n')
}

/**
 * By default sentinels look at servers and greet each other every one, two or ten seconds. They may be quicker, but not as quick
 * as one likes: while they fail over, they look at replicas every second. A replica last seen longer ago than five pings, or
 * three looks, cannot be promoted. And one that was promoted is demoted after four greetings by a sentinel that has not heard.
 */
const quickly = { info: 100, ping: 100, ask: 100, publish: 100 }
const calmly = { info: 500, ping: 300, publish: 500 }

async function hurry(sentinel: OwnRedis, periods: Record<string, number>): Promise<void> {
  for (const [what, ms] of Object.entries(periods))
    await sentinel.call('SENTINEL', 'DEBUG', `${what}-period`, String(ms))
}

async function knowsAll(sentinel: OwnRedis, replicas: number): Promise<true> {
  return until('the sentinels to know each other and all servers', async () => {
    const master = record(await sentinel.call('SENTINEL', 'MASTER', name))
    const seen = (await sentinel.call('SENTINEL', 'REPLICAS', name)) as Reply[]
    const linked = seen.filter((each) => record(each)['master-link-status'] === 'ok')
    const all = linked.length === replicas && master['num-other-sentinels'] === '2' && master.flags === 'master'
    return all || undefined
  })
}

function ofServers(servers: readonly OwnRedis[], sentinels: readonly OwnRedis[]): SentinelSet {
  /** Who is the master in the eyes of each sentinel that answers. */
  async function votes(): Promise<OwnRedis[]> {
    const ask = ['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name]
    const replies = await Promise.allSettled(sentinels.map((each) => each.call(...ask)))
    const ports = replies.flatMap((each) => (each.status === 'fulfilled' ? [Number((each.value as string[])[1])] : []))
    return ports.flatMap((port) => servers.find((server) => server.port === port) ?? [])
  }
  async function masterAfter(old: OwnRedis): Promise<OwnRedis> {
    return until('another master', async () => {
      const [next, ...others] = await votes()
      if (!next || next === old || others.some((other) => other !== next)) return undefined
      const [role] = (await next.call('ROLE')) as Reply[]
      return role === 'master' ? next : undefined
    })
  }
  async function master(): Promise<OwnRedis> {
    return until('a sentinel that knows the master', async () => (await votes())[0])
  }
  return {
    name,
    addresses: sentinels.map(({ port }) => ({ host: '127.0.0.1', port })),
    servers,
    sentinels,
    master,
    masterAfter,
    async failover() {
      const old = await master()
      // Refused while another failover goes on, and until a replica is known to be good.
      await until('a failover to begin', () => anyOf(sentinels, 'SENTINEL', 'FAILOVER', name))
      return masterAfter(old)
    },
    async stop() {
      await Promise.all([...sentinels, ...servers].map((each) => each.stop()))
    },
  }
}

/** Asks one sentinel, the first that lives: if each were told to fail over, each would pick a master of its own. */
async function anyOf(sentinels: readonly OwnRedis[], ...command: string[]): Promise<Reply> {
  for (const sentinel of sentinels) {
    const lives = await sentinel.call('PING').catch(() => undefined)
    if (lives) return sentinel.call(...command)
  }
  throw new Error('no sentinel lives')
}

/** Sentinels answer in RESP2: name, value, name, value. */
function record(reply: Reply): Record<string, string> {
  const words = reply as string[]
  return Object.fromEntries(words.flatMap((word, i) => (i % 2 === 0 ? [[word, words[i + 1]]] : [])))
}
