// The service, or grpc-js around the same code, in this process, asked by a child.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { type ClientHttp2Session, connect } from 'node:http2'
import { fileURLToPath } from 'node:url'
import { Server, ServerCredentials } from '@grpc/grpc-js'
import { memory } from 'headgate'
import { type Figures, type Job, quantile } from '../harness.ts'
import { answer } from '../worker.ts'

// What the service is made of is no part of what it exports.
const inside = (path: string) => import(new URL(path, import.meta.resolve('headgate-server')).href)
const { parseRules } = (await inside('config/load.js')) as typeof import('../../packages/server/src/config/load.ts')
const { Reader } = (await inside('grpc/index.js')) as typeof import('../../packages/server/src/grpc/index.ts')
const { Decider } = (await inside('rls/decide.js')) as typeof import('../../packages/server/src/rls/decide.ts')
const { readRequest, writeResponse } = (await inside(
  'rls/messages.js',
)) as typeof import('../../packages/server/src/rls/messages.ts')
const { Service } = (await inside('service.js')) as typeof import('../../packages/server/src/service.ts')

const IN_FLIGHT = 100
const CONNECTIONS = 4
const PATH = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'

const rules = `
server: { host: 127.0.0.1, port: 0, adminPort: 0, grpcPort: 0 }
envoy:
  domains:
    - domain: web
      descriptors:
        - { key: user, rate_limit: { unit: hour, requests_per_unit: 4000000000 } }
        - { key: path, value: /a*, rate_limit: { unit: second, requests_per_unit: 4000000000 } }
`

if (process.argv[2] === 'ask') await ask(Number(process.argv[3]), Number(process.argv[4]))
else await answer({ envoy: measure })

async function measure({ variant, quick }: Job): Promise<Figures> {
  const port = await (variant === 'headgate' ? serveOwn() : serveGrpcJs())
  await askFrom(port, quick ? 300 : 2_000)
  const before = process.cpuUsage()
  const { decisions, ...figures } = await askFrom(port, quick ? 300 : 3_000)
  const { user, system } = process.cpuUsage(before)
  return { ...figures, cpuUs: (user + system) / (decisions as number) }
}

async function serveOwn(): Promise<number> {
  const { serve } = await import('headgate-server')
  return (await serve({ text: rules })).grpcPort
}

function serveGrpcJs(): Promise<number> {
  const service = new Service(parseRules(rules).rules, memory())
  const decider = new Decider()
  const same = (bytes: Buffer) => bytes
  const method = { path: PATH, requestStream: false, responseStream: false } as const
  const server = new Server()
  server.addService(
    {
      shouldRateLimit: {
        ...method,
        requestSerialize: same,
        requestDeserialize: same,
        responseSerialize: same,
        responseDeserialize: same,
      },
    },
    {
      async shouldRateLimit({ request }: { request: Buffer }, done: (error: null, message: Buffer) => void) {
        const { response } = await decider.decide(service.rules.envoy, readRequest(new Reader(request)))
        done(null, writeResponse(response))
      },
    } as never,
  )
  return new Promise((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) =>
      error === null ? resolve(port) : reject(error),
    )
  })
}

async function askFrom(port: number, ms: number): Promise<Figures> {
  const child = fork(fileURLToPath(import.meta.url), ['ask', String(port), String(ms)])
  const [figures] = (await once(child, 'message')) as [Figures]
  return figures
}

async function ask(port: number, ms: number): Promise<void> {
  const sessions = Array.from({ length: CONNECTIONS }, () => connect(`http://127.0.0.1:${port}`))
  const took: number[] = []
  const start = performance.now()
  let sent = 0
  async function caller(_: unknown, i: number): Promise<void> {
    while (performance.now() - start < ms) {
      const at = performance.now()
      await call(sessions[i % CONNECTIONS] as ClientHttp2Session, frame(sent++ % 10_000))
      took.push(performance.now() - at)
    }
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, caller))
  const sorted = took.sort((a, b) => a - b)
  const perSecond = (sent / (performance.now() - start)) * 1000
  process.send?.({ decisions: sent, perSecond, p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99) }, () =>
    process.exit(0),
  )
}

function call(session: ClientHttp2Session, bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const fields = { ':method': 'POST', ':path': PATH, 'content-type': 'application/grpc', te: 'trailers' }
    const stream = session.request(fields)
    stream.once('trailers', ({ 'grpc-status': status }) => {
      if (String(status) === '0') resolve()
      else reject(new Error(`status ${status}`))
    })
    stream.once('error', reject)
    stream.resume()
    stream.end(bytes)
  })
}

/** A message of gRPC: the domain, and the descriptors of a user and of a path. */
function frame(user: number): Buffer {
  const entry = (key: string, value: string) => field(1, Buffer.concat([text(1, key), text(2, value)]))
  const descriptors = [entry('user', `user-${user}`), entry('path', '/a/b')].map((each) => field(2, each))
  const message = Buffer.concat([text(1, 'web'), ...descriptors])
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

function text(number: number, value: string): Buffer {
  return field(number, Buffer.from(value))
}

function field(number: number, bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes])
}
