// What our own client makes of the recipes: it knows the APIs that they follow, as other programs do.
import { type Fetch, politeFetch } from 'headgate/client'
import { fakeClock } from 'headgate/testing'
import { expect, test } from 'vitest'
import { urlOf } from '../serving.ts'
import { api as discord } from './discord/discord.ts'
import { api as github } from './github/github.ts'
import { rest as shopify } from './shopify/rest.ts'
import { api as x } from './x/x.ts'

const clock = fakeClock(Date.UTC(2026, 0, 2))

/** What is known of a server after three calls. */
async function learnt(url: string, init: RequestInit, more: { fetch?: Fetch; clock?: typeof clock } = {}) {
  const polite = politeFetch(more)
  for (let i = 0; i < 3; i++) expect((await polite(url, init)).status).toBe(200)
  return polite.state().hosts[0]?.budgets
}
const to = (handler: (request: Request) => Response | Promise<Response>) => ({
  fetch: async (input: string | URL | Request, init?: RequestInit) => handler(new Request(input, init)),
  clock,
})

test('a bucket as at Shopify is read as one that leaks', async () => {
  const headers = { 'x-shopify-access-token': 'a' }
  const budgets = await learnt('http://localhost/products.json', { headers }, to(shopify({ clock })))
  expect(budgets).toMatchObject([{ limit: 40, left: 37, windowMs: 20_000 }])
})

test('windows as at X are read with their end', async () => {
  const budgets = await learnt('http://localhost/2/tweets', {}, to(x(() => ({ app: 'a', user: 'ann' }), { clock })))
  expect(budgets).toMatchObject([{ limit: 300, left: 297, windowMs: 900_000 }])
})

test('buckets as at Discord are read by their names', async () => {
  const app = discord({ clock })
  app.all('*', (c) => c.json({}))
  const init = { method: 'POST', headers: { authorization: 'Bot b1' } }
  const budgets = await learnt(
    'http://localhost/channels/1/messages',
    init,
    to((request) => app.request(request)),
  )
  expect(budgets).toMatchObject([{ name: expect.stringContaining('channel-messages'), limit: 5, left: 2 }])
})

test('resources as at GitHub are read by their names', async () => {
  const app = github() // the server's Date tells the real time, and the client goes by that
  app.use((_req, res) => void res.json({}))
  const url = await urlOf(app.listen(0, '127.0.0.1'))
  const headers = { authorization: 'token t1' }
  expect(await learnt(`${url}/repos`, { headers })).toMatchObject([{ name: 'core', limit: 5000, left: 4997 }])
  expect(await learnt(`${url}/search/code`, { headers })).toMatchObject([{ name: 'search', limit: 30, left: 27 }])
})
