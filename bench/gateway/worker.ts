// Starts an upstream, proxies in front of it and what loads them, each in a process of its own.
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { keepTo } from '../cores.ts'
import { type Figures, type Job, quantile } from '../harness.ts'
import { load } from '../http/wrk.ts'
import { answer, type Turn } from '../worker.ts'
import { steady } from './steady.ts'
import { startUpstream } from './upstream.ts'
import { NO_RULES, REDIS } from './variants.ts'

const children: ChildProcess[] = []
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL')
})

interface Proxy {
  readonly port: number
  cpuUs(): Promise<number>
}

keepTo('rest')
await answer({ throughput, 'half-load': halfLoad })

async function throughput({ variant, quick }: Job): Promise<Turn> {
  const proxy = await startProxy(variant, await upstreamUrl())
  await warmUp(proxy, quick)
  return async () => {
    const before = await proxy.cpuUs()
    const { requests, ...figures } = await load(proxy.port, 1)
    return { ...figures, cpuUs: ((await proxy.cpuUs()) - before) / requests }
  }
}

/** At half of what the slower one takes, by turns with the same proxy without rules. */
async function halfLoad({ variant, quick }: Job): Promise<Figures> {
  const upstream = await upstreamUrl()
  const [proxy, bare] = [await startProxy(variant, upstream), await startProxy(NO_RULES, upstream)]
  const perSecond = Math.min(await warmUp(proxy, quick), await warmUp(bare, quick)) / 2
  const before = [await proxy.cpuUs(), await bare.cpuUs()] as const
  const [ours, without] = await steady([proxy.port, bare.port], perSecond, quick ? 4 : 16)
  const cpuUs = ((await proxy.cpuUs()) - before[0]) / ours.requests
  const bareCpuUs = ((await bare.cpuUs()) - before[1]) / without.requests
  const added = ours.p99s.map((p99, i) => p99 - (without.p99s[i] as number)).toSorted((a, b) => a - b)
  return {
    perSecond,
    p50: ours.p50,
    p99: ours.p99,
    bareP50: without.p50,
    bareP99: without.p99,
    addedLow: quantile(added, 0.25),
    addedMid: quantile(added, 0.5),
    addedHigh: quantile(added, 0.75),
    cpuUs,
    bareCpuUs,
  }
}

/** Returns how many requests a second it took in the end. */
async function warmUp({ port }: Proxy, quick: boolean): Promise<number> {
  let perSecond = 0
  for (let second = 0; second < (quick ? 1 : 5); second++) ({ perSecond } = await load(port, 1))
  return perSecond
}

async function startProxy(variant: string, upstream: string): Promise<Proxy> {
  const store = variant === REDIS ? `redis://127.0.0.1:${await startRedis()}` : 'memory'
  const child = fork(new URL('./proxy.js', import.meta.url), [variant, upstream, store])
  children.push(child)
  const [{ port }] = (await once(child, 'message')) as [{ port: number }]
  keepTo('measured', child.pid)
  return {
    port,
    async cpuUs() {
      child.send('cpu')
      const [{ cpu }] = (await once(child, 'message')) as [{ cpu: NodeJS.CpuUsage }]
      return cpu.user + cpu.system
    },
  }
}

async function upstreamUrl(): Promise<string> {
  const port = await freePort()
  children.push(await startUpstream(port))
  return `http://127.0.0.1:${port}`
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  return port
}

async function startRedis(): Promise<number> {
  const port = await freePort()
  const args = ['--port', String(port), '--save', '', '--appendonly', 'no', '--bind', '127.0.0.1']
  const child = spawn('redis-server', args, { stdio: ['ignore', 'pipe', 'inherit'] })
  children.push(child)
  for await (const text of child.stdout) if (String(text).includes('Ready to accept')) break
  return port
}
