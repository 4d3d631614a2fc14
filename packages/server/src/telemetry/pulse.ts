import type { Clock } from 'headgate'

/** Calls once a second until told to stop. It keeps no process alive. */
export function everySecond(clock: Clock | undefined, call: () => void): () => void {
  if (clock?.after === undefined) {
    const timer = setInterval(call, 1_000).unref()
    return () => clearInterval(timer)
  }
  let cancel = () => {}
  const arm = () => {
    cancel = clock.after?.(1_000, beat) ?? cancel
  }
  const beat = () => {
    arm()
    call()
  }
  arm()
  return () => cancel()
}
