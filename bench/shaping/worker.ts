// One variant in a process of its own; see ../shaping.ts for the question and ../harness.ts for who starts it.
import { createGate, memory } from 'headgate'
import { redis } from 'headgate/redis'
import { type Figures, type Job, quantile } from '../harness.ts'
import { connect } from '../redis/control.ts'
import { answer } from '../worker.ts'

const GAP_MS = 10
/** While a thousand callers are asked to wait, the first of them are due already, and leave together. */
const STARTING = 50
const options = { limit: '100/s burst 1', algorithm: 'leaky-bucket', timeoutMs: 1_000 } as const

/** Calls for so many departures at once, and hears of each. */
type Depart = (count: number, gone: () => void) => Promise<void>

const variants: Record<string, (port: number) => Depart> = {
  'bare timers': () => bare,
  memory: () => waits([createGate({ ...options, store: memory() })]),
  redis: (port) => waits([createGate({ ...options, store: redis(connect(port)) })]),
  'redis, 3 connections': (port) => waits([1, 2, 3].map(() => createGate({ ...options, store: redis(connect(port)) }))),
}

/** What a runtime can do: a timer for each instant, counted from the start. */
async function bare(count: number, gone: () => void): Promise<void> {
  const startMs = performance.now()
  const at = (i: number) =>
    new Promise<void>((resolve) => {
      setTimeout(() => resolve(gone()), startMs + i * GAP_MS - performance.now())
    })
  await Promise.all(Array.from({ length: count }, (_, i) => at(i)))
}

function waits(
  gates: readonly { wait(key: string): Promise<{ readonly ok: boolean; readonly degraded: unknown }> }[],
): Depart {
  return async (count, gone) => {
    const one = async (i: number) => {
      const { ok, degraded } = await (gates[i % gates.length] as (typeof gates)[number]).wait('k')
      if (!ok || degraded) throw new Error(`a departure was refused or made without the store`)
      gone()
    }
    await Promise.all(gates.map((gate) => gate.wait('warm')))
    await Promise.all(Array.from({ length: count }, (_, i) => one(i)))
  }
}

async function spacing({ variant, quick, port = 0 }: Job): Promise<Figures> {
  const depart = variants[variant]?.(port)
  if (depart === undefined) throw new Error(`no variant ${variant}`)
  const all: number[] = []
  await depart(STARTING + (quick ? 100 : 1_000), () => all.push(performance.now()))
  const times = all.slice(STARTING)
  const first = times[0] as number
  const off = times.slice(1).map((ms, i) => Math.abs(ms - (times[i] as number) - GAP_MS))
  const late = times.map((ms, i) => ms - first - i * GAP_MS)
  const sorted = (list: readonly number[]) => [...list].sort((a, b) => a - b)
  return {
    medianMs: quantile(sorted(off), 0.5),
    p99Ms: quantile(sorted(off), 0.99),
    worstMs: Math.max(...off),
    driftMs: late.at(-1) as number,
  }
}

await answer({ spacing })
