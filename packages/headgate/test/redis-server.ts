import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { call, type Reply } from './resp.ts'

export interface RedisServer {
  readonly url: string
  /** Sends one command. An error reply rejects. */
  call(...command: string[]): Promise<Reply>
  /** Ends a server that was started here; leaves the one at REDIS_URL alone. */
  stop(): Promise<void>
}

const program = ['valkey-server', 'redis-server'].find((name) => spawnSync(name, ['--version']).status === 0)

/** For `describe.skipIf(!…)`: `npm test` has said by then what to install. */
export const canStartRedis = program !== undefined
export const hasRedis = canStartRedis || Boolean(process.env.REDIS_URL)

/** A real Redis or Valkey for a test file: the one at REDIS_URL, else one of its own. */
export async function useRedis(): Promise<RedisServer> {
  const url = process.env.REDIS_URL
  return url ? answering(url, async () => {}) : startRedis()
}

/** On a free port of the loopback interface; forgets everything when it stops. */
export async function startRedis(): Promise<RedisServer> {
  // Somebody may take the port between our look and the server's start: then the server gives up, and we look again.
  for (let attempt = 1; attempt <= 5; attempt++) {
    const port = await freePort()
    const server = launch(port)
    const exited = once(server, 'exit')
    if (!(await ready(server.stdout))) continue
    return answering(`redis://127.0.0.1:${port}`, async () => {
      server.kill()
      await exited
    })
  }
  throw new Error(`${program} does not start`)
}

async function answering(url: string, stop: () => Promise<void>): Promise<RedisServer> {
  const server = { url, call: (...command: string[]) => call(url, command), stop }
  await server.call('PING')
  return server
}

/**
 * The server must not outlive this process, not even when it is killed. So the shell that becomes the server first leaves a
 * watcher behind, which reads a pipe from us: a line means that the server has ended, the end of the pipe that we have.
 */
function launch(port: number) {
  const script = 'exec 3<&0; { read -r _ <&3 || kill $$; } >/dev/null 2>&1 & exec "$@" </dev/null 3<&-'
  const address = ['--bind', '127.0.0.1', '--port', String(port)]
  const inMemoryOnly = ['--save', '', '--appendonly', 'no', '--maxmemory-policy', 'noeviction']
  const server = spawn('sh', ['-c', script, 'sh', program ?? 'redis-server', ...address, ...inMemoryOnly], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  server.once('exit', () => server.stdin.end('\n'))
  return server
}

/** The log is asked, not the port, because there somebody else's server could answer. */
async function ready(log: Readable): Promise<boolean> {
  for await (const line of createInterface({ input: log })) {
    if (!line.includes('Ready to accept connections')) continue
    log.resume() // an unread log would block the server one day
    return true
  }
  return false
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return port
}
