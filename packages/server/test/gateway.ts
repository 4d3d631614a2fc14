import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  type ClientRequest,
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestListener,
  request,
  type Server,
} from 'node:http'
import {
  type AddressInfo,
  connect,
  createServer as createRawServer,
  type Server as RawServer,
  type Socket,
} from 'node:net'
import { onTestFinished, vi } from 'vitest'
import { until } from '../../headgate/test/until.ts'
import {
  createProxy,
  type Hooks,
  type HttpProxy,
  type Outcome,
  type ProxyOptions,
  type UpstreamOptions,
} from '../src/gateway/index.ts'

vi.setConfig({ testTimeout: 60_000 }) // on a busy machine 50 MB take their time

export interface Gateway {
  readonly url: string
  readonly port: number
  readonly server: Server
  readonly proxy: HttpProxy
  /** In order of their ends. */
  readonly outcomes: Outcome[]
  /** The outcome of the only request. */
  outcome(): Promise<Outcome>
}

export type GatewayOptions = Omit<ProxyOptions, 'upstreams'> & {
  /** One upstream of these addresses, or all that is to be known of several. */
  readonly to: string | readonly UpstreamOptions[]
  /** For the one upstream. */
  readonly with?: Partial<UpstreamOptions>
  readonly hooks?: (req: IncomingMessage) => Hooks
}

/** A proxy behind a server, as the service has it; ends with the test. */
export async function startGateway({ to, with: more, hooks, ...options }: GatewayOptions): Promise<Gateway> {
  const upstreams = typeof to === 'string' ? [{ name: 'only', urls: [to], ...more }] : to
  const proxy = createProxy({ upstreams, ...options })
  const outcomes: Outcome[] = []
  const hooksFor = (req: IncomingMessage): Hooks => {
    const own = hooks?.(req)
    return {
      ...own,
      onDone(outcome) {
        outcomes.push(outcome)
        own?.onDone?.(outcome)
      },
    }
  }
  const server = createServer((req, res) => proxy.handle(req, res, hooksFor(req)))
  server.on('checkContinue', (req, res) => proxy.handle(req, res, hooksFor(req)))
  server.on('upgrade', (req, socket, head) => proxy.upgrade(req, socket, head, hooksFor(req)))
  const port = await listen(server)
  onTestFinished(async () => {
    await proxy.close()
    server.closeAllConnections()
  })
  const outcome = () => until('the outcome', () => outcomes[0])
  return { url: `http://127.0.0.1:${port}`, port, server, proxy, outcomes, outcome }
}

/** An upstream that speaks HTTP. */
export async function startUpstream(handler: RequestListener): Promise<{ url: string; port: number; server: Server }> {
  const server = createServer(handler)
  const port = await listen(server)
  onTestFinished(() => server.closeAllConnections())
  return { url: `http://127.0.0.1:${port}`, port, server }
}

/** An upstream that says what it is told to. */
export async function startRaw(onSocket: (socket: Socket) => void): Promise<{ url: string; port: number }> {
  const sockets = new Set<Socket>()
  const server = createRawServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    onSocket(socket)
  })
  const port = await listen(server)
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
  })
  return { url: `http://127.0.0.1:${port}`, port }
}

/** One that answers every request head with these bytes. */
export function startAnswering(...answer: string[]): Promise<{ url: string; port: number }> {
  return startRaw((socket) => socket.on('data', () => socket.write(answer.join('\r\n'), 'latin1')))
}

async function listen(server: RawServer | Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
  })
  return (server.address() as AddressInfo).port
}

/** An upstream that takes no connection and refuses none: a stopped process whose queue of one is full. */
export async function startDeaf(): Promise<{ url: string }> {
  const options = "{port:0,host:'127.0.0.1',backlog:1}"
  const script = `require('net').createServer().listen(${options},function(){console.log(this.address().port)})`
  const child = spawn(process.execPath, ['-e', script])
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  child.kill('SIGSTOP')
  const fillers = Array.from({ length: 4 }, () => connect(Number(line), '127.0.0.1').on('error', () => {}))
  onTestFinished(() => {
    child.kill('SIGKILL')
    for (const filler of fillers) filler.destroy()
  })
  const accepted = () => fillers.filter(({ connecting }) => !connecting).length
  await until('the queue to be full', () => (accepted() >= 2 ? true : undefined))
  return { url: `http://127.0.0.1:${Number(line)}` }
}

/** A port where nobody listens. */
export async function freePort(): Promise<number> {
  const server = createRawServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

export interface Answer {
  readonly status: number
  readonly reason: string
  readonly headers: IncomingHttpHeaders
  readonly rawHeaders: string[]
  readonly body: string
  readonly trailers: Record<string, string | undefined>
}

export interface Asking {
  readonly method?: string
  readonly headers?: Record<string, string | string[]>
  readonly body?: string
}

export async function ask(url: string, { method = 'GET', headers = {}, body }: Asking = {}): Promise<Answer> {
  const asked = request(url, { method, headers, agent: false })
  asked.end(body)
  return read(await responseOf(asked))
}

export async function responseOf(asked: ClientRequest): Promise<IncomingMessage> {
  const [response] = (await once(asked, 'response')) as [IncomingMessage]
  return response
}

export async function read(response: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  const { statusCode = 0, statusMessage = '', headers, rawHeaders, trailers } = response
  const body = Buffer.concat(chunks).toString('latin1')
  return { status: statusCode, reason: statusMessage, headers, rawHeaders, body, trailers }
}

/** Says these bytes and collects what comes back, until the other side closes or the answer has this end. */
export async function say(port: number, text: string, end?: string): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  onTestFinished(() => {
    socket.destroy()
  })
  socket.on('error', () => {})
  let heard = ''
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    heard += chunk
  })
  socket.write(text, 'latin1')
  await until('an answer', () => (socket.closed || (end !== undefined && heard.includes(end)) ? true : undefined))
  return heard
}

/** The code of a problem that the gateway answered with. */
export function problemCode({ headers, body }: Answer): string | undefined {
  if (headers['content-type'] !== 'application/problem+json') return undefined
  return (JSON.parse(body) as { code: string }).code
}

/** Nothing is left under way. */
export async function idle({ proxy }: Gateway): Promise<void> {
  await until('nothing to be in flight', () => {
    const { inFlight, upgraded, upstreams } = proxy.stats()
    return inFlight + upgraded + upstreams.reduce((sum, one) => sum + one.inFlight, 0) === 0 ? true : undefined
  })
}
