import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll } from 'vitest'
import type { LeaseJob } from './lease-worker.ts'

const worker = fileURLToPath(new URL('lease-worker.ts', import.meta.url))
export const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
export const RATE = 4_000
export const BURST = 2_000
export const LIFE_MS = 1_000
export const LIMIT = `${RATE}/s burst ${BURST}` as const

/** When a take that passed was asked for, and when that was known. */
export interface Span {
  readonly startUs: number
  readonly endUs: number
}

/** By how much the takes that began and ended within some span of time, whichever, are more than the limit allows in it. */
export function excess(spans: readonly Span[]): number {
  const ended = [...spans].sort((a, b) => a.endUs - b.endUs)
  let most = -Infinity
  for (let i = 0; i < spans.length; i += 7) {
    const fromUs = (spans[i] as Span).startUs
    let count = 0
    for (const { startUs, endUs } of ended) {
      if (startUs < fromUs) continue
      count++
      most = Math.max(most, count - BURST - ((endUs - fromUs) * RATE) / 1e6)
    }
  }
  return most
}

export interface LeaseFleet {
  /** Starts a process that takes of one key by leases; `at` is the port of a Redis, or an address. */
  start(name: string, at: number | string): Promise<ChildProcess>
  /** Lets it end, and says how many takes it decided at once. */
  stop(child: ChildProcess): Promise<number>
  /** What a process was let through, whatever became of it. */
  read(name: string): Span[]
}

/** For a `describe`: processes that live as long as it does. */
export function leaseFleet(): LeaseFleet {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-leases-'))
  const children: ChildProcess[] = []
  afterAll(() => {
    for (const child of children) child.kill('SIGKILL')
    rmSync(folder, { recursive: true })
  })
  return {
    async start(name, at) {
      const child = fork(worker, { execArgv: ['--import', 'tsx'] })
      children.push(child)
      await once(child, 'message')
      const rates = [600, 600, 3_000, 100, 900, 0]
      const job: LeaseJob = { at, limit: LIMIT, lifeMs: LIFE_MS, file: join(folder, name), rates }
      const atWork = once(child, 'message')
      child.send(job)
      await atWork
      return child
    },
    async stop(child) {
      const said = once(child, 'message')
      child.send('stop')
      const [{ atOnce }] = (await said) as [{ atOnce: number }]
      return atOnce
    },
    read: (name) => readSpans(join(folder, name)),
  }
}

function readSpans(file: string): Span[] {
  const bytes = readFileSync(file)
  const numbers = new Float64Array(
    bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length - (bytes.length % 16)),
  )
  return Array.from({ length: numbers.length / 2 }, (_, i) => ({
    startUs: numbers[2 * i] as number,
    endUs: numbers[2 * i + 1] as number,
  }))
}
