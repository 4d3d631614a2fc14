import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { call, type Reply } from './resp.ts'

export interface RedisServer {
  readonly url: string
  /** Sends one command. An error reply rejects. */
  call(...command: string[]): Promise<Reply>
  /** Ends a server that was started here, paused or not; leaves the one at REDIS_URL alone. */
  stop(): Promise<void>
}

/** A server that was started here, so a test may do to it what the world does to servers. */
export interface OwnRedis extends RedisServer {
  readonly port: number
  readonly pid: number
  /** Answers nothing until `resume`, and keeps its connections: SIGSTOP. */
  pause(): void
  resume(): void
  /** Without a word to anybody: SIGKILL. */
  kill(): Promise<void>
  /** On the same port and without its keys, killed first if it runs. A cluster node or sentinel remembers the others. */
  restart(): Promise<void>
}

export interface RedisOptions {
  /** A free one, if it does not matter. */
  readonly port?: number
  /** As on the command line: `['--maxmemory', '2mb']`. */
  readonly args?: readonly string[]
  /** Starts a sentinel. This stands in its configuration file, which it rewrites. */
  readonly sentinel?: string
}

const program = ['valkey-server', 'redis-server'].find((name) => spawnSync(name, ['--version']).status === 0)

/** For `describe.skipIf(!…)`: `npm test` has said by then what to install. */
export const canStartRedis = program !== undefined
export const hasRedis = canStartRedis || Boolean(process.env.REDIS_URL)

if (!canStartRedis && process.env.CI === 'true') {
  throw new Error('no redis-server or valkey-server on the PATH: in CI their tests are not skipped')
}

/** A real Redis or Valkey for a test file: the one at REDIS_URL, else one of its own. */
export async function useRedis(): Promise<RedisServer> {
  const url = process.env.REDIS_URL
  if (!url) return startRedis()
  const server = { url, call: (...command: string[]) => call(url, command), stop: async () => {} }
  await server.call('PING')
  return server
}

/** On the loopback interface; forgets everything when it stops. */
export async function startRedis(options: RedisOptions = {}): Promise<OwnRedis> {
  // For what it writes after all: a replica receives its first copy as a file, a cluster node and a sentinel take notes.
  const folder = await mkdtemp(join(tmpdir(), 'headgate-redis-'))
  if (options.sentinel !== undefined) await writeFile(join(folder, 'sentinel.conf'), options.sentinel)
  // Somebody may take the port between our look and the server's start: then the server gives up, and we look again.
  for (let attempt = 1; attempt <= 5; attempt++) {
    const port = options.port ?? (await freePort())
    const running = await launch(port, folder, options)
    if (running) return own(port, folder, options, running)
  }
  await rm(folder, { recursive: true })
  throw new Error(`${program} does not start`)
}

function own(port: number, folder: string, options: RedisOptions, first: Running): OwnRedis {
  const url = `redis://127.0.0.1:${port}`
  let running = first
  async function kill(): Promise<void> {
    running.server.kill('SIGKILL')
    await running.exited
  }
  return {
    url,
    port,
    get pid() {
      return running.server.pid as number
    },
    call: (...command) => call(url, command),
    pause: () => void running.server.kill('SIGSTOP'),
    resume: () => void running.server.kill('SIGCONT'),
    kill,
    async restart() {
      await kill()
      await rm(join(folder, 'dump.rdb'), { force: true }) // the copy that a replica once received
      const again = await launch(port, folder, options)
      if (!again) throw new Error(`${program} does not start again on port ${port}`)
      running = again
    },
    async stop() {
      await kill() // there is nothing to save, and a polite end waits for replicas and for ever when paused
      await rm(folder, { recursive: true, force: true })
    },
  }
}

interface Running {
  readonly server: ChildProcess
  readonly exited: Promise<unknown>
}

/**
 * The server must not outlive this process, not even when it is killed. So the shell that becomes the server first leaves a
 * watcher behind, which reads a pipe from us: a line means that the server has ended, the end of the pipe that we have. Only
 * SIGKILL ends a server that is paused, so the watcher must outlive what else is sent to all processes of a terminal.
 */
async function launch(port: number, folder: string, options: RedisOptions): Promise<Running | undefined> {
  const script = '{ trap "" HUP TERM; read -r _ <&3 || { kill -9 $$; rm -rf "$0"; }; } >/dev/null 2>&1 & exec "$@" 3<&-'
  const config = options.sentinel === undefined ? inMemoryOnly : [join(folder, 'sentinel.conf'), '--sentinel']
  const address = ['--bind', '127.0.0.1', '--port', String(port), '--dir', folder]
  const command = [program ?? 'redis-server', ...config, ...address, ...(options.args ?? [])]
  const server = spawn('sh', ['-c', script, folder, ...command], { stdio: ['ignore', 'pipe', 'inherit', 'pipe'] })
  const exited = once(server, 'exit')
  const pipe = server.stdio[3] as Writable // not the standard input, which Node closes before it tells that a process has ended
  pipe.on('error', () => {}) // the watcher may be gone first
  server.once('exit', () => pipe.end('\n'))
  return (await ready(server.stdout as Readable)) ? { server, exited } : undefined
}

const inMemoryOnly = ['--save', '', '--appendonly', 'no', '--maxmemory-policy', 'noeviction']

/** The log is asked, not the port, because there somebody else's server could answer. */
async function ready(log: Readable): Promise<boolean> {
  for await (const line of createInterface({ input: log })) {
    if (!/Ready to accept connections|Sentinel ID is/.test(line)) continue
    log.resume() // an unread log would block the server one day
    return true
  }
  return false
}

/**
 * Below the ports that systems hand out to outgoing connections. There, while a server is down, one of its clients could get
 * the server's port for itself, or even connect to itself. Cluster nodes talk to each other on this port plus 10000.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 1; attempt <= 100; attempt++) {
    const port = 11_000 + Math.floor(Math.random() * 10_000)
    const probe = createServer().listen(port, '127.0.0.1')
    const free = await once(probe, 'listening').then(
      () => true,
      () => false,
    )
    if (!free) continue
    probe.close()
    await once(probe, 'close')
    return port
  }
  throw new Error('no free port between 11000 and 21000')
}
