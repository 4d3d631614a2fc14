import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { until } from '../../headgate/test/until.ts'

const main = fileURLToPath(new URL('../dist/main.js', import.meta.url))
const hooks = new URL('child-hooks.mjs', import.meta.url).href

export const ADMIN = 'admin-token-0123456789'

/** The service in a process of its own, as it was built. */
export interface Child {
  readonly url: string
  readonly port: number
  readonly adminUrl: string
  readonly adminPort: number
  /** 0: none. */
  readonly grpcPort: number
  /** What it logs, a line of JSON each. */
  readonly log: readonly Line[]
  signal(name: NodeJS.Signals): void
  readonly exited: Promise<{ readonly code: number | null; readonly signal: string | null }>
  admin(path: string, init?: RequestInit): Promise<Response>
  /** After a full collection. */
  memory(): Promise<NodeJS.MemoryUsage>
  kill(): Promise<void>
}

export interface Line {
  readonly msg?: string
  readonly [field: string]: unknown
}

export async function startChild(file: string, env: Readonly<Record<string, string>> = {}): Promise<Child> {
  const child = spawn(process.execPath, ['--expose-gc', '--import', hooks, main, 'serve', file], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { PATH: process.env.PATH, HEADGATE_ADMIN_TOKEN: ADMIN, ...env },
  })
  const exited = once(child, 'exit').then(([code, signal]) => ({ code, signal }))
  const log = linesOf(child.stdout as Readable)
  const {
    port,
    adminPort,
    grpcPort = 0,
  } = await until('the service', () => {
    if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode}: ${JSON.stringify(log)}`)
    return log.find(({ msg }) => msg === 'serving') as
      | { port: number; adminPort: number; grpcPort?: number }
      | undefined
  })
  const adminUrl = `http://127.0.0.1:${adminPort}`
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    adminUrl,
    adminPort,
    grpcPort,
    log,
    exited,
    signal: (name) => void child.kill(name),
    admin: (path, init) =>
      fetch(adminUrl + path, { ...init, headers: { authorization: `Bearer ${ADMIN}`, ...init?.headers } }),
    memory: () => memoryOf(child, log),
    async kill() {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
      await exited
    },
  }
}

function linesOf(stream: Readable): Line[] {
  const lines: Line[] = []
  createInterface({ input: stream }).on('line', (line) => lines.push(JSON.parse(line)))
  return lines
}

async function memoryOf(child: ChildProcess, log: readonly Line[]): Promise<NodeJS.MemoryUsage> {
  const before = log.length
  ;(child.stdin as Writable).write('memory\n')
  return until('its memory', () => log.slice(before).find((line) => 'memory' in line)?.memory as NodeJS.MemoryUsage)
}
