import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import { randomBy, seed } from '../../../headgate/test/random.ts'
import { inTime } from '../../../headgate/test/traffic.ts'
import { until } from '../../../headgate/test/until.ts'
import { ADMIN, type Child } from '../../test/child.ts'
import { type Connection, dial } from '../../test/connection.ts'
import { behind, child, ends, rulesFile, rulesOf } from '../../test/service.ts'

const MB = 2 ** 20
const HOST = 'Host: a.test\r\n'
const CHUNKED = 'Transfer-Encoding: chunked\r\n'
const post = (headers: string, body: string, path = '/v1/take') =>
  `POST ${path} HTTP/1.1\r\n${HOST}Authorization: Bearer ${ADMIN}\r\n${headers}\r\n${body}`
const json = (body: string, path?: string) =>
  post(`Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`, body, path)

/** Bytes that are no request, or none that two readers would read alike. Each is answered with 4xx or nothing. */
const refused: Readonly<Record<string, string | Uint8Array>> = {
  'bytes that mean nothing': '\x00\x01\x02\xff\xfe garbage \r\n\r\n',
  'a TLS hello': Uint8Array.from([22, 3, 1, 0, 5, 1, 0, 0, 1, 0, 13, 10, 13, 10]),
  'HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'a version nobody knows': `GET / HTTP/9.9\r\n${HOST}\r\n`,
  'a request without Host': 'GET / HTTP/1.1\r\n\r\n',
  'headers without end': `GET / HTTP/1.1\r\n${HOST}X: ${'a'.repeat(100_000)}\r\n\r\n`,
  'very many headers': `GET / HTTP/1.1\r\n${HOST}${'X-Y: z\r\n'.repeat(20_000)}\r\n`,
  'a target without end': `GET /${'a'.repeat(100_000)} HTTP/1.1\r\n${HOST}\r\n`,
  'a name with a space': `GET / HTTP/1.1\r\n${HOST}X Y: z\r\n\r\n`,
  'a folded header': `GET / HTTP/1.1\r\n${HOST}X: a\r\n b: c\r\n\r\n`,
  'a bare carriage return': `GET / HTTP/1.1\r\n${HOST}X: a\rTransfer-Encoding: chunked\r\n\r\n`,
  'length and chunks': post(`Content-Length: 4\r\n${CHUNKED}`, '0\r\n\r\nGET /smuggled HTTP/1.1\r\n'),
  'two lengths': post('Content-Length: 4\r\nContent-Length: 40\r\n', 'aaaaGET /smuggled HTTP/1.1\r\n'),
  'a signed length': post('Content-Length: +4\r\n', 'aaaa'),
  'an endless length': post(`Content-Length: ${'9'.repeat(40)}\r\n`, 'aaaa'),
  'a coding that is not the last': post('Transfer-Encoding: chunked, identity\r\n', '0\r\n\r\n'),
  'a coding that looks like chunked': post('Transfer-Encoding: xchunked\r\n', '0\r\n\r\n'),
  'a space before the colon': post('Transfer-Encoding : chunked\r\n', '0\r\n\r\n'),
  'a chunk size that is none': post(CHUNKED, 'zz\r\naaaa\r\n0\r\n\r\n'),
  'an endless chunk size': post(CHUNKED, `${'f'.repeat(20)}\r\naaaa\r\n0\r\n\r\n`),
  'a chunk that is longer than it says': post(CHUNKED, '1\r\naaaa\r\n0\r\n\r\n'),
  'a target of another server': `GET http://other.test/ HTTP/1.1\r\n${HOST}\r\n`.replace('GET', 'CONNECT'),
  'broken JSON': json('{"request":'),
  'no JSON': json('\xff\xfe'),
  'JSON that is nested deeply': json('['.repeat(200_000)),
  'JSON that is nested deeply and complete': json(`${'{"request":'.repeat(50_000)}1${'}'.repeat(50_000)}`),
  'a prototype': json('{"__proto__":{"ok":true},"constructor":1}'),
}

async function service(): Promise<Child> {
  const bounds = 'headersTimeoutMs: 300, requestTimeoutMs: 600'
  return child(rulesFile(rulesOf('  all: { limit: 1000000/s }', '', bounds)))
}

const portsOf = ({ port, adminPort }: Child) => [port, adminPort]

const isRefusal = (status: number) => status >= 400 && status < 500

/** Statuses of all answers on a connection. */
function statusesOf({ heard }: Connection): number[] {
  return [...heard.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status))
}

async function stillAnswers({ url, adminUrl }: Child): Promise<void> {
  const body = '{"request":{"path":"/"}}'
  const response = await inTime(fetch(`${url}/v1/take`, { method: 'POST', body }))
  expect(await response.json()).toMatchObject({ ok: true })
  expect((await inTime(fetch(`${adminUrl}/healthz`))).status).toBe(200)
}

