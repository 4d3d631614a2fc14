// Load at a steady rate, in a process of its own: latency counts from when a request should have been sent.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { Agent, get } from 'node:http'
import { fileURLToPath } from 'node:url'
import { quantile } from '../harness.ts'
import type { Load } from '../http/wrk.ts'

export async function steady(port: number, perSecond: number, ms: number): Promise<Load> {
  const child = fork(new URL(import.meta.url), [String(port), String(perSecond), String(ms)])
  const [load] = (await once(child, 'message')) as [Load]
  return load
}

async function run(port: number, perSecond: number, ms: number): Promise<Load> {
  const agent = new Agent({ keepAlive: true, maxSockets: 256 })
  const count = Math.round((perSecond * ms) / 1000)
  const took: number[] = []
  const start = performance.now()
  const all: Promise<void>[] = []
  for (let i = 0; i < count; ) {
    const due = Math.min(count, Math.floor(((performance.now() - start) * perSecond) / 1000))
    for (; i < due; i++) {
      const at = start + (i * 1000) / perSecond
      all.push(ask(port, agent).then(() => void took.push(performance.now() - at)))
    }
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  await Promise.all(all)
  const seconds = (performance.now() - start) / 1000
  const sorted = took.toSorted((a, b) => a - b)
  return { requests: count, perSecond: count / seconds, p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99) }
}

function ask(port: number, agent: Agent): Promise<void> {
  return new Promise((resolve, reject) => {
    get({ port, host: '127.0.0.1', agent }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`status ${response.statusCode}`))
      response.resume().once('end', resolve)
    }).once('error', reject)
  })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [port = 0, perSecond = 0, ms = 0] = process.argv.slice(2).map(Number)
  process.send?.(await run(port, perSecond, ms), () => process.exit(0))
}
