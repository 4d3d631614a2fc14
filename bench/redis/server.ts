// A Redis of the benchmark's own: on loopback, nothing on disk, gone when the benchmark ends, however that happens.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { Redis } from 'ioredis'

export interface OwnRedis {
  readonly port: number
  readonly version: string
  stop(): Promise<void>
}

// The system closes our end of the shell's input also when we are killed. The shell then reads its end and stops the server.
const SHELL = 'redis-server "$@" >&2 & echo $!; cat >/dev/null; kill $!; wait $!'
const START_MS = 5_000

export async function startRedis(): Promise<OwnRedis> {
  if (spawnSync('redis-server', ['--version']).error !== undefined) {
    throw new Error('redis-server is not on the PATH: apt-get install redis-server, or brew install redis')
  }
  const port = await freePort()
  const options = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
  // In a group of its own, so that Ctrl-C reaches us only and the order of ending stays as above.
  const shell = spawn('sh', ['-c', SHELL, 'sh', ...options, '--loglevel', 'warning'], { detached: true })
  let log = ''
  shell.stderr.on('data', (text) => {
    log += text
  })
  const stop = () => end(shell)
  try {
    const [pid] = await once(shell.stdout, 'data')
    return { port, version: await ready(port, Number(pid)), stop }
  } catch (cause) {
    await stop()
    throw new Error(`redis-server did not start: ${log.trim()}`, { cause })
  }
}

/** Answers with the version. What runs afterwards empties the server, so it makes sure that it is ours and no other. */
async function ready(port: number, pid: number): Promise<string> {
  const retryStrategy = (times: number) => (times * 20 < START_MS ? 20 : null)
  const client = new Redis({ port, host: '127.0.0.1', retryStrategy, maxRetriesPerRequest: null })
  client.on('error', () => {}) // refused until it listens; the command below is rejected when that lasts
  try {
    const info = parseInfo(await client.info('server'))
    if (Number(info.process_id) !== pid) throw new Error(`port ${port} belongs to another Redis`)
    return info.redis_version
  } finally {
    client.disconnect()
  }
}

async function end(shell: ChildProcess): Promise<void> {
  shell.stdin?.end()
  if (shell.exitCode === null && shell.signalCode === null) await once(shell, 'exit')
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

export function parseInfo(text: string): Record<string, string> {
  const lines = text.split('\r\n').filter((line) => line.includes(':'))
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]))
}
