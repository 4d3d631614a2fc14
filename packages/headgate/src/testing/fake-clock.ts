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
  // Whole microseconds, so that many small steps add up.
  let nowUs = Math.round(startMs * 1000)
  let timers: { atUs: number; call: () => void }[] = []

  /** Calls back all that is due by `untilUs`, in order of time and then of asking; callbacks may ask for more. */
  function fire(untilUs: number): void {
    for (;;) {
      const due = timers.reduce<(typeof timers)[number] | undefined>(
        (first, timer) => (timer.atUs <= untilUs && (first === undefined || timer.atUs < first.atUs) ? timer : first),
        undefined,
      )
      if (due === undefined) return
      timers = timers.filter((timer) => timer !== due)
      nowUs = Math.max(nowUs, due.atUs)
      due.call()
    }
  }

  return {
    now: () => nowUs / 1000,
    after(ms, call) {
      const timer = { atUs: nowUs + Math.round(ms * 1000), call }
      timers.push(timer)
      return () => {
        timers = timers.filter((each) => each !== timer)
      }
    },
    advance(ms) {
      const untilUs = nowUs + Math.round(ms * 1000)
      fire(untilUs)
      nowUs = Math.max(nowUs, untilUs)
    },
    set(ms) {
      nowUs = Math.round(ms * 1000)
      fire(nowUs)
    },
  }
}
