import type { Server } from 'node:http'
import { serve } from '@hono/node-server'
import { beforeEach, expect, test, vi } from 'vitest'
import { urlOf } from '../serving.ts'

beforeEach(() => void vi.resetModules()) // every test has an app of its own, and its counts

async function start() {
  const { app } = await import('./app.ts')
  const url = await urlOf(serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }) as Server)
  return (path: string, key = '') => fetch(url + path, { headers: { 'X-API-Key': key } })
}

test('every response says what is left', async () => {
  const ask = await start()
  expect((await ask('/')).headers.get('ratelimit')).toBe('"default";r=99;t=1')
})

test('every plan has its own numbers', async () => {
  const ask = await start()
  for (let i = 0; i < 3; i++) expect((await ask('/api/search', 'key-of-ann')).status).toBe(200)
  const denied = await ask('/api/search', 'key-of-ann')
  expect(denied.status).toBe(429)
  expect(denied.headers.get('ratelimit-policy')).toBe('"plan";q=3;w=60')
  const pro = await ask('/api/search', 'key-of-acme')
  expect(pro.headers.get('ratelimit-policy')).toBe('"plan";q=600;w=60')
})

test('a caller may ask what is left without spending', async () => {
  const ask = await start()
  await ask('/api/search', 'key-of-ann')
  for (let i = 0; i < 2; i++) {
    const { resources } = (await (await ask('/api/rate_limit', 'key-of-ann')).json()) as { resources: object }
    expect(resources).toMatchObject({ plan: { limit: 3, remaining: 2, used: 1 } })
  }
})

test('who has no plan is not counted at all', async () => {
  const ask = await start()
  expect((await ask('/api/search', 'guessed')).status).toBe(401)
})
