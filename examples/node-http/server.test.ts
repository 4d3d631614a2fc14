import { expect, test } from 'vitest'
import { urlOf } from '../serving.ts'
import { fairServer, server } from './server.ts'

test('every response says what is left', async () => {
  const url = await urlOf(server.listen(0, '127.0.0.1'))
  const response = await fetch(url)
  expect(await response.text()).toBe('hello\n')
  expect(response.headers.get('ratelimit')).toBe('"default";r=99;t=1')
})

test('a failure of ours and an answer that was not needed are given back', async () => {
  const url = await urlOf(fairServer.listen(0, '127.0.0.1'))
  expect((await fetch(`${url}/broken`)).status).toBe(500)
  expect((await fetch(url, { headers: { 'If-None-Match': '"1"' } })).status).toBe(304)
  const { rate } = (await (await fetch(`${url}/rate_limit`)).json()) as { rate: object }
  expect(rate).toMatchObject({ limit: 100, remaining: 100, used: 0 })
})
