import { describe, expect, test } from 'vitest'
import { randomBy, seed } from '../../../headgate/test/random.ts'
import { canStartRedis } from '../../../headgate/test/redis-server.ts'
import { behind, child, type Instance, instance, ownRedis, rulesFile, rulesOf } from '../../test/service.ts'

const TOKEN = 'decision-token-0123456789'
const bearer = { authorization: `Bearer ${TOKEN}` }
const headers = { 'x-api-key': 'shared' }
const LIMIT = 300

/** A question in one of the ways there are, and how many it admitted. */
type Ask = (url: string, size: number) => Promise<number>

const describedRequest = { request: { method: 'GET', path: '/x', ip: '192.0.2.1', headers } }

async function take(url: string, body: unknown): Promise<unknown> {
  const init = { method: 'POST', body: JSON.stringify(body), headers: bearer }
  const response = await fetch(`${url}/v1/take`, init)
  expect(response.status).toBe(200)
  return response.json()
}

const ways: readonly Ask[] = [
  async (url) => count(await fetch(`${url}/x`, { headers }), 200),
  async (url) => Number(((await take(url, describedRequest)) as { ok: boolean }).ok),
  async (url, size) => {
    const told = (await take(url, Array(size).fill(describedRequest))) as { ok: boolean; degraded: unknown }[]
    expect(told.every(({ degraded }) => degraded === false)).toBe(true)
    return told.filter(({ ok }) => ok).length
  },
  // The token is shown by nginx and is no key of the client.
  async (url) => count(await fetch(`${url}/v1/auth`, { headers: { ...headers, ...bearer } }), 204),
]

async function count(response: Response, good: number): Promise<number> {
  await response.arrayBuffer()
  if (response.status !== good) expect(response.status).toBe(429)
  return Number(response.status === good)
}

describe.skipIf(!canStartRedis)('two instances on one Redis', () => {
  async function two(): Promise<{ one: Instance; other: { url: string }; through: () => number }> {
    const [redis, upstream] = [await ownRedis(), await behind()]
    const store = `store: redis://127.0.0.1:${redis.port}/0\ntimeoutMs: 10000\nupstream: ${upstream.url}`
    const text = rulesOf(`  per-key: { limit: ${LIMIT}/day, by: [api-key] }`, store)
    const env = { HEADGATE_TOKEN: TOKEN }
    // One of them is another process, so that nothing but Redis is shared.
    return {
      one: await instance(text, env),
      other: await child(rulesFile(text), env),
      through: () => upstream.got.length,
    }
  }

  test(`admit exactly the limit, whichever way requests are decided, all at the same time (HEADGATE_SEED=${seed})`, async () => {
    const next = randomBy(seed)
    const { one, other, through } = await two()
    const asked = Array.from({ length: 400 }, () => {
      const way = Math.floor(next() * ways.length)
      const url = next() < 0.5 ? one.url : other.url
      return { way, admitted: (ways[way] as Ask)(url, 1 + Math.floor(next() * 5)) }
    })
    const admitted = [0, 0, 0, 0]
    for (const { way, admitted: answer } of asked) admitted[way] = (admitted[way] ?? 0) + (await answer)
    expect(admitted.reduce((sum, each) => sum + each, 0)).toBe(LIMIT)
    expect(admitted.every((each) => each > 0)).toBe(true)
    expect(through()).toBe(admitted[0])
  })

  test('a reservation of one is corrected by the other', async () => {
    const { one, other } = await two()
    const { reservation } = (await take(one.url, { ...describedRequest, cost: LIMIT })) as { reservation: string }
    expect(await ways[1]?.(other.url, 1)).toBe(0)
    const init = { method: 'POST', body: JSON.stringify({ reservation, actual: LIMIT - 1 }), headers: bearer }
    expect(await (await fetch(`${other.url}/v1/settle`, init)).json()).toMatchObject({ ok: true, applied: true })
    expect([await ways[1]?.(other.url, 1), await ways[1]?.(one.url, 1)]).toEqual([1, 0])
  })
})
