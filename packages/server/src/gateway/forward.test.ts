import { Agent, request } from 'node:http'
import { expect, test } from 'vitest'
import {
  ask,
  read,
  responseOf,
  say,
  startAnswering,
  startGateway,
  startRaw,
  startUpstream,
} from '../../test/gateway.ts'

test('hands on method, path, query, fields and body, and the answer with status, reason, fields and body', async () => {
  const upstream = await startUpstream((req, res) => {
    let body = ''
    req.on('data', (chunk) => {
      body += chunk
    })
    req.on('end', () => {
      res.writeHead(201, 'Made Here', { 'X-Case-Kept': 'yes' })
      res.end(`${req.method} ${req.url} ${req.headers['x-asked']} ${body}`)
    })
  })
  const gateway = await startGateway({ to: upstream.url })
  const answer = await ask(`${gateway.url}/a//b?x=1&y=%20`, {
    method: 'POST',
    headers: { 'X-Asked': 'for' },
    body: 'hello',
  })
  expect(answer).toMatchObject({ status: 201, reason: 'Made Here', body: 'POST /a//b?x=1&y=%20 for hello' })
  expect(answer.rawHeaders).toContain('X-Case-Kept')
  expect(await gateway.outcome()).toMatchObject({ status: 201, aborted: false, bytesIn: 5, bytesOut: 30 })
  expect((await gateway.outcome()).upstreamMs).toBeGreaterThan(0)
})

test('keeps the case of request fields and those that come twice', async () => {
  let heard = ''
  const upstream = await startRaw((socket) =>
    socket.on('data', (chunk) => {
      heard += chunk
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
    }),
  )
  const gateway = await startGateway({ to: upstream.url })
  const text =
    'GET / HTTP/1.1\r\nHost: a.test\r\nX-ODD-Case: 1\r\nX-Twice: a\r\nX-Twice: b\r\nConnection: close\r\n\r\n'
  await say(gateway.port, text)
  expect(heard).toContain('X-ODD-Case: 1\r\n')
  expect(heard).toContain('X-Twice: a\r\nX-Twice: b\r\n')
  expect(heard.toLowerCase()).toContain('host: a.test\r\n')
})

test('keeps every Set-Cookie', async () => {
  const upstream = await startUpstream((_, res) => {
    res.setHeader('Set-Cookie', ['a=1', 'b=2; Path=/', 'c=3'])
    res.end()
  })
  const gateway = await startGateway({ to: upstream.url })
  expect((await ask(gateway.url)).headers['set-cookie']).toEqual(['a=1', 'b=2; Path=/', 'c=3'])
})

test('keeps bytes above ASCII in fields as they are', async () => {
  const upstream = await startAnswering('HTTP/1.1 200 OK', 'X-Name: J\xfcrgen', 'Content-Length: 0', '', '')
  const gateway = await startGateway({ to: upstream.url })
  expect((await ask(gateway.url)).headers['x-name']).toBe('J\xfcrgen')
})

test('answers HEAD with the length and no body, on a connection that stays', async () => {
  const upstream = await startUpstream((req, res) => {
    res.setHeader('Content-Length', '1000')
    res.end(req.method === 'HEAD' ? undefined : 'x'.repeat(1000))
  })
  const gateway = await startGateway({ to: upstream.url })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  for (const [i, method] of ['HEAD', 'GET', 'HEAD'].entries()) {
    const asked = request(gateway.url, { method, agent }).end()
    const answer = await read(await responseOf(asked))
    expect(answer.headers['content-length']).toBe('1000')
    expect(answer.body).toHaveLength(method === 'HEAD' ? 0 : 1000)
    expect(asked.reusedSocket).toBe(i > 0)
  }
  agent.destroy()
})

test.each([
  ['204', 'HTTP/1.1 204 No Content\r\nETag: "x"\r\n\r\n'],
  ['304', 'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n'],
  [
    '304 that tells the length of what it does not send',
    'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\nContent-Length: 12\r\n\r\n',
  ],
])('hands on a %s, which has no body', async (_, text) => {
  const upstream = await startAnswering(text)
  const gateway = await startGateway({ to: upstream.url })
  for (let i = 1; i <= 2; i++) {
    const answer = await ask(gateway.url)
    expect(answer).toMatchObject({ status: Number(text.slice(9, 12)), body: '' })
    expect(answer.headers.etag).toBe('"x"')
  }
  expect(await gateway.outcome()).toMatchObject({ aborted: false, bytesOut: 0 })
})

