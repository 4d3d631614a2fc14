import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest'
import { type RedisOptions, type RedisStore, redis } from '../src/redis/index.ts'
import { type ClientKind, type Connected, connect } from './clients.ts'
import { type OwnRedis, startRedis } from './redis-server.ts'
import { dependsOn } from './stalls.ts'
import { until } from './until.ts'

/** How often each command ran, also inside scripts: `{ evalsha: 1, get: 1, set: 1 }`. */
export type Calls = Readonly<Record<string, number>>

export interface Rig {
  readonly server: OwnRedis
  /** A store with a connection of its own, as another process has. It knows the script, so what follows is as usual. */
  store(options?: RedisOptions, kind?: ClientKind): Promise<RedisStore>
  /** A connection to it that lives as long as the test. */
  client(kind?: ClientKind): Promise<unknown>
  /** What the server was made to do meanwhile, by everybody. */
  calls(work: () => Promise<unknown>): Promise<Calls>
}

/** For a file or a `describe`: a server of its own, empty before every test, and stores on it that live as long as the test. */
export function rig(): Rig {
  const clients: Connected<unknown>[] = []
  let server: OwnRedis
  beforeAll(async () => {
    server = await startRedis()
  })
  beforeEach(async ({ onTestFailed }) => {
    await server.call('FLUSHALL')
    dependsOn(onTestFailed, server.pid)
  })
  // Else a gate of one test that holds slots would go on renewing them in the next.
  afterEach(() => Promise.all(clients.splice(0).map(({ close }) => close())))
  afterAll(() => server?.stop())
  async function calls(work: () => unknown): Promise<Calls> {
    await server.call('CONFIG', 'RESETSTAT')
    await work()
    return callsIn(String(await server.call('INFO', 'commandstats')))
  }
  async function client(kind: ClientKind = 'ioredis'): Promise<unknown> {
    const connected = await connect(kind, server)
    clients.push(connected)
    return connected.client
  }
  return {
    calls,
    client,
    get server() {
      return server
    },
    async store(options = {}, kind = 'ioredis') {
      const store = redis(await client(kind), options)
      await until('EVALSHA', async () => (await calls(() => store.run([{ ops: [] }]))).evalsha)
      await store.selfTest()
      return store
    },
  }
}

function callsIn(stats: string): Calls {
  const lines = stats.matchAll(/^cmdstat_([\w|-]+):calls=(\d+)/gm)
  const calls = Object.fromEntries([...lines].map(([, name, count]) => [name, Number(count)]))
  for (const own of ['config|resetstat', 'info']) delete calls[own]
  return calls
}

/** Answers may take their time where a test asks what is decided, not how fast. */
export const patient = { timeoutMs: 10_000, onStoreError: 'deny' } as const
