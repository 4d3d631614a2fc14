import { expect, test, vi } from 'vitest'
import { canStartRedis, startRedis } from '../../packages/headgate/test/redis-server.ts'
import { until } from '../../packages/headgate/test/until.ts'
import { printed } from '../printed.ts'
import { type Running, start } from './start.ts'

test('a session on memory goes as the page says', async () => {
  await expect(await printed(() => import('./session.ts'))).toMatchFileSnapshot('output.txt')
})

test.skipIf(!canStartRedis)('two processes on one Redis share links and limits, by the clock of Redis', async () => {
  const server = await startRedis()
  const env = { PORT: '0', REDIS_URL: server.url }
  const both = await Promise.all([start(env), start(env)])
  try {
    const [here, there] = both as [Running, Running]
    const { code } = (await (await decided(here)).json()) as { code: string }
    expect((await fetch(`${there.url}/${code}`, { redirect: 'manual' })).status).toBe(302)
    const all = await Promise.all(Array.from({ length: 120 }, (_, i) => decided(i % 2 ? here : there)))
    expect(all.filter(({ status }) => status === 201)).toHaveLength(99)
  } finally {
    for (const each of both) await each.close()
    await server.stop()
  }
})

test.skipIf(!canStartRedis)('while Redis is away nobody waits, and when it is back all goes on', async () => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
  const server = await startRedis()
  const app = await start({ PORT: '0', REDIS_URL: server.url })
  try {
    expect((await decided(app)).status).toBe(201)
    await server.kill()
    const denied = await create(app)
    expect(denied.status).toBe(503)
    expect(Number(denied.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(await denied.json()).toMatchObject({ status: 503, code: 'unavailable' })
    expect((await fetch(`${app.url}/unknown0`)).status).toBe(500)
    await server.restart()
    await until('a link again', async () => (await create(app)).status === 201 || undefined)
  } finally {
    await app.close()
    await server.stop()
    vi.restoreAllMocks()
  }
})

test('without a trusted proxy in the environment nobody may say who they are', async () => {
  for (const [TRUST_PROXY, left] of [
    [undefined, '98'],
    ['loopback', '99'],
    ['1', '99'],
    ['127.0.0.0/8,10.0.0.1', '99'],
  ]) {
    const app = await start({ PORT: '0', TRUST_PROXY })
    await create(app, '203.0.113.1')
    expect((await create(app, '203.0.113.2')).headers.get('x-ratelimit-remaining'), TRUST_PROXY).toBe(left)
    await app.close()
  }
})

/** Once more where this machine was too busy to hear from Redis in time: what was given up is not charged. */
function decided(app: Running): Promise<Response> {
  return until('a decision', async () => {
    const response = await create(app)
    return response.status === 503 ? undefined : response
  })
}

function create({ url }: Running, from?: string): Promise<Response> {
  const headers = { Authorization: 'Bearer demo-premium', 'Content-Type': 'application/json' }
  const body = JSON.stringify({ url: 'https://example.com/' })
  const forwarded: Record<string, string> = from === undefined ? {} : { 'X-Forwarded-For': from }
  return fetch(`${url}/shorten`, { method: 'POST', headers: { ...headers, ...forwarded }, body })
}
