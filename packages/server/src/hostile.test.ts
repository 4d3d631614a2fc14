// Callers who want more than their share, or want the service gone.
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../headgate/test/until.ts'
import { say } from '../test/gateway.ts'
import { startUpstream, type Upstream } from '../test/upstream.ts'
import { type Running, serve } from './serve.ts'

interface Rig extends Running {
  readonly url: string
  readonly behind: Upstream
}

/** A gateway with these limits, in front of a server that keeps what it got. */
async function start(limits: string, more = '', server = '', host = '*'): Promise<Rig> {
  const behind = await startUpstream((_req, res) => void res.end('hello'))
  const upstream = `upstream: [{ url: ${behind.url}, match: { host: "${host}" } }]`
  const text = `${upstream}\n${more}\nserver: { port: 0, adminPort: 0, grpcPort: false, host: 127.0.0.1, ${server} }\nlimits:\n${limits}\n`
  const running = await serve({ text, env: {} })
  onTestFinished(async () => {
    await running.stop()
    await behind.close()
  })
  return Object.assign(running, { url: `http://127.0.0.1:${running.port}`, behind })
}

/** The statuses of requests as bytes, one connection each. */
async function statuses(port: number, ...heads: string[]): Promise<number[]> {
  const all: number[] = []
  for (const head of heads) {
    const answer = await say(port, `${head}\r\nHost: a.example\r\nConnection: close\r\n\r\n`)
    all.push(Number(answer.split(' ', 2)[1]))
  }
  return all
}

function open(port: number): Socket {
  const socket = connect(port, '127.0.0.1').on('error', () => {})
  onTestFinished(() => void socket.destroy())
  return socket
}

const UPGRADE = 'Host: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'

