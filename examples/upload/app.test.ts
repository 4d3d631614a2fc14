import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { beforeEach, expect, test, vi } from 'vitest'
import { until } from '../../packages/headgate/test/until.ts'
import { urlOf } from '../serving.ts'

beforeEach(() => void vi.resetModules()) // every test has a service of its own, and its counts

async function start(): Promise<string> {
  const { server } = await import('./app.ts')
  return urlOf(server.listen(0, '127.0.0.1'))
}

const MB = 1_000_000
const headers = { 'x-api-key': 'alice' }
const put = (url: string, bytes: number) =>
  fetch(`${url}/file`, { method: 'PUT', headers, body: new Uint8Array(bytes) })

/** Of a limit, once it is about what it should be: some comes back every second. */
async function left(url: string, limit: string, most: number): Promise<number> {
  return until(`at least ${most - MB / 10} left of ${limit}`, async () => {
    const told = await fetch(`${url}/nothing`, { headers })
    const [, units] = new RegExp(`"${limit}";r=(\\d+)`).exec(told.headers.get('ratelimit') ?? '') ?? []
    return Number(units) > most - MB / 10 && Number(units) < most + MB / 10 ? Number(units) : undefined
  })
}

/** An upload that does not say how large it is. */
function chunked(url: string): ClientRequest {
  const req = request(`${url}/file`, { method: 'PUT', headers, agent: false })
  req.on('error', () => {})
  return req
}

test('uploads are kept while they fit, and what does not fit is refused before it is sent', async () => {
  const url = await start()
  expect((await put(url, 6 * MB)).status).toBe(201)
  await left(url, 'uploads', 4 * MB)
  const denied = await put(url, 5 * MB)
  expect(denied.status).toBe(429)
  expect(await denied.json()).toMatchObject({ code: 'rate_limited', limit: 'uploads' })
  expect((await put(url, 3 * MB)).status).toBe(201)
  expect((await fetch(`${url}/file`, { method: 'PUT', headers: { 'x-api-key': 'bob' }, body: 'x' })).status).toBe(201)
})

test('an upload that does not say how large it is, is cut off and not kept', async () => {
  const url = await start()
  const req = chunked(url)
  const answered = once(req, 'response') as Promise<[IncomingMessage]>
  for (let sent = 0; sent < 12 * MB; sent += MB) {
    if (!req.write(Buffer.alloc(MB))) await Promise.race([once(req, 'drain'), answered])
  }
  req.end()
  const [response] = await answered
  expect(response.statusCode).toBe(429)
  expect(JSON.parse(await text(response))).toMatchObject({ code: 'rate_limited', limit: 'uploads' })
  expect((await fetch(`${url}/file`, { headers: { 'x-api-key': 'bob' } })).status).toBe(404)
})

test('an upload that is broken off costs what came of it', async () => {
  const url = await start()
  const req = request(`${url}/file`, { method: 'PUT', headers: { ...headers, 'content-length': 9 * MB } })
  req.on('error', () => {})
  req.write(Buffer.alloc(2 * MB))
  await left(url, 'uploads', MB)
  req.destroy()
  await until('what never came to be given back', async () => {
    const told = (await fetch(`${url}/nothing`, { headers })).headers.get('ratelimit') ?? ''
    return Number(/"uploads";r=(\d+)/.exec(told)?.[1]) >= 8 * MB || undefined
  })
})

test('a download costs its size', async () => {
  const url = await start()
  await put(url, 5 * MB)
  expect((await (await fetch(`${url}/file`, { headers })).arrayBuffer()).byteLength).toBe(5 * MB)
  await left(url, 'downloads', 45 * MB)
})

test('a download of more than what is left is refused', async () => {
  const url = await start()
  await put(url, 10 * MB)
  for (let i = 0; i < 4; i++) await (await fetch(`${url}/file`, { headers })).arrayBuffer()
  await left(url, 'downloads', 10 * MB)
  expect((await fetch(`${url}/file`, { headers })).status).toBe(200) // the last that fits
  const refused = await fetch(`${url}/file`, { headers })
  expect(refused.status).toBe(429)
  expect(await refused.json()).toMatchObject({ limit: 'downloads' })
})
