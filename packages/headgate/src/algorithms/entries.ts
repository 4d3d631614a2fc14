/**
 * A list inside a Float64Array, oldest first, for policies whose state grows: a header of five numbers, then entries of `width`
 * numbers. The first number of an entry never falls from entry to entry, so it can be searched for.
 */
export const TOTAL = 0
export const HEAD = 1
export const SIZE = 2
export const EXTRA = 3
export const LATEST = 4
const FIRST = 5
const SMALLEST = 4

export function entryAt(state: Float64Array, width: number, index: number): number {
  return FIRST + width * ((state[HEAD] as number) + index)
}

/** The same state, or a larger copy, with room for one more entry. */
export function roomForOne(state: Float64Array | undefined, width: number): Float64Array {
  if (state === undefined) return new Float64Array(FIRST + width * SMALLEST)
  const size = state[SIZE] as number
  if (entryAt(state, width, size + 1) <= state.length) return state
  // Often enough room was left by entries dropped at the head; growing by half keeps the copying cheap on average.
  const next = new Float64Array(FIRST + width * Math.max(SMALLEST, Math.ceil(size * 1.5) + 1))
  next.set(state.subarray(entryAt(state, width, 0), entryAt(state, width, size)), FIRST)
  next[TOTAL] = state[TOTAL] as number
  next[SIZE] = size
  next[EXTRA] = state[EXTRA] as number
  next[LATEST] = state[LATEST] as number
  return next
}

/** Makes an entry at the end and returns where it is; the caller fills it in. */
export function push(state: Float64Array, width: number): number {
  return insertAt(state, width, state[SIZE] as number)
}

/** Makes an entry before the one at `index` and returns where it is; the caller fills it in. */
export function insertAt(state: Float64Array, width: number, index: number): number {
  const size = state[SIZE] as number
  const at = entryAt(state, width, index)
  if (index < size) state.copyWithin(at + width, at, entryAt(state, width, size))
  state[SIZE] = size + 1
  return at
}

export function removeAt(state: Float64Array, width: number, index: number): void {
  const size = state[SIZE] as number
  if (index === 0) state[HEAD] = size === 1 ? 0 : (state[HEAD] as number) + 1
  else state.copyWithin(entryAt(state, width, index), entryAt(state, width, index + 1), entryAt(state, width, size))
  state[SIZE] = size - 1
}

/** Index of the entry whose first number is `value`, or -1. */
export function find(state: Float64Array, width: number, value: number): number {
  let [low, high] = [0, (state[SIZE] as number) - 1]
  while (low <= high) {
    const middle = (low + high) >> 1
    const found = state[entryAt(state, width, middle)] as number
    if (found === value) return middle
    if (found < value) low = middle + 1
    else high = middle - 1
  }
  return -1
}
