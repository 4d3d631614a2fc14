import fc from 'fast-check'
import { vi } from 'vitest'
import { seed } from '../../test/random.ts'
import { createGate, type Decision, type LimitObject, type MemoryStore, memory } from '../index.ts'
import { fakeClock } from '../testing/index.ts'
import * as model from './model.ts'
import { buckets, type Rule } from './traces.ts'

declare const process: { readonly env: Record<string, string | undefined> }

fc.configureGlobal({
  seed,
  // As it is by default, but for the name by which the same is had again.
  reporter(run) {
    if (!run.failed) return
    throw new Error(`HEADGATE_SEED=${seed}: ${fc.defaultReportMessage(run)}`, { cause: run.errorInstance })
  },
})

/** How often a property is tried; HEADGATE_RUNS=100 makes it a hundred times as often. */
const times = Number(process.env.HEADGATE_RUNS ?? 1)
export const runs = (numRuns: number) => ({ numRuns: Math.ceil(numRuns * times) })
// A failure takes its time to shrink.
vi.setConfig({ testTimeout: 30_000 * Math.max(1, times) })

export function limitOf({ kind, count, windowUs, burst }: Rule): LimitObject {
  const rate = { limit: Number(count), per: `${windowUs / 1000n}ms` }
  if (kind === 'first-hit') return { ...rate, algorithm: 'fixed-window', align: 'first-hit' }
  return { ...rate, algorithm: kind, ...(buckets.includes(kind) && { burst: Number(burst) }) }
}

export function modelOf({ kind, count, windowUs, burst }: Rule): model.Model {
  switch (kind) {
    case 'fixed-window':
      return new model.Windows(count, model.epochWindows(windowUs))
    case 'first-hit':
      return new model.FirstHitWindows(count, windowUs)
    case 'sliding-window':
      return new model.SlidingWindows(count, windowUs)
    case 'sliding-log':
      return new model.Log(count, windowUs)
    case 'strict-window':
      return new model.StrictSlices(count, windowUs)
    case 'leaky-bucket':
      return new model.Leaky(count, windowUs, burst)
    default:
      return new model.Bucket(count, windowUs, burst)
  }
}

/** Milliseconds that a clock has to say to mean this microsecond: not every fraction survives the way to and fro. */
function msOf(us: bigint): number {
  const near = Number(us) / 1000
  for (const ms of [near, near + near * Number.EPSILON, near + 2 * near * Number.EPSILON]) {
    if (Math.floor(ms * 1000) === Number(us)) return ms
  }
  throw new Error(`no clock can say ${us} us`)
}

/** A clock that is told microseconds. */
export function clockInUs() {
  const clock = fakeClock()
  return { clock, at: (us: bigint) => clock.set(msOf(us)) }
}

/** A gate with one limit and the clock in hand. */
export function gateAt(rule: Rule, store: MemoryStore = memory()) {
  const { clock, at } = clockInUs()
  return Object.assign(createGate({ limit: limitOf(rule), store, clock }), { at })
}
export type TestGate = ReturnType<typeof gateAt>

/** What a user can see of a decision. */
export function seen({ ok, remaining, retryAfterMs, resetAfterMs, cost }: Decision) {
  return { ok, remaining, retryAfterMs, resetAfterMs, cost }
}

/** What the model says a user must see of a call that it has just judged. */
export function expected(model: model.Model, now: bigint, cost: bigint, ok: boolean): ReturnType<typeof seen> {
  const fit = ok ? now : model.firstFit(now, cost)
  return {
    ok,
    remaining: Number(model.remaining(now)),
    retryAfterMs: fit === undefined ? Number.POSITIVE_INFINITY : upToMs(fit - now),
    resetAfterMs: upToMs(model.fullAt(now) - now),
    cost: Number(cost),
  }
}

export const upToMs = (us: bigint): number => Number(model.ceilDiv(us, 1000n))
