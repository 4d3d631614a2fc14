import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type ServerOptions } from 'node:https'
import type { AddressInfo } from 'node:net'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { ask, idle, problemCode, startGateway } from '../../test/gateway.ts'

/** A certificate for this run; none where there is no openssl to make it. */
function makeIdentity(): { key: Buffer; cert: Buffer } | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-tls-'))
  const kind = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '1']
  const names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1']
  try {
    execFileSync('openssl', [...kind, ...names, '-keyout', 'key', '-out', 'cert'], { cwd: folder, stdio: 'ignore' })
    return { key: readFileSync(join(folder, 'key')), cert: readFileSync(join(folder, 'cert')) }
  } catch {
    return undefined
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const made = makeIdentity()
const identity = made as NonNullable<typeof made>
const tested = test.skipIf(made === undefined) // needs openssl

/** Answers with the name it was asked for in the handshake, and whether this connection was used before. */
async function startSecure({
  host = '127.0.0.1',
  ...options
}: ServerOptions & { host?: string } = {}): Promise<Secure> {
  let connections = 0
  let resumed = 0
  const server = createServer({ ...identity, ...options }, (req, res) => {
    const name = (req.socket as TLSSocket & { servername?: string | false }).servername
    if (req.url === '/last') res.shouldKeepAlive = false
    req.resume().on('end', () => res.end(`${name || 'none'} ${req.headers.host}`))
  })
  server.on('secureConnection', (socket) => {
    connections++
    if (socket.isSessionReused()) resumed++
  })
  server.on('tlsClientError', () => {})
  server.listen(0, host)
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, connections: () => connections, resumed: () => resumed }
}

interface Secure {
  readonly port: number
  readonly connections: () => number
  /** Those that could go on with what was agreed on before. */
  readonly resumed: () => number
}

tested.each([
  ['a name', 'localhost', 'localhost'],
  ['an address', '127.0.0.1', 'none'],
])(
  'reaches an https upstream that has %s, and asks for that whatever Host the client sends',
  async (_, host, expected) => {
    const upstream = await startSecure()
    const gateway = await startGateway({ to: `https://${host}:${upstream.port}`, with: { tls: { ca: identity.cert } } })
    for (const name of ['a.test', 'b.test', 'a.test']) {
      expect((await ask(gateway.url, { headers: { Host: name } })).body).toBe(`${expected} ${name}`)
    }
    expect(upstream.connections()).toBe(1)
    const careful = { Host: 'c.test', Expect: '100-continue', 'Content-Length': '2' }
    expect((await ask(gateway.url, { method: 'POST', headers: careful, body: 'hi' })).body).toBe(`${expected} c.test`)
  },
)

tested('answers 502 when the certificate of the upstream is not to be trusted', async () => {
  const upstream = await startSecure()
  const gateway = await startGateway({ to: `https://localhost:${upstream.port}` })
  expect(problemCode(await ask(gateway.url))).toBe('upstream_unreachable')
  const careful = { Expect: '100-continue', 'Content-Length': '2' }
  expect((await ask(gateway.url, { method: 'POST', headers: careful, body: 'hi' })).status).toBe(502)
})

const hasIpv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === '::1'))

test.skipIf(made === undefined || !hasIpv6)('reaches an https upstream by an address of IPv6', async () => {
  const upstream = await startSecure({ host: '::1' })
  const gateway = await startGateway({
    to: `https://[::1]:${upstream.port}`,
    with: { tls: { ca: identity.cert }, host: 'upstream' },
  })
  expect((await ask(gateway.url)).body).toBe(`none [::1]:${upstream.port}`)
})

tested('goes on with what was agreed on when a connection has to be made anew', async () => {
  const upstream = await startSecure()
  const gateway = await startGateway({
    to: `https://localhost:${upstream.port}`,
    with: { tls: { ca: identity.cert } },
  })
  for (let i = 0; i < 3; i++) expect((await ask(`${gateway.url}/last`)).status).toBe(200)
  expect([upstream.connections(), upstream.resumed()]).toEqual([3, 2])
})

tested('shows a certificate to an upstream that wants one, and answers 502 without', async () => {
  const upstream = await startSecure({ requestCert: true, rejectUnauthorized: true, ca: identity.cert })
  const url = `https://localhost:${upstream.port}`
  const known = await startGateway({ to: url, with: { tls: { ca: identity.cert, ...identity } } })
  expect((await ask(known.url)).status).toBe(200)
  const unknown = await startGateway({ to: url, with: { tls: { ca: identity.cert } } })
  expect((await ask(unknown.url)).status).toBe(502)
  expect((await ask(unknown.url, { method: 'POST', body: 'x' })).status).toBe(502)
  await idle(unknown)
})