test('uses connections to the upstream again', async () => {
  let connections = 0
  const upstream = await startUpstream((_, res) => res.end('ok'))
  upstream.server.on('connection', () => connections++)
  const gateway = await startGateway({ to: upstream.url })
  for (let i = 0; i < 10; i++) await ask(gateway.url)
  expect(connections).toBe(1)
})

test('answers requests that a client sends without waiting, in order', async () => {
  const upstream = await startUpstream((req, res) => {
    if (req.url === '/slow') setImmediate(() => res.end('first'))
    else res.end('second')
  })
  const gateway = await startGateway({ to: upstream.url })
  const get = (path: string, more = '') => `GET ${path} HTTP/1.1\r\nHost: a\r\n${more}\r\n`
  const heard = await say(gateway.port, get('/slow') + get('/fast', 'Connection: close\r\n'))
  expect(heard.indexOf('first')).toBeGreaterThan(0)
  expect(heard.indexOf('second')).toBeGreaterThan(heard.indexOf('first'))
})

test('serves HTTP/1.0: no chunks, no Host needed', async () => {
  const upstream = await startUpstream((_, res) => {
    res.write('in ')
    res.end('pieces')
  })
  const gateway = await startGateway({ to: upstream.url })
  const heard = await say(gateway.port, 'GET / HTTP/1.0\r\n\r\n')
  expect(heard).not.toMatch(/transfer-encoding/i)
  expect(heard.endsWith('\r\n\r\nin pieces')).toBe(true)
})

test('hands on a body of unknown length, and one that ends with the connection', async () => {
  const upstream = await startRaw((socket) =>
    socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil I close')),
  )
  const gateway = await startGateway({ to: upstream.url })
  expect((await ask(gateway.url)).body).toBe('until I close')
})

test('sends the head of an answer without waiting for its body', async () => {
  const upstream = await startUpstream((_, res) => {
    res.writeHead(200, { 'Content-Type': 'text/event-stream' })
    res.flushHeaders() // and nothing more until the client leaves
  })
  const gateway = await startGateway({ to: upstream.url })
  const asked = request(gateway.url, { agent: false }).end()
  const response = await responseOf(asked)
  expect(response.headers['content-type']).toBe('text/event-stream')
  response.destroy()
  expect(await gateway.outcome()).toMatchObject({ status: 200, aborted: 'client' })
})

test('shows both hooks the fields, and lets them change these', async () => {
  const upstream = await startUpstream((req, res) => res.end(req.headers['x-request-id']))
  const gateway = await startGateway({
    to: upstream.url,
    hooks: () => ({
      before: (headers) => void headers.push('X-Request-Id', 'r-1'),
      onResponse: (status, headers) => void headers.push('RateLimit', `"key";r=${status}`),
    }),
  })
  const answer = await ask(gateway.url)
  expect(answer.body).toBe('r-1')
  expect(answer.headers.ratelimit).toBe('"key";r=200')
})

test('adds fields that were set on the response before, and loses none of the upstream', async () => {
  const upstream = await startUpstream((_, res) => res.setHeader('Set-Cookie', ['a=1', 'b=2']).end())
  const gateway = await startGateway({ to: upstream.url })
  gateway.server.prependListener('request', (_, res) => res.setHeader('X-Before', 'yes'))
  const { headers } = await ask(gateway.url)
  expect(headers).toMatchObject({ 'x-before': 'yes', 'set-cookie': ['a=1', 'b=2'] })
})

test('names itself in Via when told to, both ways', async () => {
  const upstream = await startUpstream((req, res) => res.setHeader('Via', '1.1 inner').end(req.headers.via))
  const gateway = await startGateway({ to: upstream.url, via: 'headgate' })
  const answer = await ask(gateway.url, { headers: { Via: '1.0 outer' } })
  expect(answer.body).toBe('1.0 outer, 1.1 headgate')
  expect(answer.headers.via).toBe('1.1 inner, 1.1 headgate')
})

test.each([
  ['preserve', 'shop.test'],
  ['upstream', undefined],
  [{ set: 'fixed.test' }, 'fixed.test'],
] as const)('sends the Host that is configured: %o', async (host, expected) => {
  const upstream = await startUpstream((req, res) => res.end(req.headers.host))
  const gateway = await startGateway({ to: upstream.url, with: { host } })
  const answer = await ask(gateway.url, { headers: { Host: 'shop.test' } })
  expect(answer.body).toBe(expected ?? `127.0.0.1:${upstream.port}`)
})

test('puts the path of the upstream in front', async () => {
  const upstream = await startUpstream((req, res) => res.end(req.url))
  const gateway = await startGateway({ to: `${upstream.url}/base/` })
  expect((await ask(`${gateway.url}/x?y`)).body).toBe('/base/x?y')
})
