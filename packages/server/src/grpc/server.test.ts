import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2'
import { connect as dial } from 'node:net'
import { gzipSync } from 'node:zlib'
import { status as codes, credentials } from '@grpc/grpc-js'
import { describe, expect, test } from 'vitest'
import { randomBy, seed } from '../../../headgate/test/random.ts'
import { until } from '../../../headgate/test/until.ts'
import { Authority, hasOpenssl, replace } from '../../test/certificates.ts'
import { envoyRules, perHour, serving, web } from '../../test/envoy.ts'
import { descriptor, EnvoyClient } from '../../test/envoy-client.ts'
import { child, ends, rulesFile } from '../../test/service.ts'
import { parseRules } from '../config/load.ts'
import type { ServerRules } from '../config/server-schema.ts'
import type { Log } from '../log.ts'
import { noLog } from '../log.ts'
import { GrpcServer } from './server.ts'

const ann = [['user', 'ann']] as const
const HEALTH = '/grpc.health.v1.Health/Check'
const PATH = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'
const MANY = 1_000_000
const service = web(perHour('user', MANY))

/** { domain: 'web', descriptors: [{ entries: [{ key: 'user', value: 'ann' }] }] } */
const message = Buffer.from('0a03776562120d0a0b0a0475736572120361 6e6e'.replaceAll(' ', ''), 'hex')

function frame(body: Buffer, flag = 0, length = body.length): Buffer {
  const bytes = Buffer.alloc(5 + body.length)
  bytes[0] = flag
  bytes.writeUInt32BE(length, 1)
  body.copy(bytes, 5)
  return bytes
}

interface Told {
  readonly http: number
  readonly code: number | undefined
  readonly message: string
  readonly headers: Record<string, unknown>
}

function session(port: number): ClientHttp2Session {
  const opened = ends(connect(`http://127.0.0.1:${port}`), (each) => each.destroy())
  opened.on('error', () => {})
  return opened
}

/** One call of bytes, as they are. */
async function say(on: ClientHttp2Session, bytes: Buffer, headers: Record<string, string> = {}): Promise<Told> {
  const fields = { ':method': 'POST', ':path': PATH, 'content-type': 'application/grpc', te: 'trailers' }
  const stream = on.request({ ...fields, ...headers })
  stream.on('error', () => {})
  stream.end(bytes)
  return heard(stream)
}

/** A call that does not end. */
function begun(on: ClientHttp2Session, bytes: Buffer, headers: Record<string, string> = {}): ClientHttp2Stream {
  const fields = { ':method': 'POST', ':path': PATH, 'content-type': 'application/grpc', ...headers }
  const stream = on.request(fields, { endStream: false })
  stream.on('error', () => {})
  stream.write(bytes)
  return stream
}

/** Begins calls until there is no room for another one, and tells what that was told. Each is sent before the next: the client of
 *  Node fails at what is taken back while it is being sent. */
async function filled(on: ClientHttp2Session): Promise<Told> {
  for (;;) {
    const stream = begun(on, frame(Buffer.alloc(2 ** 19), 0, 2 ** 20))
    const told = heard(stream)
    await until('it to be sent', () => stream.writableLength === 0 || stream.closed || undefined)
    await settled(on)
    if (stream.closed) return told
  }
}

/** The other side has seen what was sent. */
function settled(on: ClientHttp2Session): Promise<void> {
  return new Promise((resolve) => on.ping(() => resolve()))
}

async function heard(stream: ClientHttp2Stream): Promise<Told> {
  const told: Record<string, unknown> = {}
  stream.on('response', (fields) => Object.assign(told, fields))
  stream.on('trailers', (fields) => Object.assign(told, fields))
  stream.resume()
  await once(stream, 'close')
  const status = told['grpc-status']
  return {
    http: Number(told[':status']),
    code: status === undefined ? undefined : Number(status),
    message: decodeURIComponent(String(told['grpc-message'] ?? '')),
    headers: told,
  }
}