describe('there is no way around a limit by', () => {
  test('bytes in a path that others escape', async () => {
    const { port } = await start('  cafe: { limit: 1/min, when: { path: /café/** } }')
    const raw = Buffer.from('/café/x').toString('latin1')
    expect(await statuses(port, 'GET /caf%C3%A9/x HTTP/1.1', `GET ${raw} HTTP/1.1`)).toEqual([200, 400])
  })

  test('a dot behind the host, which leads to the same upstream', async () => {
    const { port } = await start('  api: { limit: 1/min, when: { host: a.example } }', '', '', 'a.example')
    const ask = (host: string) => say(port, `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
    expect(await ask('A.example.:80')).toMatch(/^HTTP\/1.1 200 /)
    expect(await ask('a.example')).toMatch(/^HTTP\/1.1 429 /)
  })

  test('a fragment, which no target has', async () => {
    const { port, behind } = await start('  login: { limit: 1/min, when: { path: /login } }')
    expect(await statuses(port, 'GET /a#/../login HTTP/1.1')).toEqual([400])
    expect(behind.got).toHaveLength(0)
  })

  test('asking for the head of what GET would get', async () => {
    const { port } = await start('  get: { limit: 1/min, when: { method: GET } }')
    expect(await statuses(port, 'GET / HTTP/1.1', 'HEAD / HTTP/1.1', 'POST / HTTP/1.1')).toEqual([200, 429, 200])
  })

  test.each([
    ['a header that comes twice', 'x-api-key: {n}\r\nx-api-key: mine'],
    ['a header that Node takes the first of', 'authorization: Bearer {n}\r\nauthorization: Bearer mine'],
    ['one key here, another there', 'authorization: Bearer {n}\r\nx-api-key: mine'],
  ])('%s', async (_what, fields) => {
    const { port, behind } = await start('  key: { limit: 1/min, by: [api-key] }')
    const heads = ['1', '2', '3'].map((n) => `GET / HTTP/1.1\r\n${fields.replace('{n}', n)}`)
    expect(await statuses(port, ...heads)).toEqual([400, 400, 400])
    expect(behind.got).toHaveLength(0)
    const same = fields.replace('{n}', 'mine')
    expect(await statuses(port, `GET / HTTP/1.1\r\n${same}`)).toEqual([200])
  })

  test('a cookie or a parameter that comes twice', async () => {
    const { port } = await start(
      '  cookie: { limit: 1/min, by: [cookie:s], when: { path: /c } }\n  query: { limit: 1/min, by: [query:k], when: { path: /q } }',
    )
    const heads = ['GET /c HTTP/1.1\r\nCookie: s=1; s=mine', 'GET /q?k=1&k=mine HTTP/1.1', 'GET /q?k=mine HTTP/1.1']
    expect(await statuses(port, ...heads)).toEqual([400, 400, 200])
  })

  test.each([
    ['Bearer mine', 'bearer  mine', 'BEARER\tmine', 'Bearer \t mine'],
    ['Basic bWluZQ==', 'basic bWluZQ==', 'BASIC   bWluZQ==', 'Basic\tbWluZQ=='],
  ])('another spelling of %s', async (...spellings) => {
    const { port } = await start('  key: { limit: 1/min, by: [api-key] }')
    const heads = spellings.map((each) => `GET / HTTP/1.1\r\nAuthorization: ${each}`)
    expect(await statuses(port, ...heads)).toEqual([200, 429, 429, 429])
  })
})

test('however many keys are tried, few are asked about at a time', async () => {
  const waiting = new Set<ServerResponse>()
  const tiers = await startUpstream((_req, res) => void waiting.add(res))
  onTestFinished(() => tiers.close())
  const { url } = await start(
    '  plan: { limit: { free: 9/min }, by: [api-key] }',
    `identify: { tier: { url: ${tiers.url}, timeoutMs: 60000, default: free } }`,
  )
  const ask = (n: number) => fetch(url, { headers: { 'x-api-key': `k${n}` } }).then(({ status }) => status)
  const asked = Array.from({ length: 150 }, (_, n) => ask(n).catch(() => 0))
  // Those that are not asked about have the tier of who is not known.
  expect(await Promise.race(asked)).toBe(200)
  expect(waiting.size).toBeLessThanOrEqual(100)
  tiers.server.prependListener('request', (_req, res) => void res.end('free'))
  for (const res of waiting) res.end('free')
  expect(await Promise.all(asked)).toEqual(asked.map(() => 200))
})

describe('a server behind the gateway is not told', () => {
  const seen = ({ got }: Upstream) => got[0]?.headers ?? {}

  test('what a client says in the header that the proxies in front do not write', async () => {
    const rules = 'identify: { trustedProxies: [127.0.0.1] }'
    const { url, behind } = await start('  ip: { limit: 9/min, by: [ip] }', rules)
    await fetch(url, { headers: { forwarded: 'for=10.6.6.6', 'x-forwarded-for': '192.0.2.7' } })
    expect(seen(behind).forwarded).not.toContain('10.6.6.6')
    expect(seen(behind)).toMatchObject({ 'x-forwarded-for': '192.0.2.7, 127.0.0.1', 'x-real-ip': '192.0.2.7' })
  })

  test('the same, where they write Forwarded', async () => {
    const rules = 'identify: { trustedProxies: [127.0.0.1], forwardedHeader: forwarded }'
    const { url, behind } = await start('  ip: { limit: 9/min, by: [ip] }', rules)
    await fetch(url, { headers: { forwarded: 'for=192.0.2.7', 'x-forwarded-for': '10.6.6.6' } })
    expect(seen(behind)['x-forwarded-for']).toBe('192.0.2.7, 127.0.0.1')
    expect(seen(behind).forwarded).toContain('for=192.0.2.7, for=127.0.0.1')
  })
})

describe('names that objects have by themselves', () => {
  test('are limits as any other', async () => {
    const { port, service } = await start('  constructor: { limit: 1/min }\n  other: { limit: 9/min }')
    expect(service.rules.limitNames).toEqual(['constructor', 'other'])
    expect(await statuses(port, 'GET / HTTP/1.1', 'GET / HTTP/1.1')).toEqual([200, 429])
  })

  test('are headers that a request does not have', async () => {
    const { port } = await start(
      '  a: { limit: 1/min, when: { header: { constructor: "x*" } } }\n  b: { limit: 9/min, by: [header:constructor], when: { path: /b } }',
    )
    expect(await statuses(port, 'GET / HTTP/1.1', 'GET /b HTTP/1.1')).toEqual([200, 400])
  })

  test('are tiers that nobody has', async () => {
    const { port } = await start('  plan: { limit: { free: 1/min } }', 'identify: { tier: header:x-plan }')
    const ask = (tier: string) => `GET / HTTP/1.1\r\nx-plan: ${tier}`
    expect(await statuses(port, ask('constructor'), ask('__proto__'), ask('free'))).toEqual([400, 400, 200])
  })
})

describe('connections', () => {
  test('an upgrade sent before the answer to what it was sent behind harms nobody', async () => {
    const tiers = await startUpstream((_req, res) => void res.end('free'))
    onTestFinished(() => tiers.close())
    const limits = '  plan: { limit: { free: 9/min }, by: [api-key] }\n  slots: { atOnce: 2 }'
    const { port, url, behind, service } = await start(limits, `identify: { tier: { url: ${tiers.url} } }`)
    behind.server.removeAllListeners('request')
    behind.server.on('request', (req, res) => (req.url === '/slow' ? undefined : res.end()))
    const socket = open(port)
    const ask = (path: string, key: string) => `GET ${path} HTTP/1.1\r\nx-api-key: ${key}\r\n`
    socket.write(`${ask('/slow', 'k1')}Host: a.example\r\n\r\n${ask('/', 'k2')}${UPGRADE}`)
    await new Promise((resolve) => socket.resume().once('close', resolve))
    await until('the slots', async () => {
      const { limits } = await service.inspect('slots', undefined)
      return limits[0]?.remaining === 2 ? true : undefined
    })
    expect((await fetch(url, { headers: { 'x-api-key': 'k3' } })).status).toBe(200)
  })

  test('an upgrade that is refused within an answer that it was sent behind is no part of that', async () => {
    const { port, behind } = await start('  none: { limit: 0/min, when: { path: /ws } }')
    behind.server.removeAllListeners('request')
    behind.server.on('request', (_req, res) => res.writeHead(200, { 'Content-Length': 1_000 }).write('half'))
    const socket = open(port).setEncoding('latin1')
    let heard = ''
    socket.on('data', (text) => {
      heard += text
    })
    socket.write('GET /half HTTP/1.1\r\nHost: a.example\r\n\r\n')
    await until('half an answer', () => heard.endsWith('half') || undefined)
    socket.write(`GET /ws HTTP/1.1\r\n${UPGRADE}`)
    await until('the end', () => socket.closed || undefined)
    expect(heard).toMatch(/\r\n\r\nhalf$/)
  })

  test('an upgrade that is refused ends its connection, whether or not the client does', async () => {
    const { port } = await start('  none: { limit: 0/min }')
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true }).on('error', () => {})
    onTestFinished(() => void socket.destroy())
    socket.write(`GET / HTTP/1.1\r\n${UPGRADE}`)
    socket.resume()
    await once(socket, 'end')
    // The other end is closed, so what is written comes back as an error.
    const closed = new Promise((resolve) => socket.once('close', resolve))
    const writing = setInterval(() => socket.write('x'), 10)
    await closed
    clearInterval(writing)
  })

  test('a service with open WebSockets stops all the same', async () => {
    const rig = await start('  many: { limit: 9/min }', '', 'drainMs: 50')
    const { port, behind } = rig
    behind.server.on('upgrade', (_req, socket) => {
      socket.on('error', () => {}).on('end', () => socket.end())
      socket.resume()
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    })
    const socket = open(port)
    socket.write(`GET / HTTP/1.1\r\n${UPGRADE}`)
    await once(socket, 'data')
    await rig.stop()
    await until('the end', () => (socket.destroyed ? true : undefined))
  }, 15_000)
})