/** Says it, then waits until the other side has answered or closed; who is silent is closed in the end. */
async function provoke(port: number, bytes: string | Uint8Array): Promise<Connection> {
  const connection = await dial(port)
  connection.say(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
  await until('an answer, or the end', () => connection.closed || connection.heard.includes('\r\n\r\n') || undefined)
  return connection
}

describe('malformed requests', () => {
  test('on either port get 4xx or a closed connection, and the service goes on', async () => {
    const at = await service()
    const wrong: string[] = []
    for (const port of portsOf(at))
      for (const [name, bytes] of Object.entries(refused)) {
        const connection = await provoke(port, bytes)
        if (!statusesOf(connection).every(isRefusal)) wrong.push(`${name}: ${connection.heard}`)
        connection.end()
      }
    expect(wrong).toEqual([])
    await stillAnswers(at)
  })

  test('that never end are cut off when their time is over', async () => {
    const at = await service()
    const unfinished = [
      '',
      'GET',
      `GET / HTTP/1.1\r\n${HOST}`,
      post('Content-Length: 100\r\n', 'a'),
      post(CHUNKED, '5\r\na'),
    ]
    const isCutOff = async (port: number, bytes: string) => {
      const connection = await dial(port)
      connection.say(bytes)
      await until(`the end of ${JSON.stringify(bytes)}`, () => connection.closed || undefined)
      expect(statusesOf(connection).every(isRefusal)).toBe(true)
    }
    await Promise.all(portsOf(at).flatMap((port) => unfinished.map((bytes) => isCutOff(port, bytes))))
    await stillAnswers(at)
  })

  test('behind a gateway never become a second request at the upstream', async () => {
    const upstream = await behind((req, res) => {
      req.resume().on('end', () => res.end())
    })
    const at = await child(rulesFile(rulesOf('  all: { limit: 1000000/s }', `upstream: ${upstream.url}`)))
    for (const bytes of Object.values(refused)) (await provoke(at.port, bytes)).end()
    expect(upstream.got.map(({ url }) => url).filter((url) => url?.includes('smuggled'))).toEqual([])
    expect((await fetch(at.url)).status).toBe(200)
  })
})

test('an absolute target is limited as its path is', async () => {
  const upstream = await behind()
  const rules = rulesOf('  login: { limit: 1/day, when: { path: /login } }', `upstream: ${upstream.url}`)
  const at = await child(rulesFile(rules))
  const connection = await dial(at.port)
  const targets = ['/login', 'http://a.test/login', 'HTTP://a.test//login/', 'http://a.test/x/../login?y']
  const statuses = []
  for (const target of targets) statuses.push((await connection.ask(`GET ${target} HTTP/1.1\r\n${HOST}\r\n`))?.status)
  expect(statuses).toEqual([200, 429, 429, 429])
  expect((await connection.ask(`GET http://b.test/other HTTP/1.1\r\n${HOST}\r\n`))?.status).toBe(400)
})

test('a refused upgrade is closed by the service, whether or not its client closes', async () => {
  const upstream = await behind()
  const at = await child(rulesFile(rulesOf('  none: { limit: 1/day, cost: 2 }', `upstream: ${upstream.url}`)))
  const client = ends(connect({ port: at.port, host: '127.0.0.1', allowHalfOpen: true }), (each) => each.destroy())
  let heard = ''
  client
    .on('error', () => {})
    .on('data', (chunk) => {
      heard += chunk
    })
  client.write(`GET /ws HTTP/1.1\r\n${HOST}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`)
  await until('the refusal', () => heard.includes('\r\n\r\n') || undefined)
  expect(heard).toMatch(/^HTTP\/1\.1 4\d\d /)
  // What is sent to somebody who is gone comes back as a reset.
  await until('the end', () => {
    if (!client.closed) client.write('x')
    return client.closed || undefined
  })
})

test('many requests in one go are all answered, in order', async () => {
  const upstream = await behind((req, res) => void res.end(req.url))
  const at = await child(rulesFile(rulesOf('  all: { limit: 300/day }', `upstream: ${upstream.url}`)))
  const connection = await dial(at.port)
  connection.say(Array.from({ length: 500 }, (_, i) => `GET /${i} HTTP/1.1\r\n${HOST}\r\n`).join(''))
  await until('all answers', () => statusesOf(connection).length === 500 || undefined)
  expect(statusesOf(connection).slice(0, 300)).toEqual(Array(300).fill(200))
  expect(statusesOf(connection).slice(300)).toEqual(Array(200).fill(429))
})

test(`noise leaves no memory behind (HEADGATE_SEED=${seed})`, async () => {
  const next = randomBy(seed)
  const at = await service()
  const all = Object.values(refused)
  const noise = async (times: number) => {
    for (let i = 0; i < times; i++) {
      const port = portsOf(at)[Number(next() < 0.5)] as number
      const some = Array.from({ length: 40 }, () => provoke(port, all[Math.floor(next() * all.length)] as string))
      for (const each of some) (await each).end()
    }
  }
  await noise(5) // what is made once
  const before = await at.memory()
  await noise(20)
  // Connections that were just closed are freed a little later.
  await until('the memory of before', async () => {
    const { heapUsed, external } = await at.memory()
    return (heapUsed - before.heapUsed < 2 * MB && external - before.external < 2 * MB) || undefined
  })
  await stillAnswers(at)
})