describe('a call', () => {
  test('is answered, packed or not', async () => {
    const { service: at } = await serving(service)
    const on = session(at.grpcPort)
    expect(await say(on, frame(message))).toMatchObject({ http: 200, code: codes.OK })
    const packed = frame(gzipSync(message), 1)
    expect(await say(on, packed, { 'grpc-encoding': 'gzip' })).toMatchObject({ http: 200, code: codes.OK })
    expect(await say(on, frame(message), { 'content-type': 'application/grpc+proto' })).toMatchObject({
      code: codes.OK,
    })
    const limits = at.service.rules.gateOf('web-user').peekKey('web-user', 'ann')
    expect((await limits).limits[0]?.remaining).toBe(MANY - 3)
  })

  test.each([
    ['no message', Buffer.alloc(0), {}, codes.INVALID_ARGUMENT],
    ['half a prefix', Buffer.alloc(3), {}, codes.INVALID_ARGUMENT],
    ['less than it says', frame(message, 0, message.length + 1), {}, codes.INVALID_ARGUMENT],
    ['more than it says', frame(message, 0, 2), {}, codes.INVALID_ARGUMENT],
    ['two messages', Buffer.concat([frame(message), frame(message)]), {}, codes.INVALID_ARGUMENT],
    ['bytes that are no message', frame(Buffer.from([255, 255])), {}, codes.INVALID_ARGUMENT],
    ['a flag that is none', frame(message, 2), {}, codes.INVALID_ARGUMENT],
    ['what was not packed', frame(message, 1), { 'grpc-encoding': 'gzip' }, codes.INVALID_ARGUMENT],
    ['another way to pack', frame(message, 1), { 'grpc-encoding': 'snappy' }, codes.UNIMPLEMENTED],
    ['a length beyond bounds', frame(message, 0, 2 ** 32 - 1), {}, codes.RESOURCE_EXHAUSTED],
    ['too much', frame(Buffer.alloc(2 ** 20 + 1)), {}, codes.RESOURCE_EXHAUSTED],
    ['too much once it is unpacked', frame(gzipSync(Buffer.alloc(2 ** 20 + 1)), 1), { 'grpc-encoding': 'gzip' }, 8],
    ['another method', frame(message), { ':path': '/a.B/C' }, codes.UNIMPLEMENTED],
  ])('with %s gets an error, and the connection stays', async (_, bytes, headers, code) => {
    const { service: at } = await serving(service)
    const on = session(at.grpcPort)
    const told = await say(on, bytes, headers)
    expect(told).toMatchObject({ http: 200, code })
    expect(told.message).not.toBe('')
    if (code === codes.UNIMPLEMENTED) expect(told.headers['grpc-accept-encoding']).toBe('identity,gzip')
    expect(await say(on, frame(message))).toMatchObject({ code: codes.OK })
  })

  test('whose message does not end takes no more memory than there is for all of them', async () => {
    const { service: at, client } = await serving(service)
    const large = frame(Buffer.alloc(2 ** 19, 255))
    const last = session(at.grpcPort)
    expect(await say(last, large)).toMatchObject({ code: codes.INVALID_ARGUMENT })
    const greedy = Array.from({ length: 9 }, () => session(at.grpcPort))
    for (const each of greedy) expect(await filled(each)).toMatchObject({ code: codes.RESOURCE_EXHAUSTED })
    expect(await say(last, large)).toMatchObject({ code: codes.RESOURCE_EXHAUSTED })
    expect(await client.take('web', ann)).toMatchObject({ code: 'OK' })
    for (const each of greedy) each.destroy()
    await until('room', async () => (await say(last, large)).code === codes.INVALID_ARGUMENT || undefined)
  })

  test('of one connection has no room that it takes from others', async () => {
    const { service: at, client } = await serving(service)
    const [greedy, other] = [session(at.grpcPort), session(at.grpcPort)]
    expect(await filled(greedy)).toMatchObject({ code: codes.RESOURCE_EXHAUSTED })
    // Too large for what is always there, and no message.
    expect(await say(other, frame(Buffer.alloc(2 ** 19, 255)))).toMatchObject({ code: codes.INVALID_ARGUMENT })
    expect(await client.take('web', ann)).toMatchObject({ code: 'OK' })
    expect(await say(greedy, frame(message))).toMatchObject({ code: codes.OK })
  })

  test('of somebody without a token takes hardly any room', async () => {
    const { service: at } = await serving(service, '', '', { HEADGATE_TOKEN: 'secret' })
    const on = session(at.grpcPort)
    const large = { http: 200, code: codes.RESOURCE_EXHAUSTED, message: 'a message has at most 1024 bytes here' }
    const health = { ':path': HEALTH }
    expect(await heard(begun(on, frame(Buffer.alloc(0), 0, 1025), health))).toMatchObject(large)
    expect(await heard(begun(on, Buffer.alloc(1100), health))).toMatchObject(large)
    const packed = frame(gzipSync(Buffer.alloc(1025)), 1)
    expect(await say(on, packed, { ...health, 'grpc-encoding': 'gzip' })).toMatchObject(large)
    const watch = { ':path': '/grpc.health.v1.Health/Watch' }
    expect(await heard(begun(on, frame(Buffer.alloc(0), 0, 1025), watch))).toMatchObject(large)
  })

  test('that is none of gRPC is told so by HTTP', async () => {
    const { service: at } = await serving(service)
    const on = session(at.grpcPort)
    expect((await say(on, frame(message), { 'content-type': 'application/json' })).http).toBe(415)
    const get = on.request({ ':path': PATH })
    expect((await heard(get)).http).toBe(405)
    // Also if it goes on: nobody reads the rest.
    const unended = begun(on, frame(message), { 'content-type': 'application/json' })
    expect((await heard(unended)).http).toBe(415)
    expect((await heard(begun(on, frame(message), { ':method': 'PUT' }))).http).toBe(405)
  })

  test('with more headers than the rules allow is not answered', async () => {
    const { service: at } = await serving(service, '', 'maxHeaderBytes: 4096')
    // The first of a connection, which does not know the bound yet.
    const first = (x: string) => say(session(at.grpcPort), frame(message), { x })
    expect(await first('x'.repeat(3000))).toMatchObject({ code: codes.OK })
    expect(await first('x'.repeat(4096))).toMatchObject({ code: codes.RESOURCE_EXHAUSTED })
    expect((await at.service.inspect('web-user', 'ann')).limits[0]?.remaining).toBe(MANY - 1)
  })

  test('for which nobody waits any more charges nobody', async () => {
    const { service: at } = await serving(service)
    const on = session(at.grpcPort)
    for (const text of ['0n', '0H', '1n'])
      expect(await say(on, frame(message), { 'grpc-timeout': text })).toMatchObject({ code: codes.DEADLINE_EXCEEDED })
    expect(await say(on, frame(message), { 'grpc-timeout': '10S' })).toMatchObject({ code: codes.OK })
    expect((await at.service.inspect('web-user', 'ann')).limits[0]?.remaining).toBe(MANY - 1)
  })

  test('whose answer cannot be sent is told of an error, and nothing else happens', async () => {
    const failed: unknown[] = []
    const log = { error: (...each: unknown[]) => failed.push(each) } as unknown as Log
    const answer = async () => ({ message: Buffer.alloc(0) }) // no room for the prefix
    const rules = { maxHeaderBytes: 16_384 } as ServerRules
    const server = ends(new GrpcServer({ rules, log, methods: new Map([['/a.B/C', { answer }]]) }), (each) =>
      each.drain(0),
    )
    const on = session(await server.listen(0, '127.0.0.1'))
    expect(await say(on, frame(message), { ':path': '/a.B/C' })).toMatchObject({ code: codes.INTERNAL })
    expect(failed).toHaveLength(1)
  })

  test('that its caller takes back charges nobody', async () => {
    const { service: at } = await serving(service)
    const on = session(at.grpcPort)
    for (let i = 0; i < 50; i++) {
      const stream = on.request({ ':method': 'POST', ':path': PATH, 'content-type': 'application/grpc' })
      stream.on('error', () => {})
      stream.write(frame(message))
      stream.close(constants.NGHTTP2_CANCEL)
    }
    expect((await say(on, frame(message))).code).toBe(codes.OK)
    const { limits } = await at.service.inspect('web-user', 'ann')
    expect(limits[0]?.remaining).toBe(MANY - 1)
  })
})

