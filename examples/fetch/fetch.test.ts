import type { Server } from 'node:http'
import { serve } from '@hono/node-server'
import { expect, test } from 'vitest'
import { urlOf } from '../serving.ts'
import app from './app.ts'
import { GET } from './route.ts'

test('one default export answers and limits', async () => {
  const url = await urlOf(serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }) as Server)
  const response = await fetch(`${url}/here`)
  expect(await response.text()).toBe('hello from /here\n')
  expect(response.headers.get('ratelimit')).toBe('"default";r=99;t=1')
})

test('a route handler counts by the address that the proxy in front tells', async () => {
  const url = await urlOf(serve({ fetch: (request) => GET(request), port: 0, hostname: '127.0.0.1' }) as Server)
  const ask = (address: string) => fetch(`${url}/?q=cats`, { headers: { 'X-Forwarded-For': address } })
  for (let i = 0; i < 3; i++) expect(await (await ask('203.0.113.1')).json()).toEqual({ query: 'cats', results: [] })
  const denied = await ask('203.0.113.1')
  expect(denied.status).toBe(429)
  expect(Number(denied.headers.get('retry-after'))).toBeGreaterThan(10)
  expect((await ask('203.0.113.2')).status).toBe(200)
})
