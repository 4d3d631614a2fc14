import { request } from 'node:http'
import { connect } from 'node:net'
import { promisify } from 'node:util'
import { memory, type Store } from 'headgate'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import { patient, startApi } from '../../test/api.ts'
import { say } from '../../test/gateway.ts'
import { parseRules } from '../config/index.ts'

const rules = 'limits: { all: { limit: 10/h }, busy: { atOnce: 5 } }'
const one = { request: { path: '/' } }
const guarded = ['/v1/take', '/v1/peek', '/v1/settle', '/v1/refund', '/v1/release']

test('paths of others are left to others', async () => {
  const { get, post } = await startApi(rules)
  for (const path of ['/', '/v1', '/v1/', '/v1/take/', '/v1/takes', '/v2/take', '/rate_limits', '/constructor'])
    expect((await get(path)).status, path).toBe(418)
  expect((await post('/v1/take?x=1', one)).status).toBe(200)
})

test('decisions are for holders of the token, where there is one', async () => {
  const { post, get } = await startApi(rules, { open: false, token: 'correct-horse' })
  for (const path of guarded) {
    for (const headers of [
      {},
      { Authorization: 'Bearer wrong' },
      { Authorization: 'correct-horse' },
      { Authorization: 'Bearer ' },
    ]) {
      const { status, body, headers: fields } = await post(path, one, headers as Record<string, string>)
      expect([status, body.code, fields.get('www-authenticate')]).toEqual([401, 'unauthorized', 'Bearer'])
    }
  }
  expect((await post('/v1/take', one, { authorization: 'bearer correct-horse' })).status).toBe(200)
  expect((await get('/openapi.json')).status).toBe(200)
})

test('decisions are as if they were not there, where nobody may ask', async () => {
  const { post, get } = await startApi(rules, { open: false })
  for (const path of guarded) {
    const { status, body } = await post(path, one, { Authorization: 'Bearer undefined' })
    expect([status, body.code]).toEqual([404, 'not_found'])
  }
  expect((await get('/v1/auth')).status).toBe(404)
})

test('another method is told which one is meant', async () => {
  const { url, get, post } = await startApi(rules)
  for (const path of guarded) {
    const { status, headers, body } = await get(path)
    expect([status, headers.get('allow'), body.code]).toEqual([405, 'POST', 'method_not_allowed'])
  }
  expect((await post('/rate_limit', '')).headers.get('allow')).toBe('GET, HEAD')
  const head = await fetch(`${url}/rate_limit`, { method: 'HEAD' })
  expect([head.status, await head.text()]).toEqual([200, ''])
})

test.each([
  ['', 'invalid_json', undefined],
  ['{', 'invalid_json', undefined],
  ['{"request":{}}x', 'invalid_json', undefined],
  ['"\ud800"', 'wrong_type', undefined],
  ['null', 'wrong_type', undefined],
  ['7', 'wrong_type', undefined],
  ['{}', 'field_missing', undefined],
  ['{"request":{},"limits":{"a":{"limit":"1/s","key":"b"}}}', 'field_missing', undefined],
  ['{"request":{"headers":{"a":1}}}', 'wrong_type', '/request/headers/a'],
  ['{"request":{"methd":"GET"}}', 'unknown_field', '/request/methd'],
  ['{"request":{"ip":"300.1.1.1"}}', 'invalid_value', '/request/ip'],
  ['{"request":{},"cost":-1}', 'HG_COST_INVALID', '/cost'],
  ['{"request":{},"cost":"1"}', 'HG_COST_INVALID', '/cost'],
  ['{"request":{},"cost":1e300}', 'HG_COST_INVALID', '/cost'],
  ['{"request":{},"id":""}', 'invalid_value', '/id'],
  ['{"limits":{"a":{"limit":"1/s","key":1},"__proto__":{"limit":"1/s","key":1}}}', 'unknown_field', undefined],
  ['{"limits":{}}', 'invalid_value', '/limits'],
  ['{"limits":{"a":{"key":"x"}}}', 'HG_LIMIT_MISSING', '/limits/a'],
  ['{"limits":{"a":{"limit":"1/s"}}}', 'HG_KEY_MISSING', '/limits'],
  ['{"limits":{"a":{"limit":"1/s","key":null}}}', 'HG_KEY_MISSING', '/limits'],
  ['{"limits":{"a":{"limit":"1/s","key":[]}}}', 'HG_KEY_MISSING', '/limits'],
  ['{"limits":{"a":{"limit":"1/s","key":{}}}}', 'invalid_value', '/limits/a/key'],
  ['{"limits":{"a/b":{"limit":"1/s","key":1}}}', 'HG_LIMIT_NAME', '/limits/a~1b'],
  ['{"limits":{"a":{"limit":"1/s","atOnce":1,"key":1}}}', 'HG_OPTION_CONFLICT', '/limits/a'],
  ['{"limits":{"a":{"limit":{"limit":1,"per":"1s","brst":2},"key":1}}}', 'unknown_field', '/limits/a/limit/brst'],
  ['{"limits":{"a":{"limit":"1/s","key":1,"algoritm":"gcra"}}}', 'unknown_field', '/limits/a/algoritm'],
  ['{"limits":{"a":{"limit":"1/s","key":1,"zone":"Mars/Base"}}}', 'HG_OPTION_CONFLICT', '/limits/a'],
])('the body %s is refused as %s', async (text, code, pointer) => {
  const { post } = await startApi(rules)
  const { status, body, headers } = await post('/v1/take', text)
  expect([status, body.code, body.pointer]).toEqual([400, code, pointer])
  expect(headers.get('content-type')).toBe('application/problem+json')
  expect(body.detail).not.toMatch(/HG_|docs\/|Invalid input/)
})

