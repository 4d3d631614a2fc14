import { readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import type { TLSSocket } from 'node:tls'
import { connect } from 'node:tls'
import { describe, expect, test } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import { Authority, hasOpenssl, type Identity, replace } from '../../test/certificates.ts'
import { behind, child, ends, rulesFile, rulesOf } from '../../test/service.ts'

interface Told {
  readonly status: number
  /** Whom the certificate names. */
  readonly server: string
}

const identityOf = ({ cert, key }: Identity) => ({ cert: readFileSync(cert), key: readFileSync(key) })

/** On a connection of its own. */
function ask(port: number, path: string, ca: Buffer, as?: Identity): Promise<Told> {
  return new Promise((resolve, reject) => {
    const options = { port, host: '127.0.0.1', path, ca, agent: false, ...(as && identityOf(as)) }
    const req = request(options, (res) => {
      const { CN } = (res.socket as TLSSocket).getPeerCertificate().subject
      res.resume().on('end', () => resolve({ status: res.statusCode ?? 0, server: CN as string }))
    })
    req.on('error', reject).end()
  })
}

const ports = ['port', 'adminPort'] as const
const paths = { port: '/x', adminPort: '/healthz' }

interface Secure {
  readonly ca: Authority
  readonly own: Identity
  readonly port: number
  readonly adminPort: number
  ask(at: (typeof ports)[number], as?: Identity): Promise<Told>
  /** How often a certificate was refused. */
  refusals(): number
}

async function secure(more = ''): Promise<Secure> {
  const ca = new Authority()
  const own = ca.sign('first')
  const upstream = await behind()
  const tls = `{ cert: ${own.cert}, key: ${own.key}${more && `, ca: ${ca.file}, ${more}`} }`
  const rules = rulesOf('  all: { limit: 1000000/s }', `upstream: ${upstream.url}`, `tls: ${tls}, adminTls: ${tls}`)
  const { port, adminPort, log } = await child(rulesFile(rules))
  const numbers = { port, adminPort }
  const refusals = () => log.filter(({ msg }) => msg?.startsWith('certificate refused')).length
  return { ca, own, ...numbers, refusals, ask: (at, as) => ask(numbers[at], paths[at], ca.pem, as) }
}

/** Until connections that are new get this certificate. */
async function serves(at: Secure, server: string, as?: Identity): Promise<void> {
  for (const port of ports)
    await until(`${server} on ${port}`, async () => (await at.ask(port, as)).server === server || undefined)
}

describe.skipIf(!hasOpenssl)('with certificates (made by openssl)', () => {
  test('both ports speak TLS and nothing else', async () => {
    const at = await secure()
    for (const port of ports) {
      expect(await at.ask(port)).toEqual({ status: 200, server: 'first' })
      await expect(fetch(`http://127.0.0.1:${at[port]}/healthz`)).rejects.toThrow()
      await expect(ask(at[port], '/', new Authority().pem)).rejects.toThrow(/certificate/)
      const old = connect({
        port: at[port],
        host: '127.0.0.1',
        ca: at.ca.pem,
        maxVersion: 'TLSv1.1',
        minVersion: 'TLSv1',
      })
      await expect(
        new Promise((resolve, reject) => old.on('secureConnect', resolve).on('error', reject)),
      ).rejects.toThrow()
      expect(await at.ask(port)).toEqual({ status: 200, server: 'first' })
    }
  })

  test('a new one serves new connections, a broken one leaves the last in place, old connections stay', async () => {
    const at = await secure()
    const kept = ends(connect({ port: at.port, host: '127.0.0.1', ca: at.ca.pem }), (each) => each.destroy())
    let heard = ''
    kept.setEncoding('latin1').on('data', (chunk) => {
      heard += chunk
    })
    const [second, third] = [at.ca.sign('second'), at.ca.sign('third')]
    replace(at.own, second)
    await serves(at, 'second')
    const half = readFileSync(third.cert, 'utf8').slice(0, 200)
    for (const broken of ['', 'no certificate', half, readFileSync(third.cert) /* of another key */]) {
      const before = at.refusals()
      writeFileSync(at.own.cert, broken)
      await until('refusals on both ports', () => at.refusals() >= before + 2 || undefined)
      for (const port of ports) expect((await at.ask(port)).server).toBe('second')
    }
    replace(at.own, third)
    await serves(at, 'third')
    kept.write('GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n')
    await until('the old connection', () => heard.endsWith('hello') || undefined)
  })

  test('who has to show one and has none, or one of somebody else, is refused; also after a new one was put', async () => {
    const at = await secure('requestCert: true')
    const [known, stranger] = [at.ca.sign('caller'), new Authority().sign('caller')]
    const isAsked = async (server: string) => {
      for (const port of ports) {
        await expect(at.ask(port)).rejects.toThrow()
        await expect(at.ask(port, stranger)).rejects.toThrow()
        expect(await at.ask(port, known)).toEqual({ status: 200, server })
      }
    }
    await isAsked('first')
    replace(at.own, at.ca.sign('second'))
    await serves(at, 'second', known)
    await isAsked('second')
  })
})
