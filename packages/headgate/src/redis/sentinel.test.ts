import { createGate } from 'headgate'
import { redis } from 'headgate/redis'
import { describe, expect, test } from 'vitest'
import { connectSentinel } from '../../test/clients.ts'
import { startSentinelSet } from '../../test/redis-sentinel.ts'
import { canStartRedis } from '../../test/redis-server.ts'
import { keepAsking } from '../../test/traffic.ts'
import { until } from '../../test/until.ts'

const LIMIT = 5_000
const CALLERS = 2

describe.skipIf(!canStartRedis)('when sentinels name another master', { timeout: 60_000 }, () => {
  test.concurrent.each(['killed', 'asked to step down'] as const)(
    'because the old one was %s, counting goes on there',
    async (how) => {
      const set = await startSentinelSet({ replicas: 1 })
      const users = await Promise.all(
        (['ioredis', 'node-redis'] as const).map(async (kind) => {
          const { client, close } = await connectSentinel(kind, set)
          const store = redis(client, { onProblem: () => {}, quickDeny: false })
          // What is refused while the store cannot count is not admitted: so all that is admitted was counted.
          const gate = createGate({
            limit: { limit: LIMIT, per: '1year' },
            store,
            onStoreError: 'deny',
            timeoutMs: 200,
          })
          return { kind, close, gate, key: `user of ${kind}` }
        }),
      )
      for (const { gate, key } of users) expect(await gate.take(key)).toMatchObject({ ok: true, degraded: false })
      const loads = users.map(({ gate, key }) => keepAsking(() => gate.take(key), { callers: CALLERS }))
      await until('traffic', () => loads.every(({ tally }) => tally.central > 100) || undefined)
      const old = await set.master()
      if (how === 'killed') {
        await old.kill()
        await set.masterAfter(old)
      } else await set.failover()
      const next = await set.master()
      expect(next).not.toBe(old)
      for (const [i, { gate, key, kind }] of users.entries()) {
        await until(
          `${kind} to count at the new master`,
          async () => (await next.call('EXISTS', `hg:default:${key}`)) === 1 || undefined,
        )
        await until(`${kind} to reach its limit there`, async () => {
          const { ok, degraded } = await gate.peek(key)
          return (!ok && degraded === false && gate.health().state === 'up') || undefined
        })
        const { admitted, central } = await (loads[i] as (typeof loads)[number]).stop()
        expect(central).toBe(admitted)
        // A charge whose reply was lost with the old master let nobody in, and the new master may know of it: at most one of each caller.
        expect(admitted + 1).toBeGreaterThanOrEqual(LIMIT - CALLERS)
        // Writes that the new master had not received are lost: at most all there can be.
        expect(admitted + 1).toBeLessThanOrEqual(2 * LIMIT)
      }
      await Promise.all(users.map(({ close }) => close()))
      await set.stop()
    },
  )
})
