import { describe, expect, test } from 'vitest'
import { canStartRedis, type OwnRedis } from '../../../headgate/test/redis-server.ts'
import { inTime } from '../../../headgate/test/traffic.ts'
import { until } from '../../../headgate/test/until.ts'
import type { Child } from '../../test/child.ts'
import { keepSending, statusOf } from '../../test/load.ts'
import { samplesOf } from '../../test/metrics.ts'
import { behind, child, ownRedis, rulesFile, rulesOf } from '../../test/service.ts'

const LIMIT = 20
const NODES = 2
const LIMITS = `
  per-key: { limit: ${LIMIT}/day, by: [api-key], when: { path: /x } }
  careful: { limit: 1000000/day, when: { path: /careful }, onStoreError: deny }`

interface Fault {
  readonly name: string
  begin(redis: OwnRedis): unknown
  end(redis: OwnRedis): unknown
  /** How often counts start from nothing. */
  readonly forgets: number
}

const faults: readonly Fault[] = [
  { name: 'stops and goes on', begin: (redis) => redis.pause(), end: (redis) => redis.resume(), forgets: 0 },
  { name: 'is killed and started again', begin: (redis) => redis.kill(), end: (redis) => redis.restart(), forgets: 1 },
]

async function fleet(redis: OwnRedis): Promise<Child[]> {
  const upstream = await behind()
  const store = `store: redis://127.0.0.1:${redis.port}/0\nnodes: ${NODES}\nupstream: ${upstream.url}`
  const file = rulesFile(rulesOf(LIMITS, store))
  return Promise.all(Array.from({ length: NODES }, () => child(file)))
}

function ask(url: string, path: string, key: string): Promise<number> {
  return inTime(statusOf(fetch(url + path, { headers: { 'x-api-key': key } })))
}

async function degraded({ adminUrl }: Child): Promise<number | undefined> {
  const text = await inTime(fetch(`${adminUrl}/metrics`).then((response) => response.text()))
  return samplesOf(text).get('headgate_degraded')
}

async function ready({ adminUrl }: Child): Promise<[number, string]> {
  const response = await inTime(fetch(`${adminUrl}/readyz`))
  return [response.status, ((await response.json()) as { status: string }).status]
}

async function isTold(instances: readonly Child[], value: 0 | 1): Promise<void> {
  const status = value === 1 ? 'degraded' : 'ready'
  for (const each of instances) {
    // Both at a time: on a busy machine a store may for once be late again.
    await until(`headgate_degraded ${value} and ${status}`, async () => {
      const isDegraded = (await degraded(each)) === value
      return (isDegraded && String(await ready(each)) === `200,${status}`) || undefined
    })
  }
}

describe.skipIf(!canStartRedis).each(faults)('while Redis $name', ({ begin, end, forgets }) => {
  test('every request is answered in time, and no more are let through than limit and fallback', async () => {
    const redis = await ownRedis()
    const instances = await fleet(redis)
    const to = (turn: number) => (instances[turn % NODES] as Child).url
    const all = keepSending((turn) => ask(to(turn), '/x', 'loud'), { callers: 3 })
    const careful = keepSending((turn) => ask(to(turn), '/careful', 'any'), { callers: 2 })
    const loads = [all, careful]
    const go = async (more: number) => {
      const from = loads.map(({ answered }) => answered)
      const isThere = () => loads.every(({ answered }, i) => answered >= (from[i] as number) + more) || undefined
      await until(`${more} more answers`, isThere)
    }

    await go(100)
    await begin(redis)
    await isTold(instances, 1)
    await go(100)
    for (const { url } of instances) {
      const statuses = []
      for (let i = 0; i < LIMIT; i++) statuses.push(await ask(url, '/x', 'new'))
      expect(statuses.filter((status) => status === 200)).toHaveLength(LIMIT / NODES)
      expect(await ask(url, '/careful', 'any')).toBe(503)
    }
    await end(redis)
    await isTold(instances, 0)
    await go(100)

    for (const load of loads) expect((await load.stop()).failures).toEqual([])
    expect([...all.statuses.keys()].sort()).toEqual([200, 429])
    expect([...careful.statuses.keys()].sort()).toEqual([200, 503])
    expect(all.of(200)).toBeGreaterThanOrEqual(LIMIT)
    expect(all.of(200)).toBeLessThanOrEqual(LIMIT * (1 + forgets) + NODES * (LIMIT / NODES))
    for (const { url } of instances)
      await until('it to be let through', async () => (await ask(url, '/careful', 'any')) === 200 || undefined)
  })
})

test.skipIf(!canStartRedis)(
  'rules that are put while Redis is stopped are refused in time, and do not come later',
  async () => {
    const redis = await ownRedis()
    const [one, other] = (await fleet(redis)) as [Child, Child]
    const put = (text: string) =>
      one.admin('/admin/v1/rules', { method: 'PUT', body: text, headers: { 'content-type': 'application/yaml' } })
    const generationOf = async ({ admin }: Child) => (await admin('/admin/v1/rules')).headers.get('etag')
    redis.pause()
    const refused = await put(rulesOf('  unwanted: { limit: 1/s }'))
    expect([refused.status, ((await refused.json()) as { code: string }).code]).toEqual([503, 'store_failed'])
    redis.resume()
    const accepted = await until('Redis', async () => {
      const response = await put(rulesOf('  wanted: { limit: 1/s }'))
      return response.status === 200 ? response : undefined
    })
    expect(await accepted.json()).toMatchObject({ generation: 2 })
    await until('the other', async () => (await generationOf(other)) === '"2"' || undefined)
  },
)
