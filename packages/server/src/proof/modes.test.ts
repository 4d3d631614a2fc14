import { describe, expect, onTestFinished, test } from 'vitest'
import { canStartRedis, type OwnRedis } from '../../../headgate/test/redis-server.ts'
import { until } from '../../../headgate/test/until.ts'
import { samplesOf } from '../../test/metrics.ts'
import { child, instance, ownRedis, rulesFile, rulesOf, swapFile } from '../../test/service.ts'

const LIMIT = 2_000
const YEAR = 'per: 1year, algorithm: fixed-window'
const BATCH = 50

interface Target {
  readonly url: string
}

/** Asks for so many decisions, and says how many were good. Without an upstream, so that nothing but decisions takes time. */
async function take({ url }: Target, path: string, count = BATCH): Promise<number> {
  const one = { request: { method: 'GET', path, ip: '192.0.2.1', headers: { 'x-api-key': 'hot' } } }
  const response = await fetch(`${url}/v1/take`, { method: 'POST', body: JSON.stringify(Array(count).fill(one)) })
  const told = (await response.json()) as { ok: boolean; degraded: unknown }[]
  expect(told.filter(({ degraded }) => degraded !== false)).toEqual([])
  return told.filter(({ ok }) => ok).length
}

async function remaining({ url }: Target, path: string, name: string): Promise<number | undefined> {
  const body = { request: { method: 'GET', path, ip: '192.0.2.1', headers: { 'x-api-key': 'hot' } } }
  const response = await fetch(`${url}/v1/peek`, { method: 'POST', body: JSON.stringify(body) })
  const { limits } = (await response.json()) as { limits: { name: string; remaining: number }[] }
  return limits.find((each) => each.name === name)?.remaining
}

/** How many calls Redis was made, by everybody, beside what instances say to each other. */
async function callsOf(redis: OwnRedis, work: () => Promise<unknown>): Promise<number> {
  await redis.call('CONFIG', 'RESETSTAT')
  await work()
  const stats = String(await redis.call('INFO', 'commandstats'))
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0)
}

async function metrics(adminUrl: string): Promise<ReadonlyMap<string, number>> {
  return samplesOf(await (await fetch(`${adminUrl}/metrics`)).text())
}

const storeOf = (redis: OwnRedis, modes: string) =>
  `store: { redis: { url: redis://127.0.0.1:${redis.port}/0, ${modes} } }\ntimeoutMs: 10000`
/** One that is leased, and one that is asked for each time, of some requests. */
const limitsOf = (
  hold: string,
  limit = LIMIT,
) => `  hot: { limit: { limit: ${limit}, ${YEAR} }, by: [api-key], hold: ${hold} }
  month: { limit: { limit: ${limit}, ${YEAR} }, by: [api-key], when: { path: /both }, hold: central }`

