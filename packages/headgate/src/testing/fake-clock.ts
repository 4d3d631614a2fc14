import type { Clock } from '../clock.ts'

export interface FakeClock extends Clock {
  after(ms: number, call: () => void): () => void
  /** Moves on by `ms`, calling back what falls due on the way, each at its own time. */
  advance(ms: number): void
  /** Jumps to an instant, also backwards, without passing through the time between: what is due by then is called back there. */
  set(ms: number): void
}

/** A clock for tests: time stands still until told otherwise. */
export function fakeClock(startMs = 0): FakeClock {
  let nowMs = startMs
  let timers: { atMs: number; call: () => void }[] = []

  /** Calls back all that is due by `untilMs`, in order of time and then of asking; callbacks may ask for more. */
  function fire(untilMs: number): void {
    for (;;) {
      const due = timers.reduce<(typeof timers)[number] | undefined>(
        (first, timer) => (timer.atMs <= untilMs && (first === undefined || timer.atMs < first.atMs) ? timer : first),
        undefined,
      )
      if (due === undefined) return
      timers = timers.filter((timer) => timer !== due)
      nowMs = Math.max(nowMs, due.atMs)
      due.call()
    }
  }

  return {
    now: () => nowMs,
    after(ms, call) {
      const timer = { atMs: nowMs + ms, call }
      timers.push(timer)
      return () => {
        timers = timers.filter((each) => each !== timer)
      }
    },
    advance(ms) {
      const untilMs = nowMs + ms
      fire(untilMs)
      nowMs = Math.max(nowMs, untilMs)
    },
    set(ms) {
      nowMs = ms
      fire(ms)
    },
  }
}
