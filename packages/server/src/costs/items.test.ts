import { request } from 'node:http'
import { connect } from 'node:net'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { describe, expect, test, vi } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import { dial } from '../../test/connection.ts'
import { type Answer, read, responseOf } from '../../test/gateway.ts'
import { behind, child, ends, type Instance, instance, ownRedis, rulesFile, rulesOf } from '../../test/service.ts'
import type { Upstream } from '../../test/upstream.ts'

vi.setConfig({ testTimeout: 60_000 })

/** What an upstream was sent. */
interface Sent {
  readonly method: string
  readonly headers: Readonly<Record<string, unknown>>
  readonly trailers: Readonly<Record<string, unknown>>
  readonly body: Buffer
}

const BULK = '  bulk: { limit: 10/year calendar, when: { path: /bulk }, cost: items:$.orders }'

async function service(
  limits = BULK,
  more = '',
  server = '',
): Promise<{ url: string; at: Instance; sent: Sent[]; upstream: Upstream }> {
  const sent: Sent[] = []
  const upstream = await behind((req, res) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      const { method = '', headers, trailers } = req
      sent.push({ method, headers, trailers, body: Buffer.concat(chunks) })
      res.end('done')
    })
  })
  const at = await instance(rulesOf(limits, `upstream: ${upstream.url}\n${more}`, server))
  return { url: `${at.url}/bulk`, at, sent, upstream }
}

type Body = string | Uint8Array | readonly (string | Uint8Array)[]

/** A list is sent in chunks. */
async function post(url: string, body: Body, headers: Record<string, string> = {}): Promise<Answer & { left: number }> {
  const isList = Array.isArray(body)
  const length: Record<string, string> = isList ? {} : { 'content-length': String(Buffer.byteLength(body as string)) }
  const asked = request(url, {
    method: 'POST',
    agent: false,
    headers: { 'content-type': 'application/json', ...length, ...headers },
  })
  asked.on('error', () => {}) // refused before all was sent
  const answer = responseOf(asked).then(read)
  for (const chunk of isList ? body : [body]) asked.write(chunk)
  asked.end()
  const got = await answer
  return { ...got, left: Number(got.headers['x-ratelimit-remaining'] ?? Number.NaN) }
}

function orders(count: number): string {
  return JSON.stringify({ orders: Array.from({ length: count }, (_, id) => ({ id })) })
}

function codeOf({ status, body }: Answer): string {
  return `${status} ${(JSON.parse(body) as { code: string }).code}`
}