describe.skipIf(!canStartRedis)('two instances that lease by their rules', { timeout: 60_000 }, () => {
  async function two(modes: string, limits = limitsOf('lease')) {
    const redis = await ownRedis()
    const text = rulesOf(limits, storeOf(redis, modes))
    const file = rulesFile(text)
    // One of them is another process, so that nothing but Redis is shared.
    return { redis, file, text, one: await instance(text), other: await child(file) }
  }

  test('admit exactly the limit together, with a fraction of the calls to Redis', async () => {
    const { redis, one, other } = await two('lease: true')
    let [passed, asked] = [0, 0]
    const calls = await callsOf(redis, async () => {
      for (let i = 0; i < 10; i++) {
        passed += (await Promise.all([take(one, '/', BATCH), take(other, '/', BATCH)])).reduce((sum, n) => sum + n)
        asked += 2 * BATCH
      }
    })
    expect(passed).toBe(asked)
    expect(calls).toBeLessThan(asked / 2)
    await until('all to be spent', async () => {
      passed += await take(one, '/')
      passed += await take(other, '/')
      expect(passed).toBeLessThanOrEqual(LIMIT)
      return passed === LIMIT || undefined
    })
    expect((await take(one, '/')) + (await take(other, '/'))).toBe(0)
    for (const { adminUrl } of [one, other]) {
      const told = await metrics(adminUrl)
      expect(told.get('headgate_lease_decided_total')).toBeGreaterThan(100)
      expect(told.get('headgate_lease_messages_total')).toBeGreaterThan(0)
      expect(told.get('headgate_lease_held_units')).toBe(0)
    }
  })

  test('ask for a limit that is central each time, and decide it as one with one that is leased', async () => {
    const { redis, one, other } = await two('lease: true')
    for (let i = 0; i < 4; i++) for (const each of [one, other]) await take(each, '/')
    const calls = await callsOf(redis, async () => {
      expect((await take(one, '/both')) + (await take(other, '/both'))).toBe(2 * BATCH)
    })
    expect(calls).toBeGreaterThanOrEqual(1)
    expect(await remaining(one, '/both', 'month')).toBe(LIMIT - 2 * BATCH)
    expect(await remaining(other, '/both', 'month')).toBe(LIMIT - 2 * BATCH)
  })

  test('grant nothing while rules change how the limit is held, again and again under load', async () => {
    const { file, text, one, other } = await two('lease: { lifeMs: 5000 }')
    let [passed, stopped] = [0, false]
    onTestFinished(() => {
      stopped = true
    })
    const load = [one, other].map(async (each) => {
      while (!stopped) {
        const more = await take(each, '/', 10)
        passed += more
      }
    })
    for (let i = 0; i < 10; i++) {
      const before = passed
      const next = rulesOf(limitsOf(i % 2 === 0 ? 'central' : 'lease'), text.split('\nserver')[0])
      for (const each of [file, one.file]) swapFile(each, next)
      expect(one.reload()).toEqual([])
      other.signal('SIGHUP')
      await until('some to pass, or all', () => (passed > before || passed === LIMIT ? true : undefined))
    }
    // What a gate that was replaced still holds is idle, and comes back.
    await until('all to be spent', () => (passed >= LIMIT ? true : undefined), { withinMs: 30_000 })
    stopped = true
    await Promise.all(load)
    expect(passed).toBe(LIMIT)
  })

  test('refuse rules that hold a limit in a way that the store was not opened with, and keep the last ones', async () => {
    const { one, other, file, redis } = await two('lease: true')
    const text = rulesOf(limitsOf('share'), storeOf(redis, 'lease: true, share: true'))
    swapFile(one.file, text)
    const [reason] = one.reload()
    expect(reason).toMatch(/limits\.hot\.hold: the store has no way "share" to hold limits; it has central, lease/)
    const body = text.replace(/^store.*$/m, '')
    const put = await other.admin('/admin/v1/rules', {
      method: 'PUT',
      body,
      headers: { 'content-type': 'application/yaml' },
    })
    expect(put.status).toBe(422)
    expect(await take(other, '/')).toBe(BATCH)
    expect(file).not.toBe(one.file)
  })

  test('give back what they have borrowed when they are told to end', async () => {
    // It would be back by itself only after a minute.
    const { one, other, text } = await two('lease: { lifeMs: 60000 }')
    const watching = await instance(text)
    let passed = 0
    const borrow = (from: Target & { adminUrl: string }) =>
      until('a lease', async () => {
        passed += await take(from, '/')
        return (await metrics(from.adminUrl)).get('headgate_lease_held_units') || undefined
      })
    await borrow(other)
    expect(await remaining(watching, '/', 'hot')).toBeLessThan(LIMIT - passed)
    other.signal('SIGTERM')
    expect(await other.exited).toMatchObject({ code: 0 })
    expect(await remaining(watching, '/', 'hot')).toBe(LIMIT - passed)
    await borrow(one)
    await one.stop()
    expect(await remaining(watching, '/', 'hot')).toBe(LIMIT - passed)
  })
})

