import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { memory, type Store } from 'headgate'
import { type FakeClock, fakeClock } from 'headgate/testing'
import { onTestFinished } from 'vitest'
import { type Admin, type AdminOptions, createAdmin } from '../src/admin/index.ts'
import { parseRules } from '../src/config/index.ts'
import type { Decided } from '../src/rules/rule-set.ts'
import { Service } from '../src/service.ts'
import { Telemetry } from '../src/telemetry/index.ts'

export const WRITE = 'write-token-0123456789'
export const READ = 'read-token-0123456789'

export const RULES = `# limits of the test; a busy machine is no outage
timeoutMs: 10000
limits:
  per-key: { limit: 10/min, by: [api-key] }
  exports: { limit: 4/min, by: [api-key, route], when: { path: /export/** } }
  watched: { limit: 2/min, by: [api-key], mode: observe }
  plan: { limit: { free: 5/min, pro: 50/min }, by: [api-key], when: { path: /plan } }
  busy: { limit: 1000/min }
identify: { tier: header:x-plan }
`

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** The body as JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape
  readonly json: any
}

export interface AskOptions {
  readonly token?: string | undefined
  /** An object is sent as JSON. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

export interface AdminRig {
  readonly url: string
  readonly port: number
  readonly server: Server
  readonly service: Service
  readonly telemetry: Telemetry
  readonly admin: Admin
  /** Drives what happens once a second, and the admin's own limit. */
  readonly clock: FakeClock
  /** Lines of the audit. */
  readonly lines: string[]
  readonly errors: unknown[]
  ask(method: string, path: string, options?: AskOptions): Promise<Answer>
  /** A request as the gateway would judge it. */
  take(apiKey: string, url?: string, headers?: Readonly<Record<string, string>>): Promise<Decided>
}

export interface RigOptions extends Partial<AdminOptions> {
  readonly rules?: string
  readonly store?: Store
  readonly mostLimits?: number
}

/** A service with its admin on a free port; ends with the test. */
export async function startAdmin({
  rules = RULES,
  store = memory(),
  mostLimits = 200,
  ...more
}: RigOptions = {}): Promise<AdminRig> {
  const clock = fakeClock(Date.now())
  const telemetry = new Telemetry({ mostLimits, clock })
  const service = new Service(parseRules(rules).rules, telemetry.wrapStore(store, 'test'))
  const detach = telemetry.attach(service)
  const [lines, errors]: [string[], unknown[]] = [[], []]
  const admin = createAdmin(service, {
    telemetry,
    tokens: { write: WRITE, read: READ },
    audit: { write: (line) => lines.push(line) },
    onError: (error) => errors.push(error),
    limit: '1000000/s',
    clock,
    ...more,
  })
  const server = createServer((req, res) => admin.handle(req, res))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  onTestFinished(() => {
    admin.close()
    detach()
    server.close()
    server.closeAllConnections()
  })
  const url = `http://127.0.0.1:${port}`
  const take: AdminRig['take'] = async (apiKey, path = '/', headers = {}) => {
    const all: Readonly<Record<string, string>> = { 'x-api-key': apiKey, ...headers }
    const incoming = { method: 'GET', url: path, peer: '192.0.2.1', header: (name: string) => all[name] }
    return service.rules.take(service.rules.callerOf(incoming))
  }
  const ask: AdminRig['ask'] = (method, path, options) => send(port, method, path, options)
  return { url, port, server, service, telemetry, admin, clock, lines, errors, ask, take }
}

/** Not fetch, which mends paths and methods before it sends them. */
async function send(
  port: number,
  method: string,
  path: string,
  { token = WRITE, body, headers }: AskOptions = {},
): Promise<Answer> {
  const isText = typeof body === 'string' || body instanceof Uint8Array || body === undefined
  const req = request({
    port,
    host: '127.0.0.1',
    method,
    path,
    headers: {
      ...(token !== '' && { authorization: `Bearer ${token}` }),
      ...(!isText && { 'content-type': 'application/json' }),
      ...headers,
    },
  })
  req.end(isText ? body : JSON.stringify(body))
  const [res] = await once(req, 'response')
  const chunks: Buffer[] = []
  for await (const chunk of res) chunks.push(chunk)
  const text = Buffer.concat(chunks).toString()
  const isJson = /json/.test(res.headers['content-type'] ?? '') && text !== ''
  return { status: res.statusCode, headers: res.headers, text, json: isJson ? JSON.parse(text) : undefined }
}
