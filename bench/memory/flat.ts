// Does a decision cost the same however often its key was hit? A log that is searched from its start, or a window that is
// never trimmed, shows up here and nowhere else.
import { createGate } from 'headgate'
import { fakeClock } from 'headgate/testing'
import type { Figures, Job } from '../harness.ts'
import { keep } from '../rivals/rival.ts'
import { algorithms, checkpoints } from './checkpoints.ts'

// 40 hits a millisecond against 50 allowed: a log holds 800 hits from the first checkpoint on, old ones leave as new ones
// come, and no hit is denied. The clock is ours, so this mix is the same at any speed.
const LIMIT = '1000/20ms'
const HITS_PER_MS = 40
const TIMED_HITS = 4_000
const KEYS = 5

export function flat({ variant }: Job): Figures {
  const algorithm = algorithms.find((name) => name === variant)
  if (algorithm === undefined) throw new Error(`no algorithm ${variant}: one of ${algorithms.join(', ')}`)
  const clock = fakeClock(1_700_000_000_000)
  const gate = createGate({ limit: LIMIT, algorithm, clock })
  function hit(key: string, times: number): void {
    for (let i = 0; i < times; i++) {
      if (i % HITS_PER_MS === 0) clock.advance(1)
      const decision = gate.take(key)
      keep(decision.remaining, decision.retryAfterMs)
      if (!decision.ok) throw new Error(`${variant} denied a hit below its rate`)
    }
  }
  hit('warm-up', 200_000)
  const ns = checkpoints.map(() => [] as number[])
  for (let n = 0; n < KEYS; n++) hitAndTime(`key-${n}`, hit, ns)
  // The least disturbed of the keys: a cost that grows would grow for all of them.
  return Object.fromEntries(checkpoints.map((hits, i) => [String(hits), Math.min(...ns[i])]))
}

function hitAndTime(key: string, hit: (key: string, times: number) => void, ns: number[][]): void {
  let hits = 0
  for (const [i, checkpoint] of checkpoints.entries()) {
    hit(key, checkpoint - hits)
    const start = performance.now()
    hit(key, TIMED_HITS)
    ns[i].push(((performance.now() - start) * 1e6) / TIMED_HITS)
    hits = checkpoint + TIMED_HITS
  }
}
