import { expect, test } from 'vitest'
import { ask, say, startAnswering, startGateway, startRaw, startUpstream } from '../../test/gateway.ts'

/** An upstream that remembers what it was sent, byte by byte. */
async function startListening() {
  const heard = { text: '' }
  const upstream = await startRaw((socket) =>
    socket.on('data', (chunk) => {
      heard.text += chunk.toString('latin1')
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    }),
  )
  return { url: upstream.url, heard }
}

const get = (...fields: string[]) =>
  ['GET / HTTP/1.1', 'Host: a.test', ...fields, 'Connection: close', '', ''].join('\r\n')

test('keeps fields of the connection to itself, also those the client lists', async () => {
  const { url, heard } = await startListening()
  const gateway = await startGateway({ to: url })
  const text = get(
    'Connection: X-Listed, Keep-Alive, x-forwarded-for',
    'X-Listed: secret',
    'Keep-Alive: timeout=5',
    'Proxy-Connection: keep-alive',
    'Proxy-Authorization: Basic x',
    'TE: trailers, deflate',
    'X-Stays: yes',
  )
  expect(await say(gateway.port, text)).toContain('ok')
  expect(heard.text).toContain('X-Stays: yes')
  expect(heard.text).not.toMatch(/x-listed|proxy-|^te:|keep-alive: |connection: (?!keep-alive)/im)
  expect(heard.text).toContain('X-Forwarded-For: 127.0.0.1')
})

test('keeps fields of the upstream connection from the client', async () => {
  const upstream = await startAnswering(
    'HTTP/1.1 200 OK',
    'Connection: keep-alive, X-Inner',
    'X-Inner: secret',
    'Keep-Alive: timeout=99',
    'Proxy-Authenticate: Basic',
    'X-Stays: yes',
    'Content-Length: 0',
    '',
    '',
  )
  const gateway = await startGateway({ to: upstream.url })
  const { headers } = await ask(gateway.url)
  expect(headers).toMatchObject({ 'x-stays': 'yes', 'content-length': '0' })
  expect(headers).not.toHaveProperty('x-inner')
  expect(headers).not.toHaveProperty('proxy-authenticate')
  expect(headers['keep-alive']).not.toBe('timeout=99')
})

test.each([
  ['both lengths and chunks', 'Content-Length: 5\r\nTransfer-Encoding: chunked'],
  ['two different lengths', 'Content-Length: 5\r\nContent-Length: 6'],
  ['a length that is no number', 'Content-Length: +5'],
  ['a coding besides chunked', 'Transfer-Encoding: gzip, chunked'],
  ['a coding that only looks like chunked', 'Transfer-Encoding: xchunked'],
  ['two codings', 'Transfer-Encoding: chunked\r\nTransfer-Encoding: identity'],
  ['two hosts', 'Host: b.test\r\nContent-Length: 0'],
])('refuses a request with %s, and sends none of it on', async (_, fields) => {
  const { url, heard } = await startListening()
  const gateway = await startGateway({ to: url })
  // As lenient as Node can be: then nothing but the gateway stands in between.
  Object.assign(gateway.server, { insecureHTTPParser: true })
  const body = '0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n'
  const answer = await say(gateway.port, `POST / HTTP/1.1\r\nHost: a.test\r\n${fields}\r\n\r\n${body}`, '\r\n\r\n')
  expect(answer).toMatch(/^HTTP\/1.1 400 /)
  expect(heard.text).not.toContain('POST')
})

test.each([
  ['names another server than Host', 'GET http://other.test/x HTTP/1.1'],
  ['is no path', 'OPTIONS * HTTP/1.1'],
])('refuses a target that %s', async (_, line) => {
  const { url, heard } = await startListening()
  const gateway = await startGateway({ to: url })
  expect(await say(gateway.port, `${line}\r\nHost: a.test\r\nConnection: close\r\n\r\n`)).toMatch(/^HTTP\/1.1 400 /)
  expect(heard.text).toBe('')
})

test('takes the path out of a target that names the server', async () => {
  const { url, heard } = await startListening()
  const gateway = await startGateway({ to: url })
  await say(gateway.port, 'GET http://a.test?q=1 HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n')
  expect(heard.text).toMatch(/^GET \/\?q=1 HTTP\/1.1\r\n/)
})

const spoofed = {
  'X-Forwarded-For': '6.6.6.6',
  'X-Forwarded-Proto': 'https',
  'X-Forwarded-Host': 'bank.test',
  'X-Forwarded-Port': '443',
  X_Forwarded_For: '6.6.6.7',
  Forwarded: 'for=6.6.6.8',
  'X-Real-IP': '6.6.6.9',
}

test('tells the upstream who asks, and nothing that a stranger claims', async () => {
  const upstream = await startUpstream((req, res) => res.end(JSON.stringify(req.headers)))
  const gateway = await startGateway({ to: upstream.url })
  const { body } = await ask(gateway.url, { headers: { ...spoofed, Host: 'shop.test:80' } })
  expect(body).not.toMatch(/6\.6\.6|bank|443/)
  expect(JSON.parse(body)).toMatchObject({
    'x-forwarded-for': '127.0.0.1',
    'x-forwarded-proto': 'http',
    'x-forwarded-host': 'shop.test:80',
    'x-real-ip': '127.0.0.1',
    forwarded: 'for=127.0.0.1;host="shop.test:80";proto=http',
  })
})

test('adds itself to what a trusted proxy tells', async () => {
  const upstream = await startUpstream((req, res) => res.end(JSON.stringify(req.headers)))
  const trust = () => ({ clientIp: '6.6.6.6', chain: '6.6.6.6', forwarded: 'for=6.6.6.8' })
  const gateway = await startGateway({ to: upstream.url, trust })
  const { body } = await ask(gateway.url, { headers: { ...spoofed, Host: 'shop.test' } })
  expect(JSON.parse(body)).toMatchObject({
    'x-forwarded-for': '6.6.6.6, 127.0.0.1',
    'x-forwarded-proto': 'https',
    'x-forwarded-host': 'bank.test',
    'x-forwarded-port': '443',
    'x-real-ip': '6.6.6.6',
    forwarded: 'for=6.6.6.8, for=127.0.0.1;host=shop.test;proto=http',
  })
  expect(body).not.toContain('6.6.6.7') // the one with underscores is nobody's
})

test('puts a chain of X-Forwarded-For into the words of Forwarded', async () => {
  const upstream = await startUpstream((req, res) => res.end(req.headers.forwarded))
  const trust = () => ({ clientIp: '2001:db8::1', chain: '2001:db8::1, 10.0.0.1' })
  const gateway = await startGateway({ to: upstream.url, trust })
  const { body } = await ask(gateway.url, { headers: { Host: 'shop.test' } })
  expect(body).toBe('for="[2001:db8::1]", for=10.0.0.1, for=127.0.0.1;host=shop.test;proto=http')
})

test('writes an IPv4 peer of a dual-stack socket as IPv4', async () => {
  const upstream = await startUpstream((req, res) => res.end(req.headers['x-forwarded-for']))
  const gateway = await startGateway({ to: upstream.url })
  gateway.server.prependListener('request', (req) => {
    Object.defineProperty(req.socket, 'remoteAddress', { value: '::ffff:192.0.2.7' })
  })
  expect((await ask(gateway.url)).body).toBe('192.0.2.7')
})
