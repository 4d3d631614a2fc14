// Requests to speak another protocol: h2c, as `curl --http2` asks for, and WebSocket where it makes no sense.
import { connect } from 'node:tls'
import { expect, test } from 'vitest'
import { until } from '../../headgate/test/until.ts'
import { Authority, hasOpenssl } from '../test/certificates.ts'
import { dial } from '../test/connection.ts'
import { say } from '../test/gateway.ts'
import { behind, ends, instance, rulesOf } from '../test/service.ts'
import type { Upstream } from '../test/upstream.ts'

const H2C = 'Host: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n'
const WEBSOCKET = 'Host: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n'
const PLAIN = 'GET /plain HTTP/1.1\r\nHost: a\r\n\r\n'
const LIMITS = '  many: { limit: 100/day }'

/** Tells what it got. */
function echo(): Promise<Upstream> {
  return behind(async (req, res) => {
    let body = ''
    for await (const chunk of req) body += chunk
    res.end(`${req.method} ${req.url} ${body} ${req.headers.connection}`)
  })
}

const bodies = [
  ['without a body', `GET /a HTTP/1.1\r\n${H2C}\r\n`, 'GET /a  keep-alive'],
  ['with a body', `POST /a HTTP/1.1\r\n${H2C}Content-Length: 2\r\n\r\nhi`, 'POST /a hi keep-alive'],
  [
    'with a body in chunks',
    `POST /a HTTP/1.1\r\n${H2C}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n`,
    'POST /a hi keep-alive',
  ],
] as const

test.each(bodies)('who asks for h2c %s is served as if not, and so is what comes before and behind', async (...row) => {
  const [, text, told] = row
  const upstream = await echo()
  const { port, adminUrl } = await instance(rulesOf(LIMITS, `upstream: ${upstream.url}`))
  const connection = await dial(port)
  const answers = [await connection.ask(PLAIN + text + PLAIN + text + PLAIN)]
  while (answers.length < 5) answers.push(await connection.ask(''))
  const plain = 'GET /plain  keep-alive'
  expect(answers.map((answer) => answer?.body)).toEqual([plain, told, plain, told, plain])
  connection.say(text.slice(0, -1))
  await fetch(`${adminUrl}/healthz`) // and meanwhile that has arrived
  expect((await connection.ask(text.slice(-1)))?.body).toBe(told)
  expect(connection.closed).toBe(false)
})

test('a large answer in front of one who asks for h2c is sent to its end', async () => {
  const page = 'x'.repeat(3_000_000)
  const upstream = await behind((req, res) => void res.end(req.url === '/large' ? page : 'small'))
  const { port } = await instance(rulesOf(LIMITS, `upstream: ${upstream.url}`))
  const connection = await dial(port)
  const large = await connection.ask(`GET /large HTTP/1.1\r\nHost: a\r\n\r\nGET /a HTTP/1.1\r\n${H2C}\r\n`)
  expect(large?.body === page).toBe(true)
  expect((await connection.ask(''))?.body).toBe('small')
})

test.each([
  ['h2c', H2C],
  ['WebSocket', WEBSOCKET],
])('paths of the service are its own, also to who asks for %s', async (_, asks) => {
  const upstream = await echo()
  const { port } = await instance(rulesOf(LIMITS, `upstream: ${upstream.url}`), { HEADGATE_TOKEN: 'secret' })
  const connection = await dial(port)
  const head = (path: string, body: string) =>
    `POST ${path} HTTP/1.1\r\n${asks}Authorization: Bearer secret\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  const taken = await connection.ask(head('/v1/take', '{"request": {}}'))
  expect(taken?.status).toBe(200)
  expect(JSON.parse(taken?.body ?? '')).toMatchObject({ ok: true })
  expect((await connection.ask(head('/v1/run?x', '{}')))?.status).toBe(400)
  expect((await connection.ask(`GET /rate_limit HTTP/1.1\r\n${asks}\r\n`))?.status).toBe(200)
  expect(upstream.got).toEqual([])
})

test('without an upstream nothing is lost that comes behind who asks for another protocol', async () => {
  const { port } = await instance(rulesOf(LIMITS))
  for (const asks of [H2C, WEBSOCKET]) {
    const connection = await dial(port)
    const look = `GET /rate_limit HTTP/1.1\r\n${asks}\r\n`
    expect((await connection.ask(look + look))?.status).toBe(200)
    expect((await connection.ask(''))?.status).toBe(200)
  }
})

test('a head with more fields than are kept is not read again', async () => {
  const upstream = await echo()
  const { port } = await instance(rulesOf(LIMITS, `upstream: ${upstream.url}`))
  const text = `POST /a HTTP/1.1\r\n${H2C}${'a:\r\n'.repeat(1_100)}Content-Length: ${PLAIN.length}\r\n\r\n${PLAIN}`
  expect(await say(port, text)).not.toContain(' 200 ')
  expect(upstream.got).toEqual([])
})

test.skipIf(!hasOpenssl)('who asks for h2c under TLS is served as if not', async () => {
  const authority = new Authority()
  const { cert, key } = authority.sign('service')
  const upstream = await echo()
  const rules = rulesOf(LIMITS, `upstream: ${upstream.url}`, `tls: { cert: ${cert}, key: ${key} }`)
  const { port } = await instance(rules)
  const socket = ends(connect({ port, host: '127.0.0.1', ca: authority.pem }), (each) => each.destroy())
  let heard = ''
  socket
    .on('error', () => {})
    .on('data', (chunk) => {
      heard += chunk
    })
  socket.write(`POST /a HTTP/1.1\r\n${H2C}Content-Length: 2\r\n\r\nhi${PLAIN}`)
  await until('both answers', () => heard.match(/ 200 OK/g)?.length === 2 || undefined)
  expect(heard).toMatch(/POST \/a hi keep-alive.*GET \/plain {2}keep-alive$/s)
})
