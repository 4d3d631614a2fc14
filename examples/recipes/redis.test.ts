// The same recipes on two servers, with counts in a real Redis.
import type { GateOptions } from 'headgate'
import { fakeClock } from 'headgate/testing'
import { describe, expect, test } from 'vitest'
import { canStartRedis } from '../../packages/headgate/test/redis-server.ts'
import { rig } from '../../packages/headgate/test/redis-store.ts'
import { until } from '../../packages/headgate/test/until.ts'
import { urlOf } from '../serving.ts'
import { edge } from './cloudflare/cloudflare.ts'
import { api as github } from './github/github.ts'
import { app as login } from './login/login.ts'
import { tally } from './seen.ts'
import { graphqlApi } from './shopify/graphql.ts'

describe.skipIf(!canStartRedis)('with counts in Redis, two servers hold a contract together', () => {
  const redis = rig()
  const NOW = Date.UTC(2026, 0, 2)
  /** Each with a connection of its own, as processes have. */
  async function two<T>(make: (counting: GateOptions) => T) {
    const clock = fakeClock(NOW)
    const stores = await Promise.all([redis.store(), redis.store()])
    const [one, other] = stores.map((store) => make({ store, clock, timeoutMs: 10_000 })) as [T, T]
    return { clock, of: (i: number) => (i % 2 === 0 ? one : other) }
  }

  test('guesses at a password', async () => {
    const { clock, of } = await two((counting) =>
      urlOf(login(async (_account, password) => password === 'open sesame', counting).listen(0, '127.0.0.1')),
    )
    const once = async (i: number, password: string) =>
      fetch(`${await of(i)}/login`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ account: 'ann', password }),
      })
    /** Who is so quick that the other server has not let go of the last guess is told to come again in a second. */
    const guess = (i: number, password = 'wrong') =>
      until('an answer', async () => {
        const response = await once(i, password)
        return response.headers.get('retry-after') === '60' || response.status !== 429 ? response : undefined
      })
    expect(await tally(5, (i) => guess(i))).toEqual({ 401: 3, 429: 2 })
    clock.advance(60_000)
    expect((await guess(0, 'open sesame')).status).toBe(200)
    expect(await tally(5, (i) => guess(i))).toEqual({ 401: 3, 429: 2 })
  })

  test('resources and points', async () => {
    const { of } = await two((counting) => {
      const app = github(counting).use((_req, res) => void res.json({}))
      return urlOf(app.listen(0, '127.0.0.1'))
    })
    const ask = async (i: number, path: string) =>
      fetch((await of(i)) + path, { headers: { authorization: 'token t1' } })
    expect(await tally(32, (i) => ask(i, '/search/code'))).toEqual({ 200: 30, 403: 2 })
    expect((await ask(1, '/repos/1')).headers.get('x-ratelimit-used')).toBe('1')
    expect(await (await ask(0, '/rate_limit')).json()).toMatchObject({
      resources: { core: { used: 1 }, search: { used: 30 } },
    })
  })

  test('a block after too much that is not there', async () => {
    const rule = { matches: () => true, counts: () => true, limit: '5/10s', mitigationMs: 60_000 } as const
    const { clock, of } = await two((counting) => edge(rule, async () => new Response(null, { status: 404 }), counting))
    const headers = { 'cf-connecting-ip': '203.0.113.7' }
    const ask = (i: number) => of(i)(new Request('http://localhost/', { headers }))
    expect(await tally(8, ask)).toEqual({ 404: 5, 429: 3 })
    clock.advance(60_000)
    expect((await ask(1)).status).toBe(404)
  })

  test('points that are reserved and given back', async () => {
    const { of } = await two((counting) => graphqlApi({ products: [] }, counting))
    for (const i of [0, 1])
      expect(await of(i)('a', '{ products(first: 99) { title } }')).toMatchObject({
        extensions: {
          cost: { requestedQueryCost: 100, actualQueryCost: 1, throttleStatus: { currentlyAvailable: 1_999 - i } },
        },
      })
  })
})
