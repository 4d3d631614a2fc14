import { createGate, type Gate } from 'headgate'
import { type RedisStore, redis } from 'headgate/redis'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type ClientKind, clientKinds, connect, type Settings } from '../../test/clients.ts'
import { canStartRedis, type OwnRedis, startRedis } from '../../test/redis-server.ts'
import { inTime, keepAsking } from '../../test/traffic.ts'
import { until } from '../../test/until.ts'

type AnyGate = Gate<string, never, RedisStore>

describe.skipIf(!canStartRedis)('a server that says no', { timeout: 30_000 }, () => {
  let server: OwnRedis
  beforeAll(async () => {
    server = await startRedis()
  })
  afterAll(async () => server?.stop())

  const endings: (() => Promise<unknown>)[] = []
  afterEach(async () => {
    for (const end of endings.splice(0).reverse()) await end()
  })

  async function gateOn<Kind extends ClientKind>(kind: Kind, at = server, settings?: Settings[Kind]): Promise<AnyGate> {
    const { client, close } = await connect(kind, at, settings && { settings })
    endings.push(close)
    const store = redis(client, { onProblem: () => {} })
    return createGate({ limit: '1_000_000/year', store, prefix: kind, timeoutMs: 500 })
  }

  /** Asks until the gate holds the store to be down, each time in time and answered without it. */
  async function failsBy(word: string, gate: AnyGate): Promise<void> {
    await until(`${word} to be told`, async () => {
      expect(await inTime(gate.take('user'))).toMatchObject({ ok: true, degraded: 'local' })
      return gate.health().state === 'down' || undefined
    })
    expect(Object.keys(gate.health().failures)).toEqual([word])
  }

  async function isBack(gate: AnyGate): Promise<void> {
    await until('a decision by the store', async () => !(await inTime(gate.take('user'))).degraded || undefined)
    expect(gate.health()).toMatchObject({ state: 'up', changes: 2 })
  }

  async function counts(gate: AnyGate): Promise<void> {
    expect(await gate.take('user')).toMatchObject({ ok: true, degraded: false })
  }

  test.each(clientKinds)('because it is full counts as an outage for %s, until it has room', async (kind) => {
    const gate = await gateOn(kind)
    await counts(gate)
    await server.call('CONFIG', 'SET', 'maxmemory', '1')
    await failsBy('OOM', gate)
    await server.call('CONFIG', 'SET', 'maxmemory', '0')
    await isBack(gate)
  })

  test.each(clientKinds)(
    'because it has no replica counts as an outage for %s, until it need not have one',
    async (kind) => {
      const gate = await gateOn(kind)
      await counts(gate)
      await server.call('CONFIG', 'SET', 'min-replicas-to-write', '1')
      await failsBy('NOREPLICAS', gate)
      await server.call('CONFIG', 'SET', 'min-replicas-to-write', '0')
      await isBack(gate)
    },
  )

  test.each(clientKinds)('because scripts are not allowed counts as an outage for %s, until they are', async (kind) => {
    const gate = await gateOn(kind)
    await counts(gate)
    await server.call('ACL', 'SETUSER', 'default', '-eval', '-evalsha')
    await failsBy('NOPERM', gate)
    await server.call('ACL', 'SETUSER', 'default', '+eval', '+evalsha')
    await isBack(gate)
  })

  test.each(clientKinds)(
    'because it became a replica counts as an outage for %s, until it is a master',
    async (kind) => {
      const own = await startRedis()
      endings.push(() => own.stop())
      const gate = await gateOn(kind, own)
      await counts(gate)
      await own.call('REPLICAOF', '127.0.0.1', '1')
      await failsBy('READONLY', gate)
      await own.call('REPLICAOF', 'NO', 'ONE')
      await isBack(gate)
    },
  )

  test.each(clientKinds)(
    'because its own master is gone counts as an outage for %s, until that is over',
    async (kind) => {
      const own = await startRedis({ args: ['--replica-serve-stale-data', 'no'] })
      endings.push(() => own.stop())
      const gate = await gateOn(kind, own)
      await counts(gate)
      await own.call('REPLICAOF', '127.0.0.1', '1')
      await failsBy('MASTERDOWN', gate)
      await own.call('REPLICAOF', 'NO', 'ONE')
      await isBack(gate)
    },
  )

  test.each(clientKinds)(
    'because a script runs for too long counts as an outage for %s, until it ends',
    async (kind) => {
      const own = await startRedis({ args: ['--busy-reply-threshold', '10'] })
      endings.push(() => own.stop())
      const gate = await gateOn(kind, own)
      await counts(gate)
      const busy = own.call('EVAL', 'while true do end', '0').catch(() => {})
      await until('the server to be busy', () =>
        own.call('PING').then(
          () => undefined,
          () => true,
        ),
      )
      await failsBy('BUSY', gate)
      await own.call('SCRIPT', 'KILL')
      await busy
      await isBack(gate)
    },
  )

  test.each(clientKinds)('while it loads its data counts as an outage for %s, until it has', async (kind) => {
    const slowly = ['--key-load-delay', '500', '--loading-process-events-interval-bytes', '1024']
    const own = await startRedis({ args: [...slowly, '--enable-debug-command', 'local'] })
    endings.push(() => own.stop())
    const gate = await gateOn(kind, own)
    await counts(gate)
    await own.call('DEBUG', 'POPULATE', '2000')
    const loaded = own.call('DEBUG', 'RELOAD').catch(() => {})
    await until('the server to load', () =>
      own.call('PING').then(
        () => undefined,
        () => true,
      ),
    )
    await failsBy('LOADING', gate)
    await loaded
    await isBack(gate)
  })

  test.each(clientKinds)('to a script it has forgotten is not told to anybody who uses %s', async (kind) => {
    await server.call('FLUSHALL')
    const gate = await gateOn(kind)
    await counts(gate)
    const load = keepAsking(() => gate.take('user'))
    for (let i = 1; i <= 10; i++) {
      await until('traffic', () => load.tally.central > i * 200 || undefined)
      await server.call('SCRIPT', 'FLUSH')
    }
    const { central, degraded, refused } = await load.stop()
    expect([degraded, refused, gate.health().changes]).toEqual([0, 0, 0])
    expect((await gate.peek('user')).remaining).toBe(1_000_000 - 1 - central)
  })
})