test('JSON is read whatever type it is said to be', async () => {
  const { post } = await startApi(rules)
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'nonsense'])
    expect((await post('/v1/take', one, { 'Content-Type': type })).status).toBe(200)
})

test('bytes that are no text are refused', async () => {
  const { url } = await startApi(rules)
  const body = Buffer.from('{"request":{"path":"/\xff"}}', 'latin1')
  expect((await fetch(`${url}/v1/take`, { method: 'POST', body })).status).toBe(400)
})

test('bodies that are too large are refused, told beforehand or not, and the connection lives on', async () => {
  const { port, url, post } = await startApi(rules, { maxBodyBytes: 1000 })
  const large = `${' '.repeat(1000)}${JSON.stringify(one)}`
  const { status, body } = await post('/v1/take', large)
  expect([status, body.code]).toEqual([413, 'body_too_large'])
  const chunked = new Blob([large]).stream()
  expect((await fetch(`${url}/v1/take`, { method: 'POST', body: chunked, duplex: 'half' } as RequestInit)).status).toBe(
    413,
  )
  const next = 'GET /rate_limit HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
  const heard = await say(
    port,
    `POST /v1/take HTTP/1.1\r\nHost: a\r\nContent-Length: ${large.length}\r\n\r\n${large}${next}`,
  )
  expect(heard.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 413', 'HTTP/1.1 200'])
})

test('a body without end is cut off', async () => {
  const { port } = await startApi(rules, { maxBodyBytes: 1000 })
  const socket = connect(port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => {})
  socket.write('POST /v1/take HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
  const more = (error?: Error | null) => {
    if (!error) socket.write(`3e8\r\n${'x'.repeat(1000)}\r\n`, more)
  }
  more()
  await until('the end of the connection', () => (socket.closed ? true : undefined))
})

test.each([true, false])('who asks before sending is told to go on, once', async (continues) => {
  const { port } = await startApi(rules, { continues })
  const text = JSON.stringify(one)
  const asked = request({
    port,
    path: '/v1/take',
    method: 'POST',
    headers: { Expect: '100-continue', 'Content-Length': text.length },
  })
  asked.on('continue', () => asked.end(text))
  const status = await new Promise((resolve) => asked.on('response', (response) => resolve(response.statusCode)))
  expect(status).toBe(200)
})

test('deep nesting ends in a refusal', async () => {
  const { post } = await startApi(rules)
  const deep = (open: string, close: string, inner = '1') => open.repeat(200_000) + inner + close.repeat(200_000)
  for (const text of [
    deep('[', ']'),
    deep('{"request":', '}'),
    `{"request":{"headers":{"a":${deep('[', ']')}}}}`,
    `{"limits":{"a":{"limit":${deep('{"a":', '}')},"key":1}}}`,
    `{"limits":{"a":{"limit":"1/s","key":${deep('[', ']')}}}}`,
  ])
    expect([200, 400]).toContain((await post('/v1/take', text)).status)
  expect((await post('/v1/take', one)).status).toBe(200)
})

test.each(['/v1/take', '/v1/auth'])('who goes away before %s answers leaves nothing', async (path) => {
  const inner = memory()
  let letGo: (() => void) | undefined
  const held = new Promise<void>((resolve) => {
    letGo = resolve
  })
  let asked = 0
  const store: Store = {
    run: async (groups) => {
      asked++
      await held
      return inner.run(groups)
    },
  }
  const { port, post, server } = await startApi(rules, { store })
  const socket = connect(port, '127.0.0.1')
  const body = JSON.stringify(path === '/v1/take' ? [one, one] : one)
  socket.write(`POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
  await until('the question', () => (asked > 0 ? true : undefined))
  socket.destroy()
  await until('the server to notice', async () =>
    (await promisify(server.getConnections.bind(server))()) === 0 ? true : undefined,
  )
  letGo?.()
  await until('all to be given back', async () => {
    const { limits } = (await post('/v1/peek', one)).body
    return asked > 2 && limits.every(({ limit, remaining }) => limit === remaining) ? true : undefined
  })
})

test('who goes away amid its body is not judged', async () => {
  const { port, post } = await startApi(rules)
  const socket = connect(port, '127.0.0.1')
  await new Promise<void>((resolve) => {
    socket.write('POST /v1/take HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{"request"', () => resolve())
  })
  socket.destroy()
  await until('the end', () => (socket.closed ? true : undefined))
  expect((await post('/v1/peek', one)).body.remaining).toBe(5)
})

test('new rules hold from the next request on', async () => {
  const { post, service } = await startApi(rules)
  service.replace(parseRules(`${patient}limits: { fewer: { limit: 1/h } }`).rules, 'test')
  expect((await post('/v1/take', one)).body.limit).toBe('fewer')
})
