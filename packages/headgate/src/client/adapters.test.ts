import { createServer } from 'node:http'
import axios from 'axios'
import got from 'got'
import { axiosOptions, gotHooks, politeFetch, undiciInterceptor } from 'headgate/client'
import { Agent, request } from 'undici'
import { expect, test } from 'vitest'
import { urlOf } from '../../../../examples/serving.ts'

/** A server that takes one call at a time and a second between the first two, and tells so. */
async function server() {
  const atMs: number[] = []
  const listening = createServer((req, res) => {
    req.resume()
    atMs.push(performance.now())
    res.writeHead(200, { 'x-ratelimit-limit': '1', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset-after': '0.3' })
    res.end(JSON.stringify({ call: atMs.length }))
  }).listen(0, '127.0.0.1')
  return { url: `${await urlOf(listening)}/things`, atMs }
}

function spaced(atMs: readonly number[]) {
  expect(atMs).toHaveLength(3)
  for (const [index, at] of atMs.slice(1).entries()) expect(at - (atMs[index] ?? 0)).toBeGreaterThanOrEqual(295)
}

test('axios waits for its turn, and gets its answers', async () => {
  const { url, atMs } = await server()
  const client = axios.create(axiosOptions(politeFetch()))
  const answers = await Promise.all([1, 2, 3].map(() => client.post(url, { hello: 'world' })))
  expect(answers.map(({ data }) => data.call).sort()).toEqual([1, 2, 3])
  spaced(atMs)
})

test('undici waits for its turn, and gets its answers', async () => {
  const { url, atMs } = await server()
  const dispatcher = new Agent().compose(undiciInterceptor(politeFetch()))
  const answers = await Promise.all([1, 2, 3].map(async () => (await request(url, { dispatcher })).body.json()))
  expect(answers.map((each) => (each as { call: number }).call).sort()).toEqual([1, 2, 3])
  spaced(atMs)
  await dispatcher.close()
})

test('undici hears of a call that cannot wait', async () => {
  const { url } = await server()
  const dispatcher = new Agent().compose(undiciInterceptor(politeFetch({ limit: '1/min', maxWaitMs: 100 })))
  await (await request(url, { dispatcher })).body.text()
  await expect(request(url, { dispatcher })).rejects.toMatchObject({ code: 'HG_WAIT_TOO_LONG' })
  await dispatcher.close()
})

test('got waits for its turn, and gets its answers', async () => {
  const { url, atMs } = await server()
  const client = got.extend({ hooks: gotHooks(politeFetch()) })
  const answers = await Promise.all([1, 2, 3].map(() => client(url).json<{ call: number }>()))
  expect(answers.map(({ call }) => call).sort()).toEqual([1, 2, 3])
  spaced(atMs)
})

test('got that fails gives its turn back', async () => {
  const polite = politeFetch({ concurrency: 1 })
  const client = got.extend({ hooks: gotHooks(polite), retry: { limit: 0 } })
  await expect(client('http://127.0.0.1:1/')).rejects.toThrow(/ECONNREFUSED/)
  expect(polite.state().hosts[0]).toMatchObject({ underWay: 0 })
})

test('a turn counts as under way until it is told how it ended, once', async () => {
  const polite = politeFetch()
  const turn = await polite.turn('https://api.example/')
  expect(polite.state().hosts[0]).toMatchObject({ underWay: 1 })
  turn.answered(200, (name) => (name === 'x-ratelimit-remaining' ? '5' : undefined))
  turn.failed()
  expect(polite.state().hosts[0]).toMatchObject({ underWay: 0, budgets: [{ left: 5 }] })
})
