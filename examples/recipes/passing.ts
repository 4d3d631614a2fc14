import type { FakeClock } from 'headgate/testing'

/** Lets time pass, a step at a time, until the work is done. */
export async function passing<T>(clock: FakeClock, work: Promise<T>, stepMs = 100): Promise<T> {
  let done = false
  const over = work.finally(() => {
    done = true
  })
  while (!done) {
    await new Promise((resolve) => setImmediate(resolve)) // what has come in is worked on first
    clock.advance(done ? 0 : stepMs)
  }
  return over
}
