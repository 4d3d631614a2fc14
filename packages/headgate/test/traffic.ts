import { setImmediate as turn } from 'node:timers/promises'
import type { StoreHealth } from '../src/index.ts'
import { stopwatch } from './stalls.ts'

/**
 * Left to themselves, clients answer after seconds or never. A gate answers after `timeoutMs`; the rest of this is for machines
 * that do much else at the time.
 */
const LATEST_MS = 1_000

/** What came of it, if that came in time. */
export async function inTime<T>(answer: Promise<T>): Promise<T> {
  const elapsedMs = stopwatch()
  const result = await answer
  const ms = Math.round(elapsedMs())
  if (ms > LATEST_MS) throw new Error(`the answer took ${ms} ms`)
  return result
}

export interface Verdict {
  readonly ok: boolean
  readonly degraded: false | string
}

/** What many callers were told. */
export interface Tally {
  admitted: number
  refused: number
  /** Of these, by the store. */
  central: number
  centralRefused: number
  degraded: number
}

/** Callers who each ask again as soon as they are answered, each time in time, until told to stop. */
export function keepAsking(
  ask: () => Promise<Verdict>,
  { callers = 64 } = {},
): { readonly tally: Tally; stop(): Promise<Tally> } {
  const tally: Tally = { admitted: 0, refused: 0, central: 0, centralRefused: 0, degraded: 0 }
  let stopped = false
  async function caller(): Promise<void> {
    while (!stopped) {
      const { ok, degraded } = await inTime(ask())
      if (ok) tally.admitted++
      else tally.refused++
      if (degraded !== false) tally.degraded++
      else if (ok) tally.central++
      else tally.centralRefused++
      await turn() // what is answered without the store leaves no room for anything else
    }
  }
  const all = Promise.all(Array.from({ length: callers }, caller))
  all.catch(() => {}) // told by `stop`
  return {
    tally,
    async stop() {
      stopped = true
      await all
      return tally
    },
  }
}

/** Listens for changes of a store, and tells the states. */
export function changes(): { readonly states: string[]; readonly listen: (health: StoreHealth) => void } {
  const states: string[] = []
  return { states, listen: ({ state }) => void states.push(state) }
}
