import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { json } from 'node:stream/consumers'
import { beforeEach, expect, test, vi } from 'vitest'
import { until } from '../../packages/headgate/test/until.ts'
import { urlOf } from '../serving.ts'

beforeEach(() => void vi.resetModules()) // every test has an app of its own, and its counts

async function start(): Promise<string> {
  const { app } = await import('./app.ts')
  app.silent = true // callers who break off are errors to Koa
  return urlOf(app.listen(0, '127.0.0.1'))
}

/** An upload that has begun; it lasts until the test ends it. */
async function upload(url: string): Promise<ClientRequest> {
  const req = request(url, { method: 'PUT', headers: { Expect: '100-continue' } })
  req.on('error', () => {})
  req.flushHeaders()
  await once(req, 'continue')
  return req
}

async function end(req: ClientRequest): Promise<unknown> {
  req.end('12345')
  const [response] = (await once(req, 'response')) as [IncomingMessage]
  return json(response)
}

test('every response says what is left', async () => {
  const url = await start()
  expect((await fetch(url)).headers.get('ratelimit')).toBe('"default";r=99;t=1')
})

test('two uploads at once fit, the third is told that we are busy', async () => {
  const url = await start()
  const [first] = [await upload(url), await upload(url)]
  const denied = await fetch(url, { method: 'PUT', body: 'x' })
  expect(denied.status).toBe(503)
  expect(await denied.json()).toMatchObject({ code: 'overloaded', limit: 'uploads' })
  expect((await fetch(url)).status).toBe(200)

  expect(await end(first)).toEqual({ bytes: 5 })
  expect((await fetch(url, { method: 'PUT', body: 'x' })).status).toBe(200)
})

test('who breaks off makes room', async () => {
  const url = await start()
  const [first] = [await upload(url), await upload(url)]
  first.destroy()
  const tryAgain = async () => (await fetch(url, { method: 'PUT', body: 'x' })).status === 200 || undefined
  await until('a place', tryAgain)
})
