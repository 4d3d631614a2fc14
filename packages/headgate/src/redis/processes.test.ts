import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { canStartRedis } from '../../test/redis-server.ts'
import { patient, rig } from '../../test/redis-store.ts'
import type { Job, Request, Taken } from '../../test/worker.ts'
import { startWorker, type Worker } from '../../test/workers.ts'
import { createGate } from '../index.ts'

const IN_FLIGHT = 64
const LIMIT = 997

/** Periods so long that nothing comes back while a test runs. */
const algorithms = {
  gcra: { limit: { limit: 1000, per: '10year', burst: LIMIT } },
  'gcra, uneven': { limit: `${LIMIT}/10year` },
  'fixed-window': { limit: `${LIMIT}/10year`, algorithm: 'fixed-window', align: 'first-hit' },
  'sliding-window': { limit: `${LIMIT}/10year`, algorithm: 'sliding-window' },
  'sliding-log': { limit: `${LIMIT}/10year`, algorithm: 'sliding-log' },
  'strict-window': { limit: `${LIMIT}/10year strict` },
} as const

/** So many requests for each process, of costs 1 to 3, more than fit altogether. */
function requests(count: number, request: Record<string, string>): Request[] {
  return Array.from({ length: count }, (_, i) => ({ ...request, cost: String(1 + (i % 3)) }))
}

/** Fails unless one order of all takes explains every answer, and no take is before one that had ended when it began. */
function expectOneOrder(taken: readonly Taken[], limit: number): void {
  // What is left only falls, so it tells the order of those that were let through.
  const admitted = taken.filter(({ ok }) => ok).sort((a, b) => b.remaining - a.remaining)
  let left = limit
  for (const { cost, remaining } of admitted) {
    left -= cost
    expect(remaining).toBe(left)
  }
  const states = new Set([limit, ...admitted.map(({ remaining }) => remaining)])
  for (const { ok, cost, remaining } of taken) if (!ok) expect(states.has(remaining) && remaining < cost).toBe(true)
  const ended = [...taken].sort((a, b) => a.endNs - b.endNs)
  let [n, least] = [0, limit]
  for (const { startNs, remaining } of [...taken].sort((a, b) => a.startNs - b.startNs)) {
    for (; (ended[n]?.endNs ?? Infinity) < startNs; n++) least = Math.min(least, ended[n]?.remaining as number)
    expect(remaining).toBeLessThanOrEqual(least)
  }
}

const unitsOf = (taken: readonly Taken[]) => taken.reduce((sum, { ok, cost }) => sum + (ok ? cost : 0), 0)

describe.skipIf(!canStartRedis)('three processes with 64 in flight each', { timeout: 60_000 }, () => {
  const redis = rig()
  let workers: Worker[]
  beforeAll(async () => {
    workers = await Promise.all([startWorker(), startWorker(), startWorker()])
  }, 60_000)
  afterAll(() => Promise.all(workers?.map((worker) => worker.kill()) ?? []))

  async function all(job: Omit<Job, 'port' | 'inFlight' | 'requests'>, of: (process: number) => Request[]) {
    const { port } = redis.server
    const taken = await Promise.all(
      workers.map((worker, i) => worker.work({ ...job, port, inFlight: IN_FLIGHT, requests: of(i) })),
    )
    expect(taken.flat().filter(({ degraded }) => degraded !== false)).toEqual([])
    return taken
  }

  test.each(Object.entries(algorithms))(
    'are let through by %s as if they came one after the other, up to the limit exactly',
    async (_, limit) => {
      const limits = { user: { ...limit, by: 'user' } }
      const taken = (await all({ limits }, () => requests(300, { user: 'shared' }))).flat()
      expect(unitsOf(taken)).toBe(LIMIT)
      expectOneOrder(taken, LIMIT)
      const gate = createGate({
        limits: { user: { ...limit, by: (user: string) => user } },
        store: await redis.store(),
        ...patient,
      })
      expect((await gate.peek('shared')).remaining).toBe(0)
    },
  )

  test('get the limit exactly also when each remembers denials', async () => {
    const limits = { user: { ...algorithms.gcra, by: 'user' } }
    const taken = await all({ limits, quickDeny: true }, () => requests(1000, { user: 'shared' }))
    expect(unitsOf(taken.flat())).toBe(LIMIT)
  })

  test('keep keys of their own apart', async () => {
    const limits = { user: { ...algorithms.gcra, by: 'user' } }
    const taken = await all({ limits }, (i) => requests(600, { user: `user-${i}` }))
    expect(taken.map(unitsOf)).toEqual([LIMIT, LIMIT, LIMIT])
  })

  test('share one limit and have another for each: what one limit refuses is charged to none', async () => {
    const limits = {
      user: { limit: '600/10year', by: 'user' },
      log: { limit: '550/10year', algorithm: 'sliding-log', by: 'user' },
      all: { limit: `${LIMIT}/10year strict` },
    } as const
    const taken = await all({ limits }, (i) => requests(400, { user: `user-${i}` }))
    expect(unitsOf(taken.flat())).toBe(LIMIT)
    const by = (user: string) => user
    const { user, log, all: shared } = limits
    const gate = createGate({
      limits: { user: { ...user, by }, log: { ...log, by }, all: shared },
      store: await redis.store(),
      ...patient,
    })
    for (const [i, own] of taken.entries()) {
      const { limits: left } = await gate.peek(`user-${i}`)
      expect(left.map(({ remaining }) => remaining)).toEqual([600 - unitsOf(own), 550 - unitsOf(own), 0])
    }
  })

  test('never hold more slots than there are, and fill all of them', async () => {
    const limits = { busy: { atOnce: 50 } }
    const taken = (await all({ limits, releaseAfterCounting: 'held' }, () => requests(500, {}))).flat()
    const most = Math.max(...taken.map(({ held }) => held))
    expect(most).toBeLessThanOrEqual(50)
    expect(taken.filter(({ ok }) => ok).length).toBeGreaterThan(50)
    const kept = (await all({ limits }, () => requests(60, {}))).flat()
    expect(unitsOf(kept)).toBe(50)
    expectOneOrder(kept, 50)
  })
})
