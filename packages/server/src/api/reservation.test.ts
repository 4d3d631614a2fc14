import { memory, type Store } from 'headgate'
import { fakeClock } from 'headgate/testing'
import { describe, expect, test } from 'vitest'
import { rig as redisRig } from '../../../headgate/test/redis-store.ts'
import { type Body, patient, type Rig, startApi } from '../../test/api.ts'
import { parseRules } from '../config/index.ts'
import { Seal } from './reservation.ts'

const redis = redisRig()
const rules = `
limits:
  calls: { limit: 100/year, by: [api-key], cost: 1 }
  tokens: { limit: 1000/year, by: [api-key], when: { path: { not: /login } } }
  busy: { atOnce: 2, by: [api-key], when: { path: /work } }
  login: { limit: 5/year, by: [api-key], when: { path: /login }, countWhen: { status: [401, 403] } }
`
const of = (path: string) => ({ request: { path, ip: '192.0.2.1', headers: { 'x-api-key': 'a' } } })

/** Two instances with the same counts, as two processes on one Redis are. */
async function pair(isRedis: boolean): Promise<[Rig, Rig]> {
  const shared: Store | undefined = isRedis ? undefined : memory()
  const start = async () => startApi(rules, { store: shared ?? (await redis.store()) })
  return [await start(), await start()]
}

async function left({ post }: Rig, path = '/'): Promise<(number | null)[]> {
  return (await post('/v1/peek', of(path))).body.limits.map(({ remaining }) => remaining)
}

async function take({ post }: Rig, path: string, cost = 1): Promise<string> {
  const { body } = await post('/v1/take', { ...of(path), cost })
  expect(body.ok).toBe(true)
  return body.reservation
}

describe.each([
  ['memory', false],
  ['Redis', true],
])('a reservation on %s', (_name, isRedis) => {
  test('that was taken at one instance is settled at the other, once', async () => {
    const [one, two] = await pair(isRedis)
    const reservation = await take(one, '/', 500)
    expect(await left(two)).toEqual([99, 500])
    const settle = (at: Rig) => at.post('/v1/settle', { reservation, actual: 120 })
    const told = await Promise.all([settle(two), settle(one), settle(two)])
    expect(told.map(({ status, body }) => [status, body.ok])).toEqual([
      [200, true],
      [200, true],
      [200, true],
    ])
    expect(told.filter(({ body }) => body.applied)).toHaveLength(1)
    expect(await left(one)).toEqual([99, 880])
    expect((await one.post('/v1/refund', { reservation })).body).toEqual({ ok: true, applied: false })
    expect(await left(two)).toEqual([99, 880])
  })

  test('is settled to more than was taken, and by name', async () => {
    const [one, two] = await pair(isRedis)
    const reservation = await take(one, '/', 10)
    await two.post('/v1/settle', { reservation, actual: { tokens: 1200, calls: 2 } })
    expect((await one.post('/v1/peek', of('/'))).body).toMatchObject({ ok: false, violated: ['tokens'] })
  })

  test('is refunded', async () => {
    const [one, two] = await pair(isRedis)
    const reservation = await take(one, '/', 500)
    expect((await two.post('/v1/refund', { reservation })).body).toEqual({ ok: true, applied: true })
    expect(await left(one)).toEqual([100, 1000])
  })

  test('of a slot is released once, and nobody else gets two of it', async () => {
    const [one, two] = await pair(isRedis)
    const [first] = [await take(one, '/work'), await take(one, '/work')]
    expect((await two.post('/v1/take', of('/work'))).body.violated).toEqual(['busy'])
    expect((await two.post('/v1/release', { reservation: first })).body.applied).toBe(true)
    expect((await one.post('/v1/release', { reservation: first })).body.applied).toBe(false)
    await take(two, '/work')
    expect((await one.post('/v1/take', of('/work'))).body.ok).toBe(false)
  })

  test('counts a response by its status, where the rules say so', async () => {
    const [one, two] = await pair(isRedis)
    const good = await take(one, '/login')
    await two.post('/v1/settle', { reservation: good, status: 200 })
    expect(await left(one, '/login')).toEqual([99, 5])
    const bad = await take(one, '/login')
    expect((await two.post('/v1/settle', { reservation: bad, status: 401 })).body.applied).toBe(true)
    expect((await one.post('/v1/settle', { reservation: bad, status: 401 })).body.applied).toBe(false)
    expect(await left(two, '/login')).toEqual([98, 4])
  })

  test('of a repeated id counts its response once', async () => {
    const [one, two] = await pair(isRedis)
    const asked = { ...of('/login'), id: 'x' }
    const [first, second] = [await one.post('/v1/take', asked), await two.post('/v1/take', asked)]
    const count = async (at: Rig, { body }: { body: Body }) =>
      (await at.post('/v1/settle', { reservation: body.reservation, status: 401 })).body.applied
    expect([await count(two, first), await count(one, second)]).toEqual([true, false])
    expect(await left(one, '/login')).toEqual([99, 4])
  })

  test('outlives new rules', async () => {
    const [one, two] = await pair(isRedis)
    const reservation = await take(one, '/', 500)
    const fewer = `${patient}limits: { tokens: { limit: 2000/year, by: [api-key] }, other: { limit: 1/s } }`
    two.service.replace(parseRules(fewer).rules, 'test')
    const { body } = await two.post('/v1/settle', { reservation, actual: { tokens: 100, calls: 1 } })
    expect(body).toEqual({ ok: true, applied: true })
    expect((await left(two))[0]).toBe(1900)
  })

  test('of limits that came along is settled at an instance that never saw them', async () => {
    const [one, two] = await pair(isRedis)
    const limits = { mine: { limit: '50/h', key: 'u1' }, slots: { atOnce: 1, key: 'u1' } }
    const { body } = await one.post('/v1/take', { limits, cost: 1 })
    const { reservation } = body
    expect((await two.post('/v1/settle', { reservation, actual: 20 })).body.applied).toBe(true)
    expect((await two.post('/v1/release', { reservation })).body.applied).toBe(true)
    const seen = await one.post('/v1/peek', { limits })
    expect(seen.body.limits.map(({ remaining }) => remaining)).toEqual([30, 1])
  })

  test('of a repeated id is one with the first', async () => {
    const [one, two] = await pair(isRedis)
    const asked = { ...of('/'), cost: 500, id: 'x' }
    const [first, second] = [await one.post('/v1/take', asked), await two.post('/v1/take', asked)]
    const refund = async (at: Rig, { body }: { body: Body }) =>
      (await at.post('/v1/refund', { reservation: body.reservation })).body.applied
    expect([await refund(two, first), await refund(one, second)]).toEqual([true, false])
    expect(await left(one)).toEqual([100, 1000])
  })

  test('is exact among two instances under batches at once', async () => {
    const [one, two] = await pair(isRedis)
    const batch = Array(50).fill({ ...of('/'), cost: 7 })
    const told = await Promise.all(
      [one, two, one, two].map(async ({ post }) => (await post<Body[]>('/v1/take', batch)).body),
    )
    const admitted = told.flat().filter(({ ok }) => ok)
    expect(admitted).toHaveLength(100)
    expect(await left(one)).toEqual([0, 300])
    const corrected = await Promise.all(
      admitted.flatMap(({ reservation }) =>
        [one, two].map(({ post }) => post('/v1/settle', { reservation, actual: 1 })),
      ),
    )
    expect(corrected.filter(({ body }) => body.applied)).toHaveLength(100)
    expect(await left(two)).toEqual([0, 900])
  })
})

