// Two minutes of everything at once on one service: many keys, aborts, WebSockets, new rules. Prints its memory over time and
// ends with 1 if that grows. Run: npm run soak [seconds]
import { once } from 'node:events'
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, createServer, request } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as later } from 'node:timers/promises'
import { randomBy, seed } from '../packages/headgate/test/random.ts'
import { type Child, startChild } from '../packages/server/test/child.ts'
import { keepSending } from '../packages/server/test/load.ts'

const SECONDS = Number(process.argv[2] ?? 120)
/** Counts of so many keys fill their memory early on: what comes later is growth. */
const KEYS = 20_000
const STORE_BYTES = 2 ** 20
const MOST_HEAP_GROWTH_MB = 8
const MOST_RSS_GROWTH_MB = 48
const WARM_UP = 0.4

const next = randomBy(seed)
const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n'

async function startUpstream(): Promise<string> {
  const server = createServer((req, res) => {
    if (req.url === '/slow') void later(200).then(() => res.end('slow'))
    else res.end('x'.repeat(1000))
  })
  server.on('upgrade', (_req, socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    socket
      .on('error', () => {})
      .on('data', (chunk) => socket.write(chunk))
      .on('end', () => socket.end())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function rulesOf(upstream: string, limit: number): string {
  return `
store: { memory: { maxBytes: ${STORE_BYTES} } }
upstream: ${upstream}
server: { port: 0, adminPort: 0, grpcPort: false, host: 127.0.0.1 }
limits:
  per-key: { limit: ${limit}/min, by: [api-key] }
  log: { limit: 50/min, algorithm: sliding-log, by: [api-key], when: { path: /log } }
  busy: { atOnce: 500 }
`
}

const keyOf = () => ({ 'x-api-key': `key-${Math.floor(next() * KEYS)}` })

const agent = new Agent({ keepAlive: true })

/** Not fetch, which takes more time than the service does. */
function ask(url: string, body?: string, signal?: AbortSignal): Promise<number> {
  const method = body === undefined ? 'GET' : 'POST'
  return new Promise((resolve, reject) => {
    const options = { agent, method, headers: keyOf(), ...(signal && { signal }) }
    const req = request(url, options, (res) => {
      res
        .resume()
        .on('end', () => resolve(res.statusCode ?? 0))
        .on('error', reject)
    })
    req.on('error', reject).end(body)
  })
}

/** A caller that leaves before its answer. */
function leave({ url }: Child): Promise<number> {
  return ask(`${url}/slow`, undefined, AbortSignal.timeout(1 + Math.floor(next() * 20))).catch(() => 0)
}

/** A WebSocket that says something and goes, in good order or not. */
async function chat({ port }: Child): Promise<number> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {}) // told by the close
  socket.write(`GET /ws HTTP/1.1\r\nHost: a.test\r\nX-Api-Key: ${keyOf()['x-api-key']}\r\n${upgrade}\r\n`)
  socket.once('data', () => socket.write('hello'))
  socket.on('data', (chunk) => {
    if (!chunk.toString('latin1').endsWith('hello')) return
    if (next() < 0.5) socket.end()
    else socket.destroy()
  })
  await once(socket, 'close')
  return 101
}

const asks: readonly ((service: Child) => Promise<number>)[] = [
  ({ url }) => ask(url),
  ({ url }) => ask(`${url}/log`),
  ({ url }) => ask(`${url}/rate_limit`),
  ({ url }) => ask(url, 'y'.repeat(5000)),
  ({ adminUrl }) => ask(`${adminUrl}/metrics`),
  leave,
  chat,
]

interface Sample {
  readonly heapMb: number
  readonly rssMb: number
}

async function sample(service: Child): Promise<Sample> {
  const { heapUsed, external, rss } = await service.memory()
  return { heapMb: (heapUsed + external) / 2 ** 20, rssMb: rss / 2 ** 20 }
}

/** Samples until the time is over, with new rules before each. */
async function watch(service: Child, file: string, upstream: string): Promise<Sample[]> {
  const samples: Sample[] = []
  const startMs = performance.now()
  for (let seconds = 0; seconds < SECONDS; seconds = Math.round((performance.now() - startMs) / 1000)) {
    writeFileSync(`${file}.new`, rulesOf(upstream, 10 + Math.floor(next() * 100)))
    renameSync(`${file}.new`, file)
    await later(1000)
    samples.push(await sample(service))
    const { heapMb, rssMb } = samples.at(-1) as Sample
    if (samples.length % 5 === 0)
      console.log(`${seconds} s  rss ${rssMb.toFixed(1)} MB  heap and buffers ${heapMb.toFixed(1)} MB`)
  }
  return samples
}

/** From the middle of the samples after the warm-up to the middle of the last: a single sample says little. */
function growth(samples: readonly Sample[], of: keyof Sample): number {
  const settled = samples.slice(Math.floor(samples.length * WARM_UP)).map((each) => each[of])
  const size = Math.max(1, Math.floor(settled.length / 4))
  return median(settled.slice(-size)) - median(settled.slice(0, size))
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
}

console.log(`soak: ${SECONDS} s, HEADGATE_SEED=${seed}`)
const folder = mkdtempSync(join(tmpdir(), 'headgate-soak-'))
const file = join(folder, 'headgate.yaml')
const upstream = await startUpstream()
writeFileSync(file, rulesOf(upstream, 100))
const service = await startChild(file)
const load = keepSending(() => (asks[Math.floor(next() * asks.length)] as (typeof asks)[number])(service), {
  callers: 32,
})
const samples = await watch(service, file, upstream)
await load.stop()
const [heapMb, rssMb] = [growth(samples, 'heapMb'), growth(samples, 'rssMb')]
const statuses = [...load.statuses].sort(([a], [b]) => a - b).map(([status, count]) => `${status || 'left'}: ${count}`)
const answers = `${load.answered} answers (${statuses.join(', ')}), ${load.failures.length} failures, ${samples.length} reloads`
console.log(
  `${answers}; growth after the warm-up: heap and buffers ${heapMb.toFixed(1)} MB of at most ${MOST_HEAP_GROWTH_MB}, rss ${rssMb.toFixed(1)} MB of at most ${MOST_RSS_GROWTH_MB}`,
)
for (const failure of new Set(load.failures)) console.log(failure)
service.signal('SIGTERM')
const { code } = await service.exited
rmSync(folder, { recursive: true })
const isFine = heapMb <= MOST_HEAP_GROWTH_MB && rssMb <= MOST_RSS_GROWTH_MB && load.failures.length === 0 && code === 0
process.exit(isFine ? 0 : 1)
