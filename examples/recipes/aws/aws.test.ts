import { once } from 'node:events'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { fakeClock } from 'headgate/testing'
import { serve } from 'headgate-server'
import { expect, onTestFinished, test } from 'vitest'
import { printed } from '../../printed.ts'
import { urlOf } from '../../serving.ts'
import { tally } from '../seen.ts'
import { api } from './aws.ts'

test('a client is told whether it was too fast or has used up its quota', async () => {
  await expect(await printed(() => import('./calls.ts'))).toMatchFileSnapshot('output.txt')
})

function start() {
  const plans = new Map<string, 'basic' | 'pro'>([
    ['a', 'basic'],
    ['b', 'basic'],
    ['p', 'pro'],
  ])
  const clock = fakeClock(Date.UTC(2026, 0, 31, 12))
  const call = api(plans, { clock })
  const ask = (key: string, path = '/orders') =>
    call(new Request(`http://localhost${path}`, { headers: { 'x-api-key': key } }))
  return { ask, clock, plans }
}

test('keys of one plan do not use up each other; a method has a limit for all of them', async () => {
  const { ask, clock } = start()
  expect(await tally(12, () => ask('a'))).toEqual({ 200: 10, 429: 2 })
  expect(await tally(10, () => ask('b'))).toEqual({ 200: 10 })
  expect(await tally(100, () => ask('p'))).toEqual({ 200: 80, 429: 20 })
  expect((await ask('p', '/items')).status).toBe(200)
  clock.advance(200)
  expect((await ask('a')).status).toBe(200)
})

test('a throttled request costs nothing of the quota, which starts anew at midnight', async () => {
  const { ask, clock } = start()
  let passed = 0
  while (passed < 1000) {
    const { status } = await ask('a')
    if (status === 200) passed++
    else clock.advance(200)
  }
  clock.advance(1_000)
  const refused = await ask('a')
  expect(refused.headers.get('x-amzn-errortype')).toBe('LimitExceededException')
  clock.set(Date.UTC(2026, 1, 1))
  expect((await ask('a')).status).toBe(200)
})

test('the same plans hold as rules of the gateway', async () => {
  const upstream = createServer((_req, res) => void res.end('{}')).listen(0, '127.0.0.1')
  await once(upstream, 'listening')
  const env = { HEADGATE_UPSTREAM: await urlOf(upstream), HEADGATE_PORT: '0', HEADGATE_ADMIN_PORT: '0' }
  const service = await serve({ file: join(import.meta.dirname, 'headgate.yaml'), env })
  onTestFinished(() => service.stop())
  const ask = (key: string) => fetch(`http://127.0.0.1:${service.port}/orders`, { headers: { 'x-api-key': key } })
  const burst = (key: string, count: number) => Promise.all(Array.from({ length: count }, () => ask(key)))
  const refused = (await burst('k1', 60)).filter(({ status }) => status === 429)
  expect(refused.length).toBeGreaterThan(0)
  expect(await refused[0]?.json()).toMatchObject({ code: 'rate_limited', limit: 'plan' })
  for (const { status } of await burst('demo-pro', 30)) expect(status).toBe(200)
})
