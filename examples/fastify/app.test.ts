import { beforeEach, expect, test, vi } from 'vitest'
import { urlOf } from '../serving.ts'

beforeEach(() => void vi.resetModules()) // every test has an app of its own, and its counts

async function start(): Promise<string> {
  const { app } = await import('./app.ts')
  await app.listen({ port: 0, host: '127.0.0.1' })
  return urlOf(app.server)
}

function search(url: string, key: string): Promise<Response> {
  return fetch(`${url}/search`, { headers: { 'X-API-Key': key } })
}

test('one line limits all routes but those that are left out', async () => {
  const url = await start()
  expect((await fetch(url)).headers.get('ratelimit')).toBe('"default";r=99;t=1')
  expect((await fetch(`${url}/health`)).headers.has('ratelimit')).toBe(false)
})

test('a request meets the limit of its key and that of its address as one', async () => {
  const url = await start()
  for (const key of ['k1', 'k2', 'k3']) expect((await search(url, key)).status).toBe(200)
  const denied = await search(url, 'k4')
  expect(denied.status).toBe(429)
  expect(await denied.json()).toMatchObject({ limit: 'ip', 'violated-policies': ['ip'] })
  // The violated one stands first, and the key was charged nothing.
  expect(denied.headers.get('ratelimit')).toMatch(/^"ip";r=0;t=\d+, "key";r=20;t=0$/)
})

test('a request without a key is told so', async () => {
  const url = await start()
  const response = await fetch(`${url}/search`)
  expect(response.status).toBe(400)
  expect(await response.json()).toMatchObject({ code: 'HG_KEY_MISSING' })
})