test('a reservation ends with the longest window', async () => {
  const clock = fakeClock(1_800_000_000_000)
  const { post } = await startApi('limits: { calls: { limit: 100/h } }', { store: memory({ clock }) })
  const { reservation } = (await post('/v1/take', { request: {} })).body
  clock.advance(3_600_000)
  const { status, body } = await post('/v1/settle', { reservation, actual: 1 })
  expect([status, body.code]).toEqual([404, 'reservation_unknown'])
})

test('a reservation that was made up, changed, or made with another secret is not known', async () => {
  const one = await startApi(rules)
  const other = await startApi(rules, { secret: Buffer.from('another') })
  const reservation = await take(one, '/')
  const first = reservation[0] === 'A' ? 'B' : 'A'
  const wrong = [
    'x',
    '….',
    `${reservation}A`,
    reservation.slice(0, -2),
    `${first}${reservation.slice(1)}`,
    `${reservation.slice(0, 60)}${reservation[60] === 'A' ? 'B' : 'A'}${reservation.slice(61)}`,
    'A'.repeat(43),
    'A'.repeat(5000),
  ]
  for (const each of wrong) expect((await one.post('/v1/refund', { reservation: each })).status, each).toBe(404)
  expect((await other.post('/v1/refund', { reservation })).status).toBe(404)
  expect((await one.post('/v1/refund', { reservation })).status).toBe(200)
})

test('a reservation tells nobody what is in it, and no two are alike', () => {
  const seal = new Seal(Buffer.from('secret'))
  const reserved = { receipt: '{"key":"sk-live-1234"}', definition: undefined }
  const [one, two] = [seal.close(reserved), seal.close(reserved)]
  expect(one).not.toBe(two)
  expect(Buffer.from(one, 'base64url').toString('latin1')).not.toContain('sk-live')
  expect(seal.open(one)).toEqual(reserved)
})

test('what a settle lacks or has too much is told', async () => {
  const { post } = await startApi(rules)
  const reservation = await take({ post } as Rig, '/')
  const codeOf = async (body: object) => {
    const { status, body: problem } = await post('/v1/settle', body)
    return [status, problem.code, problem.pointer]
  }
  expect(await codeOf({ reservation })).toEqual([400, 'field_missing', '/actual'])
  expect(await codeOf({ reservation, actual: -1 })).toEqual([400, 'HG_COST_INVALID', '/actual'])
  expect(await codeOf({ reservation, actual: { tokens: 1.5 } })).toEqual([400, 'HG_COST_INVALID', '/actual/tokens'])
  expect(await codeOf({ reservation, actual: { words: 1 } })).toEqual([400, 'HG_LIMIT_UNKNOWN', '/actual'])
  expect(await codeOf({ reservation, actual: 1, cost: 1 })).toEqual([400, 'unknown_field', '/cost'])
  expect(await codeOf({ actual: 1 })).toEqual([400, 'field_missing', '/reservation'])
})

test('a store that does not answer is told by 503, and the settle may be tried again', async () => {
  const inner = memory()
  let isDown = false
  const store: Store = {
    run: async (groups) => {
      if (isDown) throw new Error('gone')
      return inner.run(groups)
    },
  }
  const rig = await startApi(rules, { store })
  const reservation = await take(rig, '/', 500)
  isDown = true
  const { status, body, headers } = await rig.post('/v1/settle', { reservation, actual: 1 })
  expect([status, body.code, headers.get('retry-after')]).toEqual([503, 'HG_STORE_FAILED', '1'])
  isDown = false
  expect((await rig.post('/v1/settle', { reservation, actual: 1 })).body.applied).toBe(true)
})
