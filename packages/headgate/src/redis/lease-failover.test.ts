import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Connected, connect } from '../../test/clients.ts'
import { canStartRedis, type OwnRedis, startRedis } from '../../test/redis-server.ts'
import { patient } from '../../test/redis-store.ts'
import { until } from '../../test/until.ts'
import { createGate } from '../index.ts'
import { redis } from './index.ts'

const limit = '1000/day'

describe.skipIf(!canStartRedis)('leases that replicas must know of', { timeout: 60_000 }, () => {
  let master: OwnRedis
  let replica: OwnRedis
  const clients: Connected<unknown>[] = []
  beforeAll(async () => {
    // Else a master waits five seconds for more replicas before it sends the first copy.
    const atOnce = ['--repl-diskless-sync-delay', '0']
    ;[master, replica] = await Promise.all([startRedis({ args: atOnce }), startRedis()])
    await replica.call('REPLICAOF', '127.0.0.1', String(master.port))
    await until('the replica', async () =>
      String(await master.call('INFO', 'replication')).includes('state=online') ? true : undefined,
    )
  })
  afterAll(async () => {
    await Promise.all(clients.map(({ close }) => close()))
    await Promise.all([master?.stop(), replica?.stop()])
  })

  /** The first lease is never spent, as the master is not known yet: what it holds is back after its life. */
  async function gateOn(server: OwnRedis, replicas: number, lifeMs = 2_000) {
    const connected = await connect('ioredis', server)
    clients.push(connected)
    return createGate({ limit, ...patient, store: redis(connected.client, { lease: { replicas, lifeMs } }) })
  }

  /** Whether a take is ever answered at once within so many. */
  async function isLeased(gate: Awaited<ReturnType<typeof gateOn>>, key: string, takes: number): Promise<boolean> {
    for (let i = 0; i < takes; i++) {
      const answer = gate.take(key)
      if (!(answer instanceof Promise) && answer.ok) return true
      await answer
    }
    return false
  }

  test('are spent once they do, and a copy that takes over has counted them', async () => {
    const gate = await gateOn(master, 1, 1_000)
    await until('a lease', async () => ((await isLeased(gate, 'a', 20)) ? true : undefined))
    // A lease of all that is left ends in refusals at once, which are no promises either.
    let spent = 0
    for (let answer = gate.take('a'); !(answer instanceof Promise) && answer.ok; answer = gate.take('a')) spent++
    expect(spent).toBeGreaterThan(0)
    const { remaining } = await gate.take('b')
    expect(remaining).toBe(999)
    // What the copy would let through is no more than what is left.
    const copy = await connect('ioredis', replica)
    clients.push(copy)
    await replica.call('REPLICAOF', 'NO', 'ONE')
    const after = createGate({ limit, ...patient, store: redis(copy.client) })
    expect((await after.peek('a')).remaining).toBeLessThanOrEqual(1000 - spent)
    await replica.call('REPLICAOF', '127.0.0.1', String(master.port))
    await until('the replica', async () =>
      String(await master.call('INFO', 'replication')).includes('state=online') ? true : undefined,
    )
  })

  test('are never spent where there are not so many', async () => {
    const gate = await gateOn(master, 2)
    expect(await isLeased(gate, 'c', 60)).toBe(false)
    expect((await gate.peek('c')).ok).toBe(true)
  })

  test('are not spent while the replica does not answer, and requests are decided one by one', async () => {
    const gate = await gateOn(master, 1)
    replica.pause()
    try {
      expect(await isLeased(gate, 'd', 40)).toBe(false)
    } finally {
      replica.resume()
    }
    await until('a lease', async () => ((await isLeased(gate, 'd', 5)) ? true : undefined))
  })
})
