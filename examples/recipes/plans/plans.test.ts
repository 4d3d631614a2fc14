import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { createGate } from 'headgate'
import { fakeClock } from 'headgate/testing'
import { serve } from 'headgate-server'
import { expect, onTestFinished, test } from 'vitest'
import { printed } from '../../printed.ts'
import { urlOf } from '../../serving.ts'

const file = join(import.meta.dirname, 'headgate.yaml')

test('a plan says how much there is, an exception more, and a new limit is watched before it refuses', async () => {
  await expect(await printed(() => import('./plans.ts'))).toMatchFileSnapshot('output.txt')
})

async function start(rules = readFileSync(file, 'utf8')) {
  const upstream = createServer((_req, res) => void res.end('{}')).listen(0, '127.0.0.1')
  await once(upstream, 'listening')
  const env = { HEADGATE_UPSTREAM: await urlOf(upstream), HEADGATE_PORT: '0', HEADGATE_ADMIN_PORT: '0' }
  const service = await serve({ text: rules, env })
  onTestFinished(() => service.stop())
  return (key: string) => fetch(`http://127.0.0.1:${service.port}/orders`, { headers: { 'x-api-key': key } })
}

test('a month that is used up is refused until the month is over where the bills are sent', async () => {
  const ask = await start(readFileSync(file, 'utf8').replace('free: 1000/month', 'free: 3/month'))
  for (let i = 0; i < 3; i++) expect((await ask('key-of-bob')).status).toBe(200)
  const before = Date.now()
  const refused = await ask('key-of-bob')
  expect(refused.status).toBe(429)
  const { limit, retryAfterMs } = (await refused.json()) as { limit: string; retryAfterMs: number }
  expect(limit).toBe('month')
  const berlin = new Intl.DateTimeFormat('en-GB', { timeZone: 'Europe/Berlin', day: 'numeric', hour: 'numeric' })
  expect(berlin.format(before + retryAfterMs + 60_000)).toBe('1, 00')
  expect((await ask('key-of-acme')).status).toBe(200)
})

test('months begin at midnight in the zone, also where clocks are changed', () => {
  const clock = fakeClock(Date.UTC(2026, 2, 31, 21, 59, 59, 999)) // a millisecond before April in Berlin, which is on summer time
  const gate = createGate({ limit: '1/month calendar Europe/Berlin', clock })
  expect([gate.take('a').ok, gate.take('a').ok]).toEqual([true, false])
  clock.advance(1)
  expect(gate.take('a').ok).toBe(true)
})

test('who changes to a smaller plan keeps what was used, and gets no more', () => {
  let plan = 'pro'
  const gate = createGate({
    limit: { free: '10/month calendar', pro: '100/month calendar' },
    tier: () => plan,
    by: (user: string) => user,
    clock: fakeClock(),
  })
  for (let i = 0; i < 20; i++) gate.take('a')
  plan = 'free'
  expect(gate.take('a').ok).toBe(false)
  plan = 'pro'
  expect(gate.take('a').remaining).toBe(79)
})
