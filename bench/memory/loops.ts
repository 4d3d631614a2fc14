// The timed loops. Each child process runs one variant with one key set, so every call below sees one shape and is inlined.
import type { KeySet } from '../keys.ts'
import type { AsyncRival, Rival, SyncRival } from '../rivals/rival.ts'
import { turn } from '../worker.ts'

// A server turns its event loop every few requests. A loop that never turned would starve the rivals' timers and would hand
// a limiter that reads its clock once per turn a free clock. At 512 a turn costs about 4 ns a decision; the noop variant shows it.
const DECISIONS_PER_TURN = 512
const SAMPLE_EVERY = 17 // a prime, so that it keeps no step with anything a limiter does every 8th or 16th time
const SAMPLES_PER_TURN = 32

export interface Spent {
  readonly decisions: number
  readonly allowed: number
  readonly ms: number
}

/** Spends until the time or the number of decisions is used up. The number keeps a fast machine below the limit. */
export async function spend(rival: Rival, keys: KeySet, budget: { ms: number; decisions: number }): Promise<Spent> {
  const start = performance.now()
  let decisions = 0
  let allowed = 0
  let ms = 0
  while (ms < budget.ms && decisions < budget.decisions) {
    const to = decisions + DECISIONS_PER_TURN
    allowed +=
      rival.kind === 'sync' ? spendSync(rival, keys, decisions, to) : await spendAsync(rival, keys, decisions, to)
    decisions = to
    await turn()
    ms = performance.now() - start
  }
  return { decisions, allowed, ms }
}

function spendSync(rival: SyncRival, keys: KeySet, from: number, to: number): number {
  let allowed = 0
  for (let i = from; i < to; i++) if (rival.take(keys.next(i))) allowed++
  return allowed
}

async function spendAsync(rival: AsyncRival, keys: KeySet, from: number, to: number): Promise<number> {
  let allowed = 0
  for (let i = from; i < to; i++) {
    try {
      if (rival.read(await rival.take(keys.next(i)))) allowed++
    } catch (answer) {
      if (answer instanceof Error) throw answer
      if (rival.read(answer)) allowed++
    }
  }
  return allowed
}

/** Touches every key once. */
export async function fill(rival: Rival, keys: KeySet): Promise<void> {
  for (let number = 0; number < keys.size; number++) {
    if (rival.kind === 'sync') rival.take(keys.key(number))
    else await rival.take(keys.key(number))
    if (number % DECISIONS_PER_TURN === 0) await turn()
  }
}

/** How long single decisions take, in nanoseconds and sorted. Only every 17th is timed, so that the clock reads do not
 *  keep the caches warm for the decisions between them; the key is fetched before the clock starts. */
export async function sample(rival: Rival, keys: KeySet, samples: number): Promise<Float64Array> {
  const samplesNs = new Float64Array(samples)
  for (let n = 0; n < samples; n++) {
    const first = n * SAMPLE_EVERY
    const last = first + SAMPLE_EVERY - 1
    if (rival.kind === 'sync') {
      spendSync(rival, keys, first, last)
      samplesNs[n] = timeSync(rival, keys.next(last))
    } else {
      await spendAsync(rival, keys, first, last)
      const key = keys.next(last)
      const start = performance.now()
      rival.read(await rival.take(key))
      samplesNs[n] = (performance.now() - start) * 1e6
    }
    if (n % SAMPLES_PER_TURN === 0) await turn()
  }
  return samplesNs.sort()
}

function timeSync(rival: SyncRival, key: string): number {
  const start = performance.now()
  rival.take(key)
  return (performance.now() - start) * 1e6
}
