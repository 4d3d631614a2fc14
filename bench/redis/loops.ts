// The timed loops of the Redis benchmark. Every answer is awaited; what differs is how many are on their way at once.
import type { KeySet } from '../keys.ts'
import type { AsyncRival } from '../rivals/rival.ts'
import { turn } from '../worker.ts'

// An answer from memory comes without a turn of the event loop; a server would take one to read the next request.
const DECISIONS_PER_TURN = 512
const SAMPLE_EVERY = 17 // a prime, so that it keeps no step with anything a limiter does every 8th or 16th time
const BLOCK = 50

export interface Spent {
  readonly asked: number
  readonly denied: number
  readonly ms: number
}

/** As many loops as decisions may be in flight; each waits for its answer before it asks again. */
export async function spend(
  rival: AsyncRival,
  keys: KeySet,
  { inFlight, ms }: { inFlight: number; ms: number },
): Promise<Spent> {
  const start = performance.now()
  let asked = 0
  let denied = 0
  async function loop(): Promise<void> {
    while (performance.now() - start < ms) if (!rival.read(await rival.take(keys.next(asked++)))) denied++
  }
  await Promise.all(Array.from({ length: inFlight }, loop))
  return { asked, denied, ms: performance.now() - start }
}

/** Touches every key once, so that making keys is not part of the measurement. */
export async function fill(rival: AsyncRival, keys: KeySet): Promise<void> {
  let number = 0
  async function loop(): Promise<void> {
    while (number < keys.size) await rival.take(keys.key(number++))
  }
  await Promise.all(Array.from({ length: 64 }, loop))
}

/** One at a time, in turns on the same connection, so that what disturbs one disturbs the other. Microseconds, sorted. */
export async function inTurns(
  rivals: readonly AsyncRival[],
  keys: KeySet,
  ms: number,
): Promise<readonly Float64Array[]> {
  const samplesUs = rivals.map((): number[] => [])
  const start = performance.now()
  for (let i = 0; performance.now() - start < ms; ) {
    for (const [n, rival] of rivals.entries()) {
      for (let left = BLOCK; left > 0; left--) samplesUs[n].push(await timed(rival, keys.next(i++)))
    }
  }
  return samplesUs.map((us) => Float64Array.from(us).sort())
}

async function timed(rival: AsyncRival, key: string): Promise<number> {
  const start = performance.now()
  rival.read(await rival.take(key))
  return (performance.now() - start) * 1000
}

export interface Abuse {
  readonly decisions: number
  readonly allowed: number
  readonly ms: number
  /** How long denials took, sorted. */
  readonly denialsUs: Float64Array
}

/** Somebody who does not care for denials, on one key, with so many requests at once. */
export async function abuse(
  rival: AsyncRival,
  key: string,
  { atOnce, ms }: { atOnce: number; ms: number },
): Promise<Abuse> {
  const start = performance.now()
  const denialsUs: number[] = []
  let decisions = 0
  let allowed = 0
  async function decide(): Promise<void> {
    const sampled = decisions++ % SAMPLE_EVERY === 0
    const before = sampled ? performance.now() : 0
    let ok: boolean
    try {
      ok = rival.read(await rival.take(key))
    } catch (answer) {
      if (answer instanceof Error) throw answer
      ok = rival.read(answer)
    }
    if (ok) allowed++
    else if (sampled) denialsUs.push((performance.now() - before) * 1000)
  }
  async function loop(): Promise<void> {
    while (performance.now() - start < ms) {
      for (let left = DECISIONS_PER_TURN / atOnce; left > 0; left--) await decide()
      await turn()
    }
  }
  await Promise.all(Array.from({ length: atOnce }, loop))
  return { decisions, allowed, ms: performance.now() - start, denialsUs: Float64Array.from(denialsUs).sort() }
}
