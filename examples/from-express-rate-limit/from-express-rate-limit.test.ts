import type { Express } from 'express'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { printed } from '../printed.ts'
import { urlOf } from '../serving.ts'

test('what a hundred a minute lets through at worst', async () => {
  await expect(await printed(() => import('./windows.ts'))).toMatchFileSnapshot('output.txt')
})

const apps = {
  'express-rate-limit': () => import('./before.ts'),
  headgate: () => import('./after.ts'),
}

describe.each(Object.entries(apps))('with %s', (_, load) => {
  beforeEach(() => void vi.resetModules()) // every test has counts of its own

  async function start() {
    const { app } = (await load()) as { app: Express }
    app.post('/login', (req, res) => void res.sendStatus(req.get('x-password') === 'right' ? 200 : 401))
    app.use((_req, res) => void res.send('ok'))
    const url = await urlOf(app.listen(0, '127.0.0.1'))
    const ask = (key: string, path = '/api') => fetch(url + path, { headers: { 'x-api-key': key } })
    const login = (password: string) => fetch(`${url}/login`, { method: 'POST', headers: { 'x-password': password } })
    return { ask, login }
  }

  test('a key has a hundred, in fields that clients know, and an answer of its own beyond that', async () => {
    const { ask } = await start()
    const first = await ask('a')
    expect(first.headers.get('ratelimit')).toMatch(/^limit=100, remaining=99, reset=\d+$/)
    expect(first.headers.get('ratelimit-policy')).toBe('100;w=60')
    expect(first.headers.has('x-ratelimit-limit')).toBe(false)
    const more = await Promise.all(Array.from({ length: 150 }, () => ask('a')))
    const refused = more.filter(({ status }) => status === 429)
    expect(refused.length).toBeGreaterThan(0)
    expect(await refused[0]?.json()).toEqual({ error: 'slow down' })
    expect((await ask('a', '/api/health')).status).toBe(200)
    expect((await ask('b')).status).toBe(200)
  })

  test('right passwords are not counted, five wrong ones are', async () => {
    const { login } = await start()
    for (let i = 0; i < 10; i++) expect((await login('right')).status).toBe(200)
    for (let i = 0; i < 5; i++) expect((await login('wrong')).status).toBe(401)
    const refused = await login('right')
    expect([refused.status, await refused.text()]).toEqual([429, 'Too many wrong passwords.'])
    expect(refused.headers.get('x-ratelimit-limit')).toBe('5')
  })
})
