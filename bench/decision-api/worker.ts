// The service in this process, asked by a child.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { fileURLToPath } from 'node:url'
import { type Figures, type Job, quantile } from '../harness.ts'
import { answer } from '../worker.ts'

const IN_FLIGHT = 32
const BATCH = 100

if (process.argv[2] === 'ask') await ask(Number(process.argv[3]), Number(process.argv[4]), Number(process.argv[5]))
else await answer({ 'decision-api': measure })

async function measure({ variant, quick }: Job): Promise<Figures> {
  const { serve } = await import('headgate-server')
  const text =
    'server: { host: 127.0.0.1, port: 0, adminPort: 0, grpcPort: false }\nlimits: { per-ip: { limit: 1000000000/s, by: [ip] } }\n'
  const { port } = await serve({ text })
  const batch = variant === 'single' ? 1 : BATCH
  await askFrom(port, batch, quick ? 300 : 2_000)
  const before = process.cpuUsage()
  const { decisions, ...figures } = await askFrom(port, batch, quick ? 300 : 3_000)
  const { user, system } = process.cpuUsage(before)
  return { ...figures, cpuUs: (user + system) / (decisions as number) }
}

async function askFrom(port: number, batch: number, ms: number): Promise<Figures> {
  const child = fork(fileURLToPath(import.meta.url), ['ask', String(port), String(batch), String(ms)])
  const [figures] = (await once(child, 'message')) as [Figures]
  return figures
}

async function ask(port: number, batch: number, ms: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: IN_FLIGHT })
  const one = (i: number) => ({
    request: { method: 'GET', path: '/', ip: `10.0.${(i >> 8) & 255}.${i & 255}`, headers: {} },
  })
  const took: number[] = []
  const start = performance.now()
  let sent = 0
  async function caller(): Promise<void> {
    while (performance.now() - start < ms) {
      const first = sent
      sent += batch
      const body = batch === 1 ? one(first) : Array.from({ length: batch }, (_, i) => one(first + i))
      const at = performance.now()
      await post(port, agent, JSON.stringify(body))
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

function post(port: number, agent: Agent, body: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
    const req = request({ port, host: '127.0.0.1', agent, method: 'POST', path: '/v1/take', headers }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`status ${response.statusCode}`))
      response.resume().once('end', resolve)
    })
    req.once('error', reject)
    req.end(body)
  })
}
