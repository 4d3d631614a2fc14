import { beforeEach, expect, test, vi } from 'vitest'
import { urlOf } from '../serving.ts'

beforeEach(() => void vi.resetModules()) // every test has an app of its own, and its counts

async function start() {
  const { app } = await import('./app.ts')
  const url = await urlOf(app.listen(0, '127.0.0.1'))
  const login = (body: object) =>
    fetch(`${url}/login`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    })
  return { url, login }
}

test('every response says what is left', async () => {
  const { url } = await start()
  const { status, headers } = await fetch(url)
  expect(status).toBe(200)
  expect(headers.get('ratelimit')).toBe('"default";r=99;t=1')
  expect(headers.get('ratelimit-policy')).toBe('"default";q=100;w=60')
})

test('the hundred-and-first request in an instant is told when to come back', async () => {
  const { url } = await start()
  const all = await Promise.all(Array.from({ length: 150 }, () => fetch(url)))
  const denied = all.find(({ status }) => status === 429)
  expect(denied?.headers.get('retry-after')).toBe('1')
  expect(await denied?.json()).toMatchObject({ code: 'rate_limited', limit: 'default' })
})

test('five wrong passwords lock an account, right ones cost nothing', async () => {
  const { login } = await start()
  for (let i = 0; i < 10; i++) expect((await login({ account: 'ann', password: 'open sesame' })).status).toBe(200)
  for (let i = 0; i < 5; i++) expect((await login({ account: 'ann', password: `guess ${i}` })).status).toBe(401)
  const locked = await login({ account: 'ann', password: 'open sesame' })
  expect(locked.status).toBe(429)
  expect(await locked.json()).toMatchObject({ 'violated-policies': ['account'] })
  expect(Number(locked.headers.get('retry-after'))).toBeGreaterThan(120)
  expect((await login({ account: 'bob', password: 'open sesame' })).status).toBe(200)
})

test('forty guesses at once are no way around: at most six are tried', async () => {
  const { login } = await start()
  const all = await Promise.all(Array.from({ length: 40 }, (_, i) => login({ account: 'ann', password: `guess ${i}` })))
  const tried = all.filter(({ status }) => status === 401)
  expect(tried.length).toBeGreaterThan(0)
  expect(tried.length).toBeLessThanOrEqual(6)
  expect(all.filter(({ status }) => status === 429)).toHaveLength(40 - tried.length)
})

test('a login without an account is a bad request', async () => {
  vi.spyOn(console, 'error').mockImplementation(() => {}) // Express prints what it answers with
  const { login } = await start()
  expect((await login({ password: 'open sesame' })).status).toBe(400)
})