test('a message that comes too slowly is not waited for', async () => {
  const { rules } = parseRules('limits: {}')
  const methods = new Map([['/a/B', { answer: () => ({ message: Buffer.alloc(5) }) }]])
  const server = new GrpcServer({ rules: rules.server, log: noLog, methods, arrivalMs: 200 })
  const on = session(await server.listen(0, '127.0.0.1'))
  ends(server, (each) => each.drain(0))
  const stream = on.request({ ':method': 'POST', ':path': '/a/B', 'content-type': 'application/grpc' })
  stream.on('error', () => {})
  // A byte now and then keeps no call alive.
  const drip = setInterval(() => stream.writable && stream.write(Buffer.alloc(1)), 20)
  expect(await heard(stream)).toMatchObject({ code: codes.DEADLINE_EXCEEDED })
  clearInterval(drip)
  expect(await say(on, frame(message), { ':path': '/a/B' })).toMatchObject({ code: codes.OK })
})

test(`no bytes, in whatever order, end the service (HEADGATE_SEED=${seed})`, async () => {
  const { service: at, client } = await serving(service)
  const random = randomBy(seed)
  for (let i = 0; i < 200; i++) {
    const socket = dial(at.grpcPort, '127.0.0.1')
    socket.on('error', () => {})
    const bytes = Buffer.from(Array.from({ length: Math.floor(random() * 200) }, () => Math.floor(random() * 256)))
    // Most say hello as they should, so that what follows is taken for frames.
    const hello =
      random() < 0.8 ? Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0', 'latin1') : Buffer.alloc(0)
    socket.write(Buffer.concat([hello, random() < 0.5 ? framesOf(bytes, random) : bytes]))
    await new Promise<void>((resolve) => socket.end(() => resolve()))
    socket.destroy()
  }
  const on = session(at.grpcPort)
  await client.take('web', ann)
  for (let i = 0; i < 200; i++) {
    const mutated = frame(Buffer.from(message))
    for (let j = 0; j < 3; j++) mutated[Math.floor(random() * mutated.length)] = Math.floor(random() * 256)
    const { code } = await say(on, mutated)
    expect([codes.OK, codes.INVALID_ARGUMENT, codes.RESOURCE_EXHAUSTED, codes.UNIMPLEMENTED]).toContain(code)
  }
  expect(await client.take('web', [['user', 'bob']])).toMatchObject({ code: 'OK' })
})

