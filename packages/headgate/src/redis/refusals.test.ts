import { createGate, type Gate } from 'headgate'
import { type RedisStore, redis } from 'headgate/redis'
import { describe, expect, type TestContext, test } from 'vitest'
import { type ClientKind, clientKinds, connect } from '../../test/clients.ts'
import { canStartRedis, startRedis } from '../../test/redis-server.ts'
import { dependsOn, ifStalled } from '../../test/stalls.ts'
import { inTime, keepAsking } from '../../test/traffic.ts'
import { until } from '../../test/until.ts'

type AnyGate = Gate<string, never, RedisStore>

describe.skipIf(!canStartRedis)('a server that says no', { timeout: 60_000, retry: ifStalled }, () => {
  /** A server and a gate on it, both for one test. */
  async function start(kind: ClientKind, { onTestFinished, onTestFailed }: TestContext, args: readonly string[] = []) {
    const server = await startRedis({ args })
    dependsOn(onTestFailed, server.pid)
    onTestFinished(() => server.stop())
    const { client, close } = await connect(kind, server)
    onTestFinished(close)
    const store = redis(client, { onProblem: () => {} })
    const gate = createGate({ limit: '1_000_000/year', store, timeoutMs: 900 })
    expect(await gate.take('user')).toMatchObject({ ok: true, degraded: false })
    return { server, gate }
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

  test.concurrent.for(clientKinds)(
    'because it is full counts as an outage for %s, until it has room',
    async (kind, context) => {
      const { server, gate } = await start(kind, context)
      await server.call('CONFIG', 'SET', 'maxmemory', '1')
      await failsBy('OOM', gate)
      await server.call('CONFIG', 'SET', 'maxmemory', '0')
      await isBack(gate)
    },
  )

  test.concurrent.for(clientKinds)(
    'because it has no replica counts as an outage for %s, until it need not have one',
    async (kind, context) => {
      const { server, gate } = await start(kind, context)
      await server.call('CONFIG', 'SET', 'min-replicas-to-write', '1')
      await failsBy('NOREPLICAS', gate)
      await server.call('CONFIG', 'SET', 'min-replicas-to-write', '0')
      await isBack(gate)
    },
  )

  test.concurrent.for(clientKinds)(
    'because scripts are not allowed counts as an outage for %s, until they are',
    async (kind, context) => {
      const { server, gate } = await start(kind, context)
      await server.call('ACL', 'SETUSER', 'default', '-eval', '-evalsha')
      await failsBy('NOPERM', gate)
      await server.call('ACL', 'SETUSER', 'default', '+eval', '+evalsha')
      await isBack(gate)
    },
  )

  test.concurrent.for(clientKinds)(
    'because it became a replica counts as an outage for %s, until it is a master',
    async (kind, context) => {
      const { server, gate } = await start(kind, context)
      await server.call('REPLICAOF', '127.0.0.1', '1')
      await failsBy('READONLY', gate)
      await server.call('REPLICAOF', 'NO', 'ONE')
      await isBack(gate)
    },
  )

  test.concurrent.for(clientKinds)(
    'because its own master is gone counts as an outage for %s, until that is over',
    async (kind, context) => {
      const { server, gate } = await start(kind, context, ['--replica-serve-stale-data', 'no'])
      await server.call('REPLICAOF', '127.0.0.1', '1')
      await failsBy('MASTERDOWN', gate)
      await server.call('REPLICAOF', 'NO', 'ONE')
      await isBack(gate)
    },
  )

  test.concurrent.for(clientKinds)(
    'because a script runs for too long counts as an outage for %s, until it ends',
    async (kind, context) => {
      const { server, gate } = await start(kind, context, ['--busy-reply-threshold', '10'])
      const busy = server.call('EVAL', 'while true do end', '0').catch(() => {})
      await until('the server to be busy', () =>
        server.call('PING').then(
          () => undefined,
          () => true,
        ),
      )
      await failsBy('BUSY', gate)
      await server.call('SCRIPT', 'KILL')
      await busy
      await isBack(gate)
    },
  )

  test.concurrent.for(clientKinds)(
    'while it loads its data counts as an outage for %s, until it has',
    async (kind, context) => {
      const slowly = ['--key-load-delay', '500', '--loading-process-events-interval-bytes', '1024']
      const { server, gate } = await start(kind, context, [...slowly, '--enable-debug-command', 'local'])
      await server.call('DEBUG', 'POPULATE', '2000')
      const loaded = server.call('DEBUG', 'RELOAD').catch(() => {})
      await until('the server to load', () =>
        server.call('PING').then(
          () => undefined,
          () => true,
        ),
      )
      await failsBy('LOADING', gate)
      await loaded
      await isBack(gate)
    },
  )

  test.concurrent.for(clientKinds)(
    'to a script it has forgotten is not told to anybody who uses %s',
    async (kind, context) => {
      const { server, gate } = await start(kind, context)
      const load = keepAsking(() => gate.take('user'))
      for (let i = 1; i <= 10; i++) {
        await until('traffic', () => load.tally.central > i * 200 || undefined)
        await server.call('SCRIPT', 'FLUSH')
      }
      const { central, degraded, refused } = await load.stop()
      expect([degraded, refused, gate.health().changes]).toEqual([0, 0, 0])
      expect((await gate.peek('user')).remaining).toBe(1_000_000 - 1 - central)
    },
  )
})
