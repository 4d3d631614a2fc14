import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createGate, type Gate, HeadgateError } from 'headgate'
import { type RedisStore, redis } from 'headgate/redis'
import { describe, expect, type TestContext, test } from 'vitest'
import { type ClientKind, clientKinds, connect } from '../../test/clients.ts'
import { canStartRedis, type OwnRedis, startRedis } from '../../test/redis-server.ts'
import { dependsOn, ifStalled } from '../../test/stalls.ts'
import { changes, inTime, keepAsking } from '../../test/traffic.ts'
import { until } from '../../test/until.ts'

async function start({ onTestFinished, onTestFailed }: TestContext): Promise<OwnRedis> {
  const server = await startRedis()
  dependsOn(onTestFailed, server.pid)
  onTestFinished(() => server.stop())
  return server
}

async function storeOn(
  server: OwnRedis,
  { onTestFinished }: TestContext,
  kind: ClientKind = 'ioredis',
): Promise<RedisStore> {
  const { client, close } = await connect(kind, server)
  onTestFinished(close)
  return redis(client, { onProblem: () => {} })
}

/** How many units of a key Redis has counted, seen by somebody who is not part of the test. */
async function countedFor(key: string, server: OwnRedis, context: TestContext): Promise<number> {
  const auditor = createGate({ limit: '1_000_000/year', store: await storeOn(server, context), timeoutMs: 5_000 })
  const { remaining, degraded } = await auditor.peek(key)
  expect(degraded).toBe(false)
  return 1_000_000 - remaining
}

type AnyGate = Gate<string, never, RedisStore>

async function isDown(gate: AnyGate): Promise<void> {
  await until('the gate to see that the store is down', async () => {
    await inTime(gate.take('anybody'))
    return gate.health().state === 'down' || undefined
  })
}

async function isBack(gate: AnyGate): Promise<void> {
  await until('a decision by the store', async () => !(await inTime(gate.take('anybody'))).degraded || undefined)
}

describe.skipIf(!canStartRedis)('a server that is killed', { timeout: 60_000, retry: ifStalled }, () => {
  test.concurrent.for(clientKinds)(
    'is missed by nobody who uses %s, and used again when it is back',
    async (kind, context) => {
      const server = await start(context)
      const { states, listen } = changes()
      const gate = createGate({ limit: '1000/day', store: await storeOn(server, context, kind), onStoreChange: listen })
      await isBack(gate)
      const before = await gate.take('user')
      expect(before).toMatchObject({ ok: true, degraded: false, remaining: 999 })

      await server.kill()
      expect(await inTime(gate.take('user'))).toMatchObject({ ok: true, degraded: 'local', remaining: 999 })
      await isDown(gate)
      expect(await inTime(gate.take('user'))).toMatchObject({ ok: true, degraded: 'local', remaining: 998 })
      await inTime(before.settle(5) as Promise<void>)
      expect(states).toEqual(['down'])
      const { failures, error, changes: changed } = gate.health()
      expect(changed).toBe(1)
      expect(Object.values(failures).reduce((sum, each) => sum + each, 0)).toBeGreaterThanOrEqual(5)
      expect(error).toBeInstanceOf(Error)

      await server.restart()
      await isBack(gate)
      expect(await inTime(gate.take('user'))).toMatchObject({ ok: true, degraded: false, remaining: 999 })
      expect(states).toEqual(['down', 'up'])
      expect(gate.health()).toMatchObject({ state: 'up', changes: 2 })
    },
  )

  test.concurrent('leaves each limit to decide as it was told', async (context) => {
    const server = await start(context)
    const store = await storeOn(server, context)
    const gates = {
      local: createGate({ limit: '2/day', store, prefix: 'a' }),
      allow: createGate({ limit: '2/day', store, prefix: 'b', onStoreError: 'allow' }),
      deny: createGate({ limit: '2/day', store, prefix: 'c', onStoreError: 'deny' }),
    }
    for (const gate of Object.values(gates)) expect((await gate.take('early')).ok).toBe(true)
    await server.kill()
    await isDown(gates.local)
    const answers = async (gate: AnyGate) => {
      const told = [await gate.take('user'), await gate.take('user'), await gate.take('user')]
      return told.map(({ ok, degraded }) => `${ok} ${degraded}`)
    }
    expect(await inTime(answers(gates.local))).toEqual(['true local', 'true local', 'false local'])
    expect(await inTime(answers(gates.allow))).toEqual(['true allow', 'true allow', 'true allow'])
    expect(await inTime(answers(gates.deny))).toEqual(['false deny', 'false deny', 'false deny'])
  })

  test.concurrent('lets one request be counted here for one limit and refused for another', async (context) => {
    const server = await start(context)
    const gate = createGate({
      limits: {
        fair: { limit: '10/day', by: ({ user }: { user: string; paid?: boolean }) => user },
        paid: { limit: '10/day', by: ({ user }) => user, when: ({ paid }) => paid === true, onStoreError: 'deny' },
      },
      store: await storeOn(server, context),
    })
    expect(await gate.take({ user: 'a', paid: true })).toMatchObject({ ok: true, degraded: false })
    await server.kill()
    const refused = await inTime(gate.take({ user: 'a', paid: true }))
    expect(refused).toMatchObject({ ok: false, degraded: 'deny', limit: 'paid', violated: ['paid'] })
    expect(refused.retryAfterMs).toBeGreaterThan(0)
    expect(refused.retryAfterMs).toBeLessThan(10_000)
    expect(await inTime(gate.take({ user: 'a' }))).toMatchObject({ ok: true, degraded: 'local', remaining: 9 })
  })

  test.concurrent('cannot make corrections fail, but does not let a block or a reset seem done', async (context) => {
    const server = await start(context)
    const store = await storeOn(server, context)
    const gate = createGate({ limit: '10/day', store })
    const slots = createGate({ atOnce: 2, store })
    const before = [await gate.take('user'), await gate.take('user'), await slots.take('user')]
    await server.kill()
    const during = [await gate.take('user'), await gate.take('user'), await slots.take('user')]
    for (const [settled, refunded, released] of [before, during]) {
      expect(await inTime(settled?.settle(3) as Promise<void>)).toBe(undefined)
      expect(await inTime(refunded?.refund() as Promise<void>)).toBe(undefined)
      expect(await inTime(released?.release() as Promise<void>)).toBe(undefined)
    }
    for (let i = 0; i < 10; i++) {
      const failed = await inTime(Promise.allSettled([gate.block('user', 1_000), gate.reset('user')]))
      for (const each of failed) {
        expect(each).toMatchObject({ status: 'rejected', reason: { code: 'HG_STORE_FAILED' } })
        expect((each as PromiseRejectedResult).reason).toBeInstanceOf(HeadgateError)
      }
    }
  })

  test.concurrent('or was never there, is waited for by no request', async (context) => {
    const server = await start(context)
    await server.kill()
    for (const kind of clientKinds) {
      const { client, close } = await connect(kind, server, { ready: false })
      context.onTestFinished(close)
      const gate = createGate({ limit: '10/day', store: redis(client, { onProblem: () => {} }) })
      for (let i = 9; i >= 0; i--)
        expect(await inTime(gate.take('user'))).toMatchObject({ degraded: 'local', remaining: i })
    }
  })
})