/** Headers of frames, with lengths that are right, and anything else that is not. */
function framesOf(bytes: Buffer, random: () => number): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(bytes.length, 0, 3)
  head[3] = Math.floor(random() * 11)
  head[4] = Math.floor(random() * 256)
  head.writeUInt32BE(Math.floor(random() * 5), 5)
  return Buffer.concat([head, bytes])
}

describe('health', () => {
  test('is told for the server and its services, and for no others', async () => {
    const { client } = await serving(service)
    for (const name of ['', 'ratelimit', 'envoy.service.ratelimit.v3.RateLimitService'])
      expect(await client.health(name)).toBe('SERVING')
    await expect(client.health('other')).rejects.toMatchObject({ code: codes.NOT_FOUND })
  })

  test('is told again when it changes: who drains does not serve', async () => {
    const { client, service: at } = await serving(service)
    const told: string[] = []
    const watching = client.watch('ratelimit').on('data', ({ status }) => told.push(status))
    watching.on('error', () => {})
    const unknown = client.watch('other').on('error', () => {})
    const [first] = await once(unknown, 'data')
    expect(first).toMatchObject({ status: 'SERVICE_UNKNOWN' })
    await until('the first', () => told.length > 0 || undefined)
    await at.stop()
    expect(told).toEqual(['SERVING', 'NOT_SERVING'])
  })
})

