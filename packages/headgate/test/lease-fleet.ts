import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll } from 'vitest'
import type { LeaseJob } from './lease-worker.ts'
import { until } from './until.ts'

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
  /** Until these have been let through so often, and those of them that live have decided so large a part of it at once. */
  passed(
    names: readonly string[],
    living: readonly ChildProcess[],
    least: { count: number; part: number },
  ): Promise<void>
}

/** For a `describe`: processes that live as long as it does. */
export function leaseFleet(): LeaseFleet {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-leases-'))
  const children: ChildProcess[] = []
  const saidBy = async (child: ChildProcess, message: 'stop' | 'tell'): Promise<number> => {
    const said = once(child, 'message')
    child.send(message)
    const [{ atOnce }] = (await said) as [{ atOnce: number }]
    return atOnce
  }
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
    stop: (child) => saidBy(child, 'stop'),
    read: (name) => readSpans(join(folder, name)),
    async passed(names, living, { count, part }) {
      await until(`${count} takes, a part of ${part} at once`, async () => {
        const passed = names.reduce((sum, name) => sum + statSync(join(folder, name)).size / SPAN_BYTES, 0)
        if (passed < count) return undefined
        const atOnce = await Promise.all(living.map((child) => saidBy(child, 'tell')))
        return atOnce.reduce((sum, each) => sum + each, 0) > part * passed || undefined
      })
    },
  }
}

const SPAN_BYTES = 16

function readSpans(file: string): Span[] {
  const bytes = readFileSync(file)
  const numbers = new Float64Array(
    bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length - (bytes.length % SPAN_BYTES)),
  )
  return Array.from({ length: numbers.length / 2 }, (_, i) => ({
    startUs: numbers[2 * i] as number,
    endUs: numbers[2 * i + 1] as number,
  }))
}