describe('cost: items', () => {
  test('a bulk call costs as much as it has items, and what does not fit is refused before the upstream is touched', async () => {
    const { url, sent } = await service()
    expect(await post(url, orders(4))).toMatchObject({ status: 200, left: 6 })
    expect(await post(url, orders(6))).toMatchObject({ status: 200, left: 0 })
    expect(codeOf(await post(url, orders(1)))).toBe('429 rate_limited')
    const never = await post(url, orders(11))
    expect(codeOf(never)).toBe('429 cost_never_fits')
    expect(JSON.parse(never.body).detail).toMatch(/^A cost of 11 never fits limit "bulk"\./)
    expect(sent).toHaveLength(2)
  })

  test('several limits are charged as one, each by its own cost', async () => {
    const limits = `${BULK}\n  calls: { limit: 3/year calendar, when: { path: /bulk } }\n  lines: { limit: 100/year calendar, cost: "items:$.orders[*].lines" }`
    const { url, at } = await service(limits)
    await post(url, '{"orders": [{"lines": [1, 2, 3]}, {"lines": [4]}]}')
    const left = async (limit: string) => (await at.service.inspect(limit, undefined)).limits[0]?.remaining
    expect([await left('bulk'), await left('calls'), await left('lines')]).toEqual([8, 2, 96])
    expect((await post(url, orders(9))).status).toBe(429)
    expect([await left('bulk'), await left('calls'), await left('lines')]).toEqual([8, 2, 96])
  })

  test('a call without items, without a body, and an upgrade cost 1', async () => {
    const { url, at } = await service()
    expect(await post(url, '{"orders": []}')).toMatchObject({ status: 200, left: 9 })
    expect(await post(url, '{}')).toMatchObject({ status: 200, left: 8 })
    expect(await post(url, '')).toMatchObject({ status: 200, left: 7 })
    expect(await post(url, [])).toMatchObject({ status: 200, left: 6 })
    const got = await fetch(url)
    expect([got.status, got.headers.get('x-ratelimit-remaining')]).toEqual([200, '5'])
    const line = await dial(at.port)
    const head = 'GET /bulk HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
    expect((await line.ask(head))?.head).toMatch(/x-ratelimit-remaining: 4/i)
  })

  test.each<[string, (body: string) => Body, Record<string, string>]>([
    ['with its length', (body) => body, {}],
    ['in chunks', (body) => [body.slice(0, 7), body.slice(7, 9), body.slice(9)], {}],
    ['gzip', (body) => gzipSync(body), { 'content-encoding': 'gzip' }],
    ['deflate', (body) => deflateSync(body), { 'content-encoding': 'deflate' }],
    ['br, in chunks', (body) => [brotliCompressSync(body)], { 'content-encoding': 'BR' }],
    ['that nobody calls JSON', (body) => body, { 'content-type': '' }],
    ['of a type of its own', (body) => body, { 'content-type': 'application/vnd.orders+json; charset="UTF-8"' }],
  ])('a body %s reaches the upstream byte for byte', async (_, encode, headers) => {
    const { url, sent } = await service()
    const body = encode(`${orders(3)}\n `)
    expect(await post(url, body, headers)).toMatchObject({ status: 200, left: 7 })
    const expected = Buffer.concat((Array.isArray(body) ? body : [body]).map((each) => Buffer.from(each)))
    expect(sent[0]?.body.equals(expected)).toBe(true)
    expect(sent[0]?.headers).toMatchObject({ 'content-length': String(expected.length), ...withoutEmpty(headers) })
    expect(sent[0]?.headers).not.toHaveProperty('transfer-encoding')
  })

  function withoutEmpty(headers: Record<string, string>): Record<string, string> {
    return Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ''))
  }

  test('trailers pass, behind a body that was read before', async () => {
    const { at, sent } = await service()
    const line = await dial(at.port)
    const head = 'POST /bulk HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n'
    const answer = await line.ask(`${head}f\r\n{"orders": [1]}\r\n0\r\nX-Sum: 42\r\n\r\n`)
    expect(answer?.status).toBe(200)
    expect(sent[0]).toMatchObject({ trailers: { 'x-sum': '42' }, headers: { trailer: 'X-Sum' } })
    expect(sent[0]?.body.toString()).toBe('{"orders": [1]}')
  })

  test('whoever waits to be told to continue is told so, and only if the body is wanted', async () => {
    const { at, sent } = await service()
    const line = await dial(at.port)
    const head = (length: number) =>
      `POST /bulk HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\nExpect: 100-continue\r\n\r\n`
    line.say(head(15))
    await until('to be told', () => line.heard.includes('100 Continue') || undefined)
    line.say('{"orders": [1]}')
    await until('an answer', () => line.heard.includes('done') || undefined)
    expect(sent[0]?.headers).not.toHaveProperty('expect')
    const other = await dial(at.port)
    expect(await other.ask(head(2_000_000))).toMatchObject({
      status: 413,
      head: expect.stringMatching(/^connection: close/im),
    })
    expect(other.heard).not.toContain('100 Continue')
  })

  test('what cannot be counted is refused with a reason, charged to nobody, and the connection goes on', async () => {
    const { url, at, sent } = await service(BULK, '', 'maxReadBytes: 10000')
    const bomb = gzipSync(Buffer.alloc(5_000_000, 0x20))
    const refused: [string, Body, Record<string, string>?][] = [
      ['400 body_invalid', '{"orders": [1, 2'],
      ['400 body_invalid', `{"orders": ${'['.repeat(4000)}`],
      ['400 body_invalid', '{"orders": [1], "orders": []}'],
      ['400 body_invalid', gzipSync(orders(2)).subarray(0, 30), { 'content-encoding': 'gzip' }],
      ['400 body_invalid', orders(2), { 'content-encoding': 'gzip' }],
      ['413 body_too_large', ' '.repeat(10_001)],
      ['413 body_too_large', [' '.repeat(6_000), ' '.repeat(6_000)]],
      ['413 body_too_large', bomb, { 'content-encoding': 'gzip' }],
      ['415 body_unsupported', orders(2), { 'content-encoding': 'zstd' }],
      ['415 body_unsupported', orders(2), { 'content-encoding': 'gzip, gzip' }],
      ['415 body_unsupported', orders(2), { 'content-encoding': 'constructor' }],
      ['415 body_unsupported', orders(2), { 'content-type': 'text/plain' }],
      ['415 body_unsupported', orders(2), { 'content-type': 'application/x-www-form-urlencoded' }],
      ['415 body_unsupported', orders(2), { 'content-type': 'application/json; charset=utf-16' }],
    ]
    expect(bomb.length).toBeLessThan(10_000)
    for (const [expected, body, headers] of refused) {
      const answer = await post(url, body, headers)
      expect([expected, answer.headers['content-type']]).toEqual([codeOf(answer), 'application/problem+json'])
    }
    expect(sent).toEqual([])
    expect((await at.service.inspect('bulk', undefined)).limits[0]?.remaining).toBe(10)
    const line = await dial(at.port)
    const ask = (body: string) =>
      line.ask(`POST /bulk HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
    expect((await ask('{"orders": [1'))?.status).toBe(400)
    expect((await ask(orders(2)))?.status).toBe(200)
  })

  test.each([
    ['says how much it sends', 'Content-Length: 2000000', ''],
    ['does not', 'Transfer-Encoding: chunked', '1e8480\r\n'],
  ])(
    'a client that %s is heard out after a refusal: its connection is closed, and not reset',
    async (_, field, start) => {
      const { at } = await service(BULK, '', 'maxReadBytes: 10000')
      const socket = ends(connect(at.port, '127.0.0.1'), (each) => each.destroy())
      const seen: string[] = []
      let heard = ''
      socket.on('error', ({ message }) => seen.push(message)).on('end', () => seen.push('end'))
      socket.setEncoding('latin1').on('data', (chunk) => {
        heard += chunk
      })
      const say = (text: string) =>
        new Promise<void>((resolve, reject) => socket.write(text, (error) => (error ? reject(error) : resolve())))
      await say(`POST /bulk HTTP/1.1\r\nHost: a\r\n${field}\r\n\r\n${start}${' '.repeat(1_000_000)}`)
      await until('an answer', () => heard.includes('body_too_large') || undefined)
      expect(heard).toMatch(/^HTTP\/1.1 413 [\s\S]*connection: close/i)
      for (let i = 0; i < 10; i++) await say(' '.repeat(100_000))
      if (start !== '') await say('\r\n0\r\n\r\n')
      await until('it to be closed', () => socket.closed || undefined)
      expect(seen).toEqual(['end'])
    },
  )

  test('how much is read, and unpacked, is as the service was started', async () => {
    const { url, at } = await service(BULK, '', 'maxReadBytes: 1000')
    const padded = (length: number) => orders(1) + ' '.repeat(length - orders(1).length)
    const packed = { 'content-encoding': 'gzip' }
    for (const maxReadBytes of [100, 1_000_000]) {
      const { rules } = at.service.rules
      at.service.replace({ ...rules, server: { ...rules.server, maxReadBytes } }, 'test')
      expect((await post(url, padded(1_000))).status).toBe(200)
      expect((await post(url, gzipSync(padded(1_000)), packed)).status).toBe(200)
      expect(codeOf(await post(url, padded(1_001)))).toBe('413 body_too_large')
      expect(codeOf(await post(url, gzipSync(padded(1_001)), packed))).toBe('413 body_too_large')
    }
  })

  test('two lines that say what the body is are not believed', async () => {
    const { at } = await service()
    const line = await dial(at.port)
    const types = 'Content-Type: application/json\r\nContent-Type: text/plain\r\n'
    const body = orders(1)
    const head = `POST /bulk HTTP/1.1\r\nHost: a\r\n${types}Content-Length: ${body.length}\r\n\r\n`
    expect((await line.ask(`${head}${body}`))?.status).toBe(415)
  })

  test.each([
    ['mode: observe', ''],
    ['enforcePercent: 50', ''],
    ['mode: enforce', 'mode: observe'],
  ])('a limit with %s %s refuses no body: what it cannot read costs 1 and passes as it came', async (mode, more) => {
    const limits = `  bulk: { limit: 100/year calendar, cost: items:$.orders, ${mode} }`
    const { url, at, sent } = await service(limits, more, 'maxReadBytes: 100000')
    const large = Buffer.alloc(3_000_000, 'large ')
    const bodies: [Body, Record<string, string>][] = [
      [large, {}],
      [Array.from({ length: 30 }, (_, i) => large.subarray(i * 100_000, (i + 1) * 100_000)), {}],
      ['{"orders": [', {}],
      ['text', { 'content-type': 'text/plain' }],
    ]
    for (const [body, headers] of bodies) expect((await post(url, body, headers)).status).toBe(200)
    await post(url, orders(5))
    expect(sent.map(({ body }) => body.length)).toEqual([3_000_000, 3_000_000, 12, 4, orders(5).length])
    expect(sent[1]?.body.equals(large)).toBe(true)
    expect((await at.service.inspect('bulk', undefined)).limits[0]?.remaining).toBe(91)
  })

  test('bodies that no such limit concerns stream as ever', async () => {
    const first: string[] = []
    const upstream = await behind((req, res) => {
      req.once('data', (chunk: Buffer) => {
        first.push(chunk.toString())
        res.end('early')
      })
    })
    const at = await instance(rulesOf(BULK, `upstream: ${upstream.url}`))
    const asked = ends(request(`${at.url}/other`, { method: 'POST' }), (each) => each.destroy())
    asked.on('error', () => {})
    asked.write('the first part')
    const answer = await responseOf(asked) // though the body never ends
    expect([answer.statusCode, first]).toEqual([200, ['the first part']])
  })

  test('who leaves within the body is charged nothing, and the upstream never hears of it', async () => {
    const { at, sent } = await service()
    const line = await dial(at.port)
    line.say('POST /bulk HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n')
    await until('it to be read', () => line.heard.includes('100 Continue') || undefined)
    line.say('{"orders": [1,')
    line.end()
    expect(await post(`${at.url}/bulk`, orders(2))).toMatchObject({ status: 200, left: 8 })
    expect(sent).toHaveLength(1)
  })

  test('a request that is held back by delayMs, and one under overload protection, cost the same', async () => {
    const limits = '  bulk: { limit: 36000/h burst 4, algorithm: leaky-bucket, cost: items:$.orders, delayMs: 30000 }'
    const { url, sent } = await service(limits, 'overload: { concurrency: 5 }')
    const answers = await Promise.all([post(url, orders(4)), post(url, orders(4))])
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    expect(sent).toHaveLength(2)
    expect(codeOf(await post(url, orders(5)))).toBe('429 cost_never_fits')
  })

  test('a decision over HTTP has no body: the cost it names counts, else 1', async () => {
    const text = rulesOf(BULK)
    const at = await instance(text)
    const take = async (more: object) => {
      const body = JSON.stringify({ request: { method: 'POST', path: '/bulk', ip: '192.0.2.1' }, ...more })
      return (await (await fetch(`${at.url}/v1/take`, { method: 'POST', body })).json()) as {
        remaining: number
        reservation: string
      }
    }
    expect((await take({ cost: 4 })).remaining).toBe(6)
    const { remaining, reservation } = await take({})
    expect(remaining).toBe(5)
    const body = JSON.stringify({ reservation, actual: 3 })
    await fetch(`${at.url}/v1/settle`, { method: 'POST', body })
    expect((await at.service.inspect('bulk', undefined)).limits[0]?.remaining).toBe(3)
    const headers = { 'x-original-method': 'POST', 'x-original-url': '/bulk' }
    expect((await fetch(`${at.url}/v1/auth`, { headers })).status).toBe(204)
  })

  test('Redis counts the same, and so do several processes', async () => {
    const redis = await ownRedis()
    const { url } = await service(BULK, `store: redis://127.0.0.1:${redis.port}\ntimeoutMs: 5000`)
    expect(await post(url, orders(4))).toMatchObject({ status: 200, left: 6 })
    expect((await post(url, orders(7))).status).toBe(429)

    const upstream = await behind((req, res) => void req.resume().on('end', () => res.end('done')))
    const file = rulesFile(rulesOf(BULK, `upstream: ${upstream.url}\ntimeoutMs: 5000`, 'workers: 2'))
    const { port } = await child(file)
    const answers = await Promise.all(Array.from({ length: 8 }, () => post(`http://127.0.0.1:${port}/bulk`, orders(3))))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 429, 429, 429, 429, 429])
  })
})
