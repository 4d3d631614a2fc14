/** Where random tests begin; another run tries something else, unless it is told where to begin. */
export const seed = Number(process.env.HEADGATE_SEED ?? (process.env.CI ? 1 : Math.floor(Date.now() / 1000)))

/** The same numbers for the same seed: a run that fails can be had again. */
export function randomBy(start: number): () => number {
  let state = start
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
