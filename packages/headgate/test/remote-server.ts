import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { HeadgateError, type Store } from '../src/index.ts'
import { type ServeOptions, serveStore } from '../src/remote/index.ts'

export interface Serving {
  readonly url: string
  readonly port: number
  /** Bodies of all requests, in order. */
  readonly bodies: string[]
  close(): Promise<void>
}

export type Handler = (req: IncomingMessage, res: ServerResponse) => unknown

/** A store behind a real port, as plain as can be. */
export async function serve(store: Store, options: ServeOptions & { port?: number } = {}): Promise<Serving> {
  const { port, ...rest } = options
  const answer = serveStore(store, rest)
  const bodies: string[] = []
  const serving = await listen(async (req, res) => {
    try {
      const body = await text(req)
      bodies.push(body)
      res.end(await answer(body))
    } catch (reason) {
      const { code, message } = reason as HeadgateError
      if (!(reason instanceof HeadgateError)) res.destroy()
      else res.writeHead(400).end(JSON.stringify({ code, detail: message }))
    }
  }, port)
  return { ...serving, bodies }
}

export async function listen(handler: Handler, port = 0): Promise<Omit<Serving, 'bodies'>> {
  const server: Server = createServer(handler)
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const { port: own } = server.address() as AddressInfo
  const close = async () => {
    server.closeAllConnections()
    if (server.listening) await new Promise((resolve) => server.close(resolve))
  }
  return { url: `http://127.0.0.1:${own}`, port: own, close }
}

/** Another process with a memory store behind a port. It ends with this one. */
export interface RemoteProcess {
  readonly url: string
  readonly port: number
  readonly pid: number
  /** Without a word to anybody: SIGKILL. */
  kill(): Promise<void>
  pause(): void
  resume(): void
}

const file = fileURLToPath(new URL('remote-process.ts', import.meta.url))

export async function startRemote(port = 0): Promise<RemoteProcess> {
  const child: ChildProcess = fork(file, [String(port)], { execArgv: ['--import', 'tsx'] })
  const [own] = (await Promise.race([once(child, 'message'), ended(child)])) as [number]
  return {
    url: `http://127.0.0.1:${own}`,
    port: own,
    pid: child.pid as number,
    async kill() {
      const exited = once(child, 'exit')
      if (child.exitCode === null && child.signalCode === null && child.kill('SIGKILL')) await exited
    },
    pause: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
  }
}

async function ended(child: ChildProcess): Promise<never> {
  const [code] = await once(child, 'exit')
  throw new Error(`a process ended with ${code}`)
}