describe('the end', () => {
  test('under load loses no call: what was sent is answered, the rest goes elsewhere', async () => {
    const file = rulesFile(envoyRules(service))
    const at = await child(file)
    const clients = Array.from({ length: 4 }, () => new EnvoyClient(at.grpcPort, undefined, OWN_CONNECTION))
    let stopped = false
    const counts = { OK: 0, lost: [] as unknown[] }
    const loops = clients.map(async (client) => {
      while (!stopped) {
        const calls = Array.from({ length: 10 }, () => client.take('web', ann))
        for (const each of await Promise.allSettled(calls)) {
          if (each.status === 'fulfilled') counts.OK++
          // Nobody listens any more: what could not be sent was not lost.
          else if (isRefusedConnection(each.reason)) stopped = true
          else counts.lost.push(each.reason)
        }
      }
    })
    await until('traffic', () => counts.OK > 500 || undefined)
    at.signal('SIGTERM')
    await Promise.all(loops)
    expect(counts.lost).toEqual([])
    expect(await at.exited).toMatchObject({ code: 0 })
  })

  test('waits for no connection that is not used', async () => {
    const { service: at, client } = await serving(service)
    await client.take('web', ann)
    const silent = dial(at.grpcPort, '127.0.0.1')
    silent.on('error', () => {})
    await once(silent, 'connect')
    const startMs = performance.now()
    await at.stop()
    expect(performance.now() - startMs).toBeLessThan(4000)
  })
})

/** Clients would share one otherwise. */
const OWN_CONNECTION = { 'grpc.use_local_subchannel_pool': 1 }

function isRefusedConnection(reason: { code?: number; details?: string }): boolean {
  return reason.code === codes.UNAVAILABLE && /ECONNREFUSED|No connection established/.test(reason.details ?? '')
}

describe.skipIf(!hasOpenssl)('with a certificate', () => {
  test('callers are sure whom they ask, also when it is replaced, and must say who they are', async () => {
    const ca = new Authority()
    const own = ca.sign('first')
    const tls = `tls: { cert: ${own.cert}, key: ${own.key}, ca: ${ca.file}, requestCert: true }`
    const { service: at } = await serving(service, '', tls)
    const caller = ca.sign('envoy')
    const trusted = () =>
      new EnvoyClient(
        at.grpcPort,
        credentials.createSsl(ca.pem, readFileSync(caller.key), readFileSync(caller.cert)),
        OWN_CONNECTION,
      )
    expect(await trusted().take('web', ann)).toMatchObject({ code: 'OK' })
    const nobody = new EnvoyClient(at.grpcPort, credentials.createSsl(ca.pem), OWN_CONNECTION)
    await expect(nobody.take('web', ann)).rejects.toMatchObject({ code: codes.UNAVAILABLE })
    replace(own, ca.sign('second'))
    const name = () =>
      new Promise<string>((resolve, reject) => {
        const options = { ca: ca.pem, key: readFileSync(caller.key), cert: readFileSync(caller.cert) }
        const on = connect(`https://127.0.0.1:${at.grpcPort}`, options, (_, socket) => {
          resolve(
            (socket as never as { getPeerCertificate(): { subject: { CN: string } } }).getPeerCertificate().subject.CN,
          )
          on.destroy()
        })
        on.on('error', reject)
      })
    await until('the second', async () => (await name()) === 'second' || undefined)
    expect(await trusted().ask('web', [descriptor(ann)])).toMatchObject({ overallCode: 'OK' })
  })
})
