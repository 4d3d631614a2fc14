// One proxy in a process of its own, which starts its upstream and what loads it.
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import type { Figures, Job } from '../harness.ts'
import { load } from '../http/wrk.ts'
import { answer } from '../worker.ts'
import { steady } from './steady.ts'
import { NO_RULES, PEER, REDIS, THREE } from './variants.ts'

const LIMITS = `
  per-key: { limit: 1000000000/s, by: [ip] }
  per-path: { limit: 1000000000/s, by: [ip, path] }
  day: { limit: 1000000000000/day, by: [host] }`

const children: ChildProcess[] = []
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL')
})

await answer({ throughput, 'half-load': halfLoad })

async function throughput({ variant, quick }: Job): Promise<Figures> {
  const port = await start(variant)
  for (let second = 0; second < (quick ? 1 : 5); second++) await load(port, 1)
  return measured(() => load(port, quick ? 1 : 3))
}

/** At a rate that leaves room, so that what is measured is work and not waiting in line. */
async function halfLoad({ variant, quick }: Job): Promise<Figures> {
  const port = await start(variant)
  for (let second = 0; second < (quick ? 1 : 5); second++) await load(port, 1)
  const rate = Number(process.env.HEADGATE_BENCH_RATE ?? 1500)
  return measured(() => steady(port, rate, quick ? 1_000 : 4_000))
}

async function measured(
  run: () => Promise<{ requests: number; perSecond: number; p50: number; p99: number }>,
): Promise<Figures> {
  const before = process.cpuUsage()
  const { requests, ...figures } = await run()
  const { user, system } = process.cpuUsage(before)
  return { ...figures, cpuUs: (user + system) / requests }
}

async function start(variant: string): Promise<number> {
  const upstream = await startUpstream()
  if (variant === PEER) return startPeer(upstream)
  const { serve } = await import('headgate-server')
  const store = variant === REDIS ? `redis://127.0.0.1:${await startRedis()}` : 'memory'
  const limits = variant === NO_RULES ? ' {}' : LIMITS
  if (![NO_RULES, THREE, REDIS].includes(variant)) throw new Error(`no variant ${variant}`)
  const text = `upstream: ${upstream}\nstore: ${store}\nserver: { host: 127.0.0.1, port: 0, adminPort: 0, grpcPort: false }\nlimits:${limits}\n`
  return (await serve({ text })).port
}

async function startPeer(upstream: string): Promise<number> {
  const { default: fastify } = await import('fastify')
  const { default: proxy } = await import('@fastify/http-proxy')
  const app = fastify()
  await app.register(proxy, { upstream })
  await app.listen({ port: 0, host: '127.0.0.1' })
  return (app.server.address() as AddressInfo).port
}

async function startUpstream(): Promise<string> {
  const child = fork(new URL('./upstream.ts', import.meta.url))
  children.push(child)
  const [port] = (await once(child, 'message')) as [number]
  return `http://127.0.0.1:${port}`
}

async function startRedis(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  const args = ['--port', String(port), '--save', '', '--appendonly', 'no', '--bind', '127.0.0.1']
  const child = spawn('redis-server', args, { stdio: ['ignore', 'pipe', 'inherit'] })
  children.push(child)
  for await (const text of child.stdout) if (String(text).includes('Ready to accept')) break
  return port
}
