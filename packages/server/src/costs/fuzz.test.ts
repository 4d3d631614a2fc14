import { Agent, request } from 'node:http'
import { deflateSync, gzipSync } from 'node:zlib'
import { expect, test, vi } from 'vitest'
import { randomBelow, seed } from '../../../headgate/test/random.ts'
import { until } from '../../../headgate/test/until.ts'
import { read, responseOf } from '../../test/gateway.ts'
import { behind, child, ends, rulesFile, rulesOf } from '../../test/service.ts'

vi.setConfig({ testTimeout: 120_000 })

const LIMITS = `  items: { limit: 1000000000/s, when: { path: /items }, cost: "items:$.a[*].b" }
  graphql: { limit: 1000000000/s, when: { path: /graphql }, cost: graphql }
  llm: { limit: 1000000000000/s, when: { path: /v1/** }, cost: llm, settle: header:x-cost }`
const SCHEMA = 'type Query { users(first: Int): [User] } type User { id: ID friends(first: Int): [User] }'
const PATHS = ['/items', '/graphql', '/graphql?query={users{id}}', '/v1/chat/completions', '/v1/messages', '/v1/other']
const BODIES = [
  '{"a":[{"b":[1,2,3]},{"b":{"c":null}}],"a2":"\\u0041"}',
  '{"query":"query A($n: Int) { users(first: $n) { ...F } } fragment F on User { id friends { id } }","variables":{"n":3}}',
  '[{"query":"{ users { id } }"},{"query":"{ a: users(first: 2) { id } }","operationName":null}]',
  '{"model":"m","max_tokens":5,"n":2,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"stream":true}',
  '{"model":"claude","system":"s","messages":[],"tools":[{"name":"t","input_schema":{}}]}',
]
const TYPES = [
  'application/json',
  'application/json; charset=utf-8',
  'application/graphql',
  'text/plain',
  'a/b;;;',
  '',
  '\x7f',
]
const ANSWERS = [
  'data: {"choices":[{"delta":{"content":"hi"}}]}\n\ndata: {"usage":{"prompt_tokens":3,"completion_tokens":-1e400}}\n\n',
  '{"usage":{"input_tokens":5,"output_tokens":"many"}}',
  'event: message_start\ndata: {"type":"message_start","message":{"usage":null}}\n\n',
  '\u0000\ud83d',
]

const random = randomBelow(seed)

function pick<T>(of: readonly T[]): T {
  return of[random(of.length)] as T
}

/** A body with some bytes changed, taken out or repeated; or one that was never any. */
function bodyOf(): Buffer {
  const kind = random(10)
  if (kind === 0) return Buffer.from(Array.from({ length: random(300) }, () => random(256)))
  if (kind === 1) return Buffer.from(pick(['[', '{"a":', '{"query":"{ users { ', '"\\']).repeat(random(30_000)))
  const body = Buffer.from(pick(BODIES))
  for (let i = random(6); i > 0; i--) body[random(body.length)] = random(256)
  if (kind === 2) return body.subarray(0, random(body.length))
  return kind === 3 ? Buffer.concat([body, body]) : body
}

function packed(body: Buffer): [body: Buffer, coding: string] {
  const kind = random(12)
  if (kind === 0) return [gzipSync(body), 'gzip']
  if (kind === 1) return [deflateSync(body), 'deflate']
  if (kind === 2) return [gzipSync(Buffer.alloc(3_000_000)), 'gzip']
  return [body, pick(['', '', '', '', '', 'br', 'gzip', 'identity', '__proto__'])]
}

test(`whatever bodies and answers are, nothing breaks, hangs or is kept (HEADGATE_SEED=${seed})`, async () => {
  const upstream = await behind((req, res) => {
    req.resume().on('end', () => {
      if (random(3) === 0) res.setHeader('x-cost', pick(['5', 'x', '-1', '1e999', '99999999999999999999']))
      if (random(3) > 0) res.setHeader('content-type', pick(['text/event-stream', 'application/json']))
      if (random(20) === 0) res.destroy()
      else res.end(pick(ANSWERS))
    })
  })
  const graphql = `graphql: "${SCHEMA}"`
  const file = rulesFile(rulesOf(LIMITS, `upstream: ${upstream.url}\n${graphql}`, 'maxReadBytes: 100000'))
  const service = await child(file)
  const agent = ends(new Agent({ keepAlive: true, maxSockets: 20 }), (each) => each.destroy())

  async function once(): Promise<number> {
    const [body, coding] = packed(bodyOf())
    const headers: Record<string, string> = { 'content-type': pick(TYPES).replace('\x7f', 'x') }
    if (coding !== '') headers['content-encoding'] = coding
    if (random(2) === 0) headers['content-length'] = String(body.length)
    if (random(10) === 0) headers.expect = '100-continue'
    const asked = request(`${service.url}${pick(PATHS)}`, {
      method: pick(['POST', 'POST', 'PUT', 'GET']),
      agent,
      headers,
    })
    asked.on('error', () => {})
    const answer = responseOf(asked).catch(() => undefined)
    if (random(40) === 0) {
      asked.write(body.subarray(0, 10))
      asked.destroy() // changed its mind
      return 0
    }
    asked.end(body)
    const response = await answer
    if (response === undefined) return -1
    const { status } = await read(response).catch(() => ({ status: 0 })) // the upstream breaks off
    return status
  }

  const run = async (count: number) => {
    const statuses: number[] = []
    for (let i = 0; i < count; i += 20) statuses.push(...(await Promise.all(Array.from({ length: 20 }, once))))
    return statuses
  }
  const known = [0, 200, 400, 413, 415, 429, 502]
  const early = await run(500)
  const before = await service.memory()
  const late = await run(1500)
  const statuses = new Set([...early, ...late])
  expect([...statuses].filter((status) => !known.includes(status))).toEqual([])
  for (const status of [200, 400, 413, 415]) expect(statuses).toContain(status)
  // What lies outside of the heap is let go some time after what held it.
  await until('all memory back but for 10 MB', async () => {
    const after = await service.memory()
    return (['heapUsed', 'external'] as const).every((part) => after[part] - before[part] < 10e6) || undefined
  })
  expect((await fetch(`${service.adminUrl}/healthz`)).status).toBe(200)
})
