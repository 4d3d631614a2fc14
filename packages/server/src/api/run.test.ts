import { once } from 'node:events'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createGate, memory, type Store } from 'headgate'
import { remote } from 'headgate/remote'
import { type FakeClock, storeSuite } from 'headgate/testing'
import { describe, expect, onTestFinished, test } from 'vitest'
import { seed } from '../../../headgate/test/random.ts'
import { type RunOptions, runHandler } from './run.ts'

interface Served {
  readonly url: string
  readonly port: number
  /** How many connections there were. */
  connections(): number
  close(): Promise<void>
}

async function serve(store: Store, options: RunOptions = {}): Promise<Served> {
  const server = createServer(runHandler(store, options))
  let connections = 0
  server.on('connection', () => connections++)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const close = async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
  return { url: `http://127.0.0.1:${port}`, port, connections: () => connections, close }
}

async function served(options: RunOptions = {}): Promise<Served> {
  const made = await serve(memory(), options)
  onTestFinished(() => made.close())
  return made
}

async function post(url: string, body: string, headers: Record<string, string> = {}) {
  const response = await fetch(`${url}/v1/run`, { method: 'POST', body, headers })
  return {
    status: response.status,
    headers: response.headers,
    body: (await response.json()) as Record<string, unknown>,
  }
}

const hello = '{"v":1,"counters":[],"groups":[]}'

describe(`POST /v1/run (HEADGATE_SEED=${seed})`, () => {
  const make = async (clock: FakeClock): Promise<Store> => {
    const { url, close } = await serve(memory({ clock }), { token: 'secret', tellTime: true })
    const store = remote(url, { token: 'secret', timeoutMs: 10_000 })
    const run: Store['run'] = (groups, nowUs) => store.run(groups, nowUs)
    return { run, close: () => Promise.resolve(store.close()).then(close) }
  }
  for (const { name, run } of storeSuite(make, { seed })) test(name, run)

  test('tells who waits for it to go on, where the server leaves that to it', async () => {
    const handle = runHandler(memory())
    const server = createServer(handle).on('checkContinue', handle).listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    const asked = request({ port, method: 'POST', headers: { expect: '100-continue', 'content-length': hello.length } })
    asked.flushHeaders()
    await once(asked, 'continue')
    asked.end(hello)
    const [response] = await once(asked, 'response')
    expect(response.resume().statusCode).toBe(200)
  })

  test('answers a message', async () => {
    const { url } = await served()
    expect(await post(url, hello)).toMatchObject({ status: 200, body: { v: 1, results: [] } })
  })

  test.each([
    ['no token', {}],
    ['another one', { authorization: 'Bearer secre' }],
    ['a longer one', { authorization: 'Bearer secret2' }],
    ['another scheme', { authorization: 'Basic secret' }],
    ['an empty one', { authorization: 'Bearer ' }],
  ])('refuses who brings %s', async (_, headers: Record<string, string>) => {
    const { url } = await served({ token: 'secret' })
    const answer = await post(url, hello, headers)
    expect(answer).toMatchObject({ status: 401, body: { status: 401, code: 'unauthorized' } })
    expect(answer.headers.get('www-authenticate')).toBe('Bearer')
    expect(answer.headers.get('content-type')).toBe('application/problem+json')
  })

  test('lets in who brings the token, and tells a gate that brings another', async () => {
    const { url } = await served({ token: 'secret' })
    await remote(url, { token: 'secret' }).ready()
    const store = remote(url, { token: 'wrong' })
    const gate = createGate({ limit: '10/s', store, timeoutMs: 5_000 })
    expect((await gate.take('a')).degraded).toBe('local')
    expect(gate.health().failures).toEqual({ unauthorized: 1 })
  })

  test('refuses what is no message, and says why', async () => {
    const { url } = await served()
    expect(await post(url, 'hello')).toMatchObject({ status: 400, body: { code: 'HG_MESSAGE_INVALID' } })
    const newer = await post(url, '{"v":2}')
    expect(newer).toMatchObject({ status: 400, body: { code: 'HG_PROTOCOL_VERSION' } })
    expect(newer.body.detail).toContain('version 2 and is answered by version 1')
  })

  test('lets nobody tell the time', async () => {
    const { url } = await served()
    const told = await post(url, '{"v":1,"counters":[],"groups":[],"nowUs":1}')
    expect(told).toMatchObject({ status: 400, body: { code: 'HG_MESSAGE_INVALID' } })
  })

  test('refuses what is too long, whether it says so or not, and reads no more of it', async () => {
    const { url, port } = await served({ maxBytes: 1_000 })
    expect(await post(url, ' '.repeat(1_001))).toMatchObject({ status: 413, body: { code: 'body_too_large' } })
    const asked = request({ port, host: '127.0.0.1', method: 'POST', path: '/v1/run' })
    asked.on('error', () => {})
    asked.write(' '.repeat(600))
    asked.write(' '.repeat(600))
    const [response] = await once(asked, 'response')
    expect([response.statusCode, response.headers.connection]).toEqual([413, 'close'])
    asked.destroy()
    expect((await post(url, hello)).status).toBe(200)
  })

  test('is asked by POST alone', async () => {
    const { url } = await served()
    const response = await fetch(`${url}/v1/run`)
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST'])
  })

  test('survives callers who leave in the middle', async () => {
    const { url, port } = await served()
    const asked = request({ port, host: '127.0.0.1', method: 'POST', path: '/v1/run' })
    asked.on('error', () => {})
    asked.write('{"v":1')
    await once(asked, 'socket')
    asked.destroy()
    expect((await post(url, hello)).status).toBe(200)
  })

  test('is asked over few connections, which stay', async () => {
    const { url, connections } = await served()
    const store = remote(url)
    const gate = createGate({ limit: '10_000/year', store, timeoutMs: 10_000, onStoreError: 'deny' })
    for (let i = 0; i < 50; i++) await Promise.all(Array.from({ length: 20 }, () => gate.take('a')))
    expect((await gate.peek('a')).remaining).toBe(9_000)
    expect(connections()).toBeLessThanOrEqual(5)
  })
})
