import { readFileSync } from 'node:fs'
import type { TestContext } from 'vitest'

/** A timer is due this often; that much later it may come on any machine. */
const EVERY_MS = 10

let lostMs = 0
let lastMs = performance.now()
let lastCpu = process.cpuUsage()
setInterval(look, EVERY_MS).unref()

/** Where the timer is late by more than this process has worked meanwhile, others had the machine. */
function look(): void {
  const nowMs = performance.now()
  const { user, system } = process.cpuUsage(lastCpu)
  const lateMs = nowMs - lastMs - EVERY_MS - (user + system) / 1000
  if (lateMs > EVERY_MS) lostMs += lateMs
  lastMs = nowMs
  lastCpu = process.cpuUsage()
}

/**
 * For promises of how long something takes at most: the milliseconds since it was made, without those in which this process was
 * kept from running. Work that takes too long, or an answer that does not come, is told in full.
 */
export function stopwatch(): () => number {
  look()
  const [startMs, lostBeforeMs] = [performance.now(), lostMs]
  return () => {
    look()
    return performance.now() - startMs - (lostMs - lostBeforeMs)
  }
}

/** How long a process was ready to run while others ran. Only Linux tells, and only of those that live. */
function waitedMs(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6
  } catch {
    return 0
  }
}

/**
 * For tests that hold only while the machine lets all sides run: a store that takes 50 ms is done without, and a call that takes 45 ms
 * to get to Redis is made again. They are tried again if it has not, and only then: `{ retry: ifStalled }`. Each says at its
 * beginning, by its own `onTestFailed`, which processes it depends on.
 */
export const ifStalled = { count: 3, condition: /\(the machine stalled for \d+ ms\)/ }

export function dependsOn(onTestFailed: TestContext['onTestFailed'], ...pids: readonly number[]): void {
  look()
  const lostBeforeMs = lostMs
  const before = pids.map((pid) => [pid, waitedMs(pid)] as const)
  onTestFailed(({ task }) => {
    look()
    const waited = before.map(([pid, beforeMs]) => waitedMs(pid) - beforeMs)
    const ms = Math.round(Math.max(lostMs - lostBeforeMs, ...waited))
    const error = task.result?.errors?.at(-1)
    if (error !== undefined && ms > 40) error.message += ` (the machine stalled for ${ms} ms)`
  })
}