describe('two processes of one instance that lease by its rules', { timeout: 60_000 }, () => {
  test('admit exactly the limit, and decide most of it without asking the one that counts', async () => {
    const limits = `  hot: { limit: { limit: ${LIMIT}, ${YEAR} }, by: [api-key] }`
    const service = await child(
      rulesFile(rulesOf(limits, 'store: { memory: { lease: true } }\ntimeoutMs: 10000', 'workers: 2')),
    )
    let passed = 0
    await until('all to be spent', async () => {
      passed += await take(service, '/')
      expect(passed).toBeLessThanOrEqual(LIMIT)
      return passed === LIMIT || undefined
    })
    const decided = await until(
      'a report',
      async () => (await metrics(service.adminUrl)).get('headgate_lease_decided_total') || undefined,
    )
    expect(decided).toBeGreaterThan(LIMIT / 4)
  })
})

describe.skipIf(!canStartRedis)('other ways to hold limits, by rules', { timeout: 60_000 }, () => {
  test('processes that tell each other count what passed in all of them, and say how old what they know is', async () => {
    const redis = await ownRedis()
    const text = rulesOf(limitsOf('sync'), storeOf(redis, 'sync: { syncMs: 50 }'))
    const [one, other] = [await instance(text), await child(rulesFile(text))]
    expect((await take(one, '/')) + (await take(other, '/'))).toBe(2 * BATCH)
    for (const each of [one, other]) {
      await until('both', async () => ((await remaining(each, '/', 'hot')) === LIMIT - 2 * BATCH ? true : undefined))
      const lag = (await metrics(each.adminUrl)).get('headgate_store_lag_seconds{hold="sync"}')
      expect(lag).toBeLessThan(30)
    }
  })

  test('processes with a part each divide the limit among themselves, and say among how many', async () => {
    const redis = await ownRedis()
    const text = rulesOf(limitsOf('share'), storeOf(redis, 'share: { beatMs: 100 }'))
    const [one, other] = [await instance(text), await child(rulesFile(text))]
    for (const each of [one, other]) expect(await remaining(each, '/', 'hot')).toBe(LIMIT) // who looks takes no part
    expect(await take(one, '/', 1)).toBe(1)
    expect((await metrics(one.adminUrl)).get('headgate_share_nodes')).toBe(1)
    expect(await take(other, '/', 1)).toBe(1)
    for (const each of [one, other])
      await until('a half', async () => ((await remaining(each, '/', 'hot')) === LIMIT / 2 - 1 ? true : undefined))
    expect((await metrics(one.adminUrl)).get('headgate_share_nodes')).toBe(2)
  })

  test('regions count what passed in each other, and limits that say otherwise do not', async () => {
    const [eu, us] = [await ownRedis(), await ownRedis()]
    const modes = (here: string, other: string, far: OwnRedis) =>
      `regions: { here: ${here}, others: { ${other}: redis://127.0.0.1:${far.port}/0 }, syncMs: 50 }`
    const rules = (home: OwnRedis, regions: string) => rulesOf(limitsOf('regions'), storeOf(home, regions))
    const [one, other] = [
      await instance(rules(eu, modes('eu', 'us', us))),
      await child(rulesFile(rules(us, modes('us', 'eu', eu)))),
    ]
    expect((await take(one, '/both', 30)) + (await take(other, '/both', 12))).toBe(42)
    for (const [each, own] of [
      [one, 30],
      [other, 12],
    ] as const) {
      await until('both', async () => ((await remaining(each, '/both', 'hot')) === LIMIT - 42 ? true : undefined))
      expect(await remaining(each, '/both', 'month')).toBe(LIMIT - own)
      const lag = (await metrics(each.adminUrl)).get('headgate_store_lag_seconds{hold="regions"}')
      expect(lag).toBeLessThan(30)
    }
  })
})
