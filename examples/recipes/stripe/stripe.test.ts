import { createOverload } from 'headgate/overload'
import { fakeClock } from 'headgate/testing'
import { expect, test } from 'vitest'
import { until } from '../../../packages/headgate/test/until.ts'
import { printed } from '../../printed.ts'
import { urlOf } from '../../serving.ts'
import { tally } from '../seen.ts'
import { api } from './stripe.ts'

test('a refused caller is told which limit it was', async () => {
  await expect(await printed(() => import('./calls.ts'))).toMatchFileSnapshot('output.txt')
})

async function start(concurrency: number) {
  const clock = fakeClock()
  const app = api({ clock }, createOverload({ concurrency, utilisation: false }))
  const held: (() => void)[] = []
  app.use('/v1/reports', (_req, res) => void held.push(() => res.json({})))
  app.use((_req, res) => void res.json({}))
  const url = await urlOf(app.listen(0, '127.0.0.1'))
  const ask = (path: string, key = 'sk_live_1', method = 'GET') =>
    fetch(url + path, { method, headers: { authorization: `Bearer ${key}` } })
  return { ask, clock, held }
}

const reasonOf = ({ headers }: Response) => headers.get('stripe-rate-limited-reason')

test('in the sandbox there is a quarter of it, and live traffic does not notice', async () => {
  const { ask, clock } = await start(100)
  expect(await tally(26, (i) => ask(`/v1/${i}`, 'sk_test_1'))).toEqual({ 200: 25, 429: 1 })
  expect((await ask('/v1/charges')).status).toBe(200)
  clock.advance(40)
  expect((await ask('/v1/charges', 'sk_test_1')).status).toBe(200)
})

test('twenty requests of one account are worked on at a time', async () => {
  const { ask, held } = await start(100)
  const running = Array.from({ length: 20 }, () => ask('/v1/reports'))
  await until('all are being worked on', () => held.length === 20 || undefined)
  const refused = await ask('/v1/balance')
  expect([refused.status, reasonOf(refused)]).toEqual([429, 'global-concurrency'])
  expect((await ask('/v1/balance', 'sk_live_2')).status).toBe(200)
  for (const end of held) end()
  await Promise.all(running)
})

test('when there is too much to do, test traffic is shed first and charges last; that is 503, and no limit is blamed', async () => {
  const { ask, held } = await start(20)
  async function statusesAt(running: number): Promise<number[]> {
    for (let i = held.length; i < running; i++) {
      void ask('/v1/reports', `sk_live_${i}`, 'POST').catch(() => {}) // each of another account, whose limits they are within
      await until('it is being worked on', () => held.length > i || undefined)
    }
    const statuses: number[] = []
    for (const [path, key, method] of calls) statuses.push((await ask(path, key, method)).status)
    return statuses
  }
  const calls = [
    ['/v1/balance', 'sk_test_1', 'GET'],
    ['/v1/balance', 'sk_live_x', 'GET'],
    ['/v1/refunds', 'sk_live_x', 'POST'],
    ['/v1/charges', 'sk_live_x', 'POST'],
  ] as const
  expect(await statusesAt(15)).toEqual([200, 200, 200, 200])
  expect(await statusesAt(16)).toEqual([503, 200, 200, 200])
  expect(await statusesAt(17)).toEqual([503, 503, 200, 200])
  expect(await statusesAt(18)).toEqual([503, 503, 503, 200])
  const shed = await ask(...calls[0])
  expect([reasonOf(shed), Number(shed.headers.get('retry-after')) > 0]).toEqual([null, true])
  expect(await shed.json()).toMatchObject({ error: { code: 'overloaded' } })
  for (const end of held) end()
})
