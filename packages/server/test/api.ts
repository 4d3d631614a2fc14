import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { memory, type Store } from 'headgate'
import { onTestFinished } from 'vitest'
import type * as z from 'zod'
import { type ApiOptions, createApi } from '../src/api/index.ts'
import type { decisionSchema, statusSchema } from '../src/api/schemas.ts'
import { parseRules } from '../src/config/index.ts'
import { Service } from '../src/service.ts'

export interface Rig {
  readonly url: string
  readonly port: number
  readonly server: Server
  readonly service: Service
  /** A text is sent as it is. */
  post<B = Body>(path: string, body: unknown, headers?: Record<string, string>): Promise<Told<B>>
  get<B = Body>(path: string, headers?: Record<string, string>): Promise<Told<B>>
}

/** Whatever an answer may hold. */
export interface Body extends z.infer<typeof decisionSchema>, z.infer<typeof statusSchema> {
  readonly reservation: string
  readonly applied: boolean
  readonly code: string
  readonly detail: string
  readonly pointer: string
  readonly error: { readonly code: string; readonly pointer: string; readonly detail: string }
}

export interface Told<B = Body> {
  readonly status: number
  readonly headers: Headers
  readonly body: B
}

export interface RigOptions extends Partial<ApiOptions> {
  readonly store?: Store
  /** Whether the server leaves it to handlers to tell clients to go on. */
  readonly continues?: boolean
}

/** For tests, a busy machine is no outage. */
export const patient = 'timeoutMs: 10000\n'
export const secret = Buffer.from('a secret that all instances of a test share')

/** An instance on a free port, as a process of its own has it; ends with the test. */
export async function startApi(
  rules: string,
  { store = memory(), continues = false, ...options }: RigOptions = {},
): Promise<Rig> {
  const service = new Service(parseRules(patient + rules).rules, store)
  const api = createApi(service, { open: true, secret, ...options })
  const server = createServer((req, res) => {
    if (!api.handle(req, res)) res.writeHead(418).end('not the API')
  })
  if (continues) server.on('checkContinue', (req, res) => void api.handle(req, res))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}`
  return {
    url,
    port,
    server,
    service,
    post: async (path, body, headers = {}) => {
      const text = typeof body === 'string' ? body : JSON.stringify(body)
      return told(await fetch(url + path, { method: 'POST', body: text, headers }))
    },
    get: async (path, headers = {}) => told(await fetch(url + path, { headers })),
  }
}

export async function told<B>(response: Response): Promise<Told<B>> {
  const text = await response.text()
  const isJson = /json/.test(response.headers.get('content-type') ?? '')
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text }
}
