import { politeFetch } from 'headgate/client'
import { fakeClock } from 'headgate/testing'
import { expect, test } from 'vitest'
import { printed } from '../../printed.ts'
import { tally } from '../seen.ts'
import { api } from './discord.ts'

test('a bot is told its bucket, and how long to wait to the millisecond', async () => {
  await expect(await printed(() => import('./calls.ts'))).toMatchFileSnapshot('output.txt')
})

function start() {
  const clock = fakeClock(Date.UTC(2026, 0, 2))
  const app = api({ clock })
  app.all('*', (c) => c.json({}))
  const ask = (path: string, bot = 'Bot b1', method = 'POST') =>
    app.request(path, { method, headers: { authorization: bot } })
  return { ask, clock, app }
}

test('buckets are counted by bot and channel', async () => {
  const { ask, clock } = start()
  expect(await tally(6, () => ask('/channels/1/messages'))).toEqual({ 200: 5, 429: 1 })
  expect((await ask('/channels/2/messages')).status).toBe(200)
  expect((await ask('/channels/1/messages', 'Bot b2')).status).toBe(200)
  expect((await ask('/channels/1', 'Bot b1', 'PATCH')).headers.get('x-ratelimit-bucket')).toBe('channel-edits')
  clock.advance(5_000)
  expect(await tally(6, () => ask('/channels/1/messages'))).toEqual({ 200: 5, 429: 1 })
})

test('routes without a bucket count to the global limit alone', async () => {
  const { ask } = start()
  expect((await ask('/users/@me', 'Bot b1', 'GET')).headers.has('x-ratelimit-limit')).toBe(false)
  expect(await tally(50, () => ask('/users/@me', 'Bot b1', 'GET'))).toEqual({ 200: 49, 429: 1 })
})

test('a client that knows the dialect is never refused', async () => {
  const { app } = start()
  const polite = politeFetch({
    fetch: async (input, init) => app.request(new Request(input, init)),
    maxWaitMs: 100,
  })
  const send = () =>
    polite('http://localhost/channels/1/messages', { method: 'POST', headers: { authorization: 'Bot b1' } })
  for (let i = 0; i < 5; i++) expect((await send()).status).toBe(200)
  await expect(send()).rejects.toThrow('HG_WAIT_TOO_LONG') // it has read that the bucket is empty, and sends nothing
})