describe.skipIf(!canStartRedis)('a server that hangs', { timeout: 60_000, retry: ifStalled }, () => {
  test.concurrent.for(clientKinds)(
    'keeps nobody waiting who uses %s, and later charges nobody',
    async (kind, context) => {
      const server = await start(context)
      const { states, listen } = changes()
      const store = await storeOn(server, context, kind)
      const gate = createGate({ limit: '1_000_000/year', store, timeoutMs: 200, onStoreChange: listen })
      await isBack(gate)
      for (let i = 0; i < 10; i++) expect((await gate.take('user')).degraded).toBe(false)

      server.pause()
      const load = keepAsking(() => gate.take('user'))
      await until('a probe in vain', () => (failuresOf(gate) > 64 && load.tally.degraded > 1_000) || undefined)
      expect(load.tally.central).toBe(0)
      await sleep(50) // so much longer it hangs than the probe waited
      server.resume()
      await until('decisions by the store', () => load.tally.central > 200 || undefined)

      const tally = await load.stop()
      expect(tally.refused).toBe(0)
      expect(states).toEqual(['down', 'up'])
      expect(await countedFor('user', server, context)).toBe(10 + tally.central)
    },
  )

  test('is asked by one request per pause', async (context) => {
    const server = await start(context)
    const gate = createGate({ limit: '1_000_000/year', store: await storeOn(server, context) })
    await isBack(gate)
    const before = await scriptCalls(server)
    server.pause()
    const load = keepAsking(() => gate.take('user'), { callers: 1 })
    await until('two probes in vain', () => (failuresOf(gate) >= 5 + 2 && load.tally.degraded > 1_000) || undefined)
    const { admitted, degraded } = await load.stop()
    expect(admitted).toBe(degraded)
    server.resume()
    await isBack(gate)
    const asked = (await scriptCalls(server)) - before
    expect(asked).toBe(failuresOf(gate) + 1)
    expect(asked).toBeLessThan(15)
  })

  test.concurrent('charges nobody later, also when it hangs time after time', async (context) => {
    const server = await start(context)
    const gate = createGate({ limit: '1_000_000/year', store: await storeOn(server, context), timeoutMs: 20 })
    await isBack(gate)
    const before = await scriptCalls(server)
    const ask = () => inTime(Promise.all(Array.from({ length: 20 }, () => gate.take('user'))))
    for (let round = 1; round <= 3; round++) {
      const failures = failuresOf(gate)
      server.pause()
      await until('somebody to ask in vain', async () => {
        for (const { degraded } of await ask()) expect(degraded).toBe('local')
        return failuresOf(gate) > failures || undefined
      })
      await sleep(100) // so much longer it hangs than anybody waited
      server.resume()
      await until('late calls to arrive', async () => (await scriptCalls(server)) >= before + round || undefined)
    }
    await isBack(gate)
    expect(await countedFor('user', server, context)).toBe(0)
  })

  test('does not fill memory with those who ask', async (context) => {
    const server = await start(context)
    const gate = createGate({ limit: '1_000_000/year', store: await storeOn(server, context), timeoutMs: 1 })
    await isBack(gate)
    server.pause()
    const heapBefore = heapUsed()
    for (let round = 0; round < 25; round++) {
      const answers = await inTime(Promise.all(Array.from({ length: 2_000 }, () => gate.take('user'))))
      expect(answers.every(({ ok, degraded }) => ok && degraded === 'local')).toBe(true)
    }
    // All of one turn may be on their way before the first is late; those of later turns are not sent any more.
    expect(failuresOf(gate)).toBeLessThan(2_000 + 20)
    expect(heapUsed() - heapBefore).toBeLessThan(50e6)
    server.resume()
    await isBack(gate)
    expect(await countedFor('user', server, context)).toBe(0)
  })
})

function failuresOf(gate: AnyGate): number {
  return Object.values(gate.health().failures).reduce((sum, each) => sum + each, 0)
}

function heapUsed(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  return process.memoryUsage().heapUsed
}

async function scriptCalls(server: OwnRedis): Promise<number> {
  const stats = String(await server.call('INFO', 'commandstats'))
  const calls = [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].map(([, count]) => Number(count))
  return calls.reduce((sum, each) => sum + each, 0)
}
