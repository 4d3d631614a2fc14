import { once } from 'node:events'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { fakeClock } from 'headgate/testing'
import { serve } from 'headgate-server'
import { expect, onTestFinished, test } from 'vitest'
import { printed } from '../../printed.ts'
import { urlOf } from '../../serving.ts'
import { tally } from '../seen.ts'
import { edge } from './cloudflare.ts'

test('who asks for too much that is not there is blocked for a minute, in that data centre', async () => {
  await expect(await printed(() => import('./calls.ts'))).toMatchFileSnapshot('output.txt')
})

function start() {
  const clock = fakeClock()
  const origin = async ({ url }: Request) => new Response(null, { status: url.endsWith('/found') ? 200 : 404 })
  const rule = {
    matches: () => true,
    counts: ({ status }: Response) => status === 404,
    limit: '5/10s',
    mitigationMs: 60_000,
  } as const
  const handle = edge(rule, origin, { clock })
  const ask = (path: string, ip = '203.0.113.7') =>
    handle(new Request(`http://localhost${path}`, { headers: { 'cf-connecting-ip': ip } }))
  return { ask, clock }
}

test('what is found does not count, and others are not blocked', async () => {
  const { ask } = start()
  expect(await tally(50, () => ask('/found'))).toEqual({ 200: 50 })
  expect(await tally(8, () => ask('/lost'))).toEqual({ 404: 5, 429: 3 })
  expect((await ask('/lost', '203.0.113.8')).status).toBe(404)
})

test('a block is neither shortened by being quiet nor made longer by going on', async () => {
  const { ask, clock } = start()
  await tally(5, () => ask('/lost'))
  for (let second = 0; second < 59; second++) {
    clock.advance(1_000)
    expect((await ask('/found')).status).toBe(429)
  }
  clock.advance(1_000)
  expect((await ask('/found')).status).toBe(200)
  expect((await ask('/lost')).status).toBe(404)
})

test('guesses in flight together do not get around it', async () => {
  const { ask, clock } = start()
  const all = await Promise.all(Array.from({ length: 9 }, () => ask('/lost')))
  expect(all.every(({ status }) => status === 404)).toBe(true) // they were let in before any was answered
  expect((await ask('/found')).status).toBe(429)
  clock.advance(60_000)
  expect((await ask('/found')).status).toBe(200)
})

test('rules of the gateway count by status, too', async () => {
  const upstream = createServer((req, res) => void res.writeHead(req.url === '/found' ? 200 : 404).end())
  upstream.listen(0, '127.0.0.1')
  await once(upstream, 'listening')
  const env = { HEADGATE_UPSTREAM: await urlOf(upstream), HEADGATE_PORT: '0', HEADGATE_ADMIN_PORT: '0' }
  const service = await serve({ file: join(import.meta.dirname, 'headgate.yaml'), env })
  onTestFinished(() => service.stop())
  const ask = (path: string) => fetch(`http://127.0.0.1:${service.port}${path}`)
  expect(await tally(15, () => ask('/found'))).toEqual({ 200: 15 })
  const lost = await tally(30, () => ask('/lost'))
  expect(lost[429]).toBeGreaterThan(0)
  expect((await ask('/found')).status).toBe(429)
})
