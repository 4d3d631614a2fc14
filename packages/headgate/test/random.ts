declare const process: { readonly env: Record<string, string | undefined>; readonly ppid: number }

/** The same in all files of one run, another in the next, so that every run tries something new. */
const perRun = (process.ppid * 7919 + Math.floor(Date.now() / 3_600_000)) % 1_000_000

/** Where random tests begin. Each tells it, so that what failed can be had again; and what is checked before a change lands must
 *  not depend on luck. */
export const seed = Number(process.env.HEADGATE_SEED ?? (process.env.CI ? 1 : perRun))

/** Numbers from 0 up to, but not, 1: the same for the same start. */
export function randomBy(start: number): () => number {
  let state = start
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Whole numbers from 0 up to, but not, `below`. */
export function randomBelow(start: number): (below: number) => number {
  const random = randomBy(start)
  return (below) => Math.floor(random() * below)
}
