import { fakeClock } from 'headgate/testing'
import { expect, test } from 'vitest'
import { until } from '../../../packages/headgate/test/until.ts'
import { printed } from '../../printed.ts'
import { urlOf } from '../../serving.ts'
import { tally } from '../seen.ts'
import { api } from './github.ts'

test('a caller is told its resource, is refused by primary and secondary limits, and asks what is left for nothing', async () => {
  await expect(await printed(() => import('./calls.ts'))).toMatchFileSnapshot('output.txt')
})

async function start() {
  const clock = fakeClock(Date.UTC(2026, 0, 2))
  const app = api({ clock })
  const held: (() => void)[] = []
  app.get('/slow', (_req, res) => void held.push(() => res.json({})))
  app.use((_req, res) => void res.json({}))
  const url = await urlOf(app.listen(0, '127.0.0.1'))
  const ask = (path: string, token?: string, method = 'GET') =>
    fetch(url + path, { method, headers: token === undefined ? {} : { authorization: token } })
  return { ask, clock, held }
}

test('without a token there are 60 requests an hour, per address', async () => {
  const { ask, clock } = await start()
  expect(await tally(62, () => ask('/repos/1'))).toEqual({ 200: 60, 403: 2 })
  expect((await ask('/repos/1', 'token t1')).status).toBe(200)
  clock.advance(3_600_000)
  expect((await ask('/repos/1')).status).toBe(200)
})

test('searches do not use up the hour, and nobody uses up another', async () => {
  const { ask } = await start()
  expect(await tally(31, () => ask('/search/code', 't1'))).toEqual({ 200: 30, 403: 1 })
  expect((await ask('/repos/1', 't1')).headers.get('x-ratelimit-used')).toBe('1')
  expect((await ask('/search/code', 't2')).status).toBe(200)
})

test('a write costs five points, a read one; what is refused costs nothing of the hour', async () => {
  const { ask, clock } = await start()
  expect(await tally(181, () => ask('/repos/1', 't1', 'POST'))).toEqual({ 200: 180, 403: 1 })
  const refused = await ask('/repos/1', 't1')
  expect([refused.status, refused.headers.get('x-ratelimit-used')]).toEqual([403, '180'])
  clock.advance(Number(refused.headers.get('retry-after')) * 1000)
  expect((await ask('/repos/1', 't1')).status).toBe(200)
})

test('a hundred requests of one token are worked on at a time', async () => {
  const { ask, held } = await start()
  const running = Array.from({ length: 100 }, () => ask('/slow', 't1'))
  await until('all are being worked on', () => held.length === 100 || undefined)
  const refused = await ask('/slow', 't1')
  expect([refused.status, await refused.json()]).toEqual([
    403,
    expect.objectContaining({ message: expect.stringContaining('secondary rate limit') }),
  ])
  expect((await ask('/repos/1', 't2')).status).toBe(200)
  for (const end of held) end()
  await Promise.all(running)
  await until('there is room', async () => (await ask('/repos/1', 't1')).ok || undefined)
})

test('asking what is left spends nothing', async () => {
  const { ask } = await start()
  for (let i = 0; i < 3; i++) await ask('/rate_limit', 't1')
  const { resources } = (await (await ask('/rate_limit', 't1')).json()) as { resources: Record<string, object> }
  expect(Object.keys(resources)).toEqual(['core', 'search'])
  expect(resources).toMatchObject({ core: { limit: 5000, used: 0 }, search: { limit: 30, used: 0 } })
})
