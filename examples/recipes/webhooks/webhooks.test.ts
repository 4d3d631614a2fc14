import { createServer, type RequestListener } from 'node:http'
import { fakeClock } from 'headgate/testing'
import { expect, test } from 'vitest'
import { until } from '../../../packages/headgate/test/until.ts'
import { printed } from '../../printed.ts'
import { urlOf } from '../../serving.ts'
import { passing } from '../passing.ts'
import { receiver } from './receiving.ts'
import { sender } from './sending.ts'

test('hooks leave evenly spaced, and a receiver takes in a burst and holds back a little more', async () => {
  await expect(await printed(() => import('./calls.ts'))).toMatchFileSnapshot('output.txt')
})

const listen = (listener: RequestListener) => urlOf(createServer(listener).listen(0, '127.0.0.1'))

test('each receiver has a line of its own, in order', async () => {
  const clock = fakeClock()
  const url = await listen((_req, res) => void res.end())
  const send = sender({ clock })
  const turns: string[] = []
  const all = [1, 2, 3].flatMap((n) =>
    [url, url.replace('127.0.0.1', 'localhost')].map((to, i) =>
      send({ id: `${n}${i}`, url: to, body: {} }, () => void turns.push(`${clock.now()} ${'ab'[i]}${n}`)),
    ),
  )
  await passing(clock, Promise.all(all))
  expect(turns).toEqual(['0 a1', '0 b1', '100 a2', '100 b2', '200 a3', '200 b3'])
})

test('a receiver that cannot take a hook gets it again when it says so, with the same key', async () => {
  const clock = fakeClock()
  const keys: unknown[] = []
  const url = await listen((req, res) => {
    keys.push(req.headers['idempotency-key'])
    if (keys.length < 3) res.writeHead(503, { 'retry-after': '7' })
    res.end()
  })
  expect(await passing(clock, sender({ clock })({ id: 'event-1', url, body: { n: 1 } }))).toBe(true)
  expect(keys).toEqual(['event-1', 'event-1', 'event-1'])
  expect(clock.now()).toBeGreaterThanOrEqual(14_000)
})

test('one that does not want it, or is not there, is given up', async () => {
  const clock = fakeClock()
  const gone = await listen((_req, res) => void res.writeHead(410).end())
  expect(await passing(clock, sender({ clock })({ id: '1', url: gone, body: {} }))).toBe(false)
  expect(await passing(clock, sender({ clock })({ id: '1', url: 'http://127.0.0.1:9/', body: {} }))).toBe(false)
})

test('a hook that would have to wait for longer than half a minute is handed back at once', async () => {
  const clock = fakeClock()
  const url = await listen((_req, res) => void res.end())
  const send = sender({ clock })
  const all = Array.from({ length: 302 }, (_, i) => send({ id: `${i}`, url, body: {} }))
  expect(await all.at(-1)).toBe(false)
  expect((await passing(clock, Promise.all(all))).filter(Boolean)).toHaveLength(301)
})

test('what does not fit is told when to come again, each a little later than the other', async () => {
  const clock = fakeClock()
  const events: unknown[] = []
  const url = await urlOf(receiver(async (event) => void events.push(event), { clock }).listen(0, '127.0.0.1'))
  const refused: Response[] = []
  const post = async (n: number) => {
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ n }) }
    const response = await fetch(`${url}/hooks`, init)
    if (response.status === 503) refused.push(response)
  }
  const all = Array.from({ length: 270 }, (_, n) => post(n))
  await until('the rest is refused', () => refused.length === 20 || undefined)
  await passing(clock, Promise.all(all))
  expect(events).toHaveLength(250)
  const waits = refused.map(({ headers }) => Number(headers.get('retry-after')))
  expect(Math.min(...waits)).toBeGreaterThanOrEqual(2)
  expect(new Set(waits).size).toBeGreaterThan(1)
  expect(await refused[0]?.json()).toMatchObject({ code: 'overloaded', reason: 'fleet' })
})
