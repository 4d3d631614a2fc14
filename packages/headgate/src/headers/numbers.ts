// How header fields tell numbers.

/** Structured fields carry integers of at most 15 digits. */
const LARGEST = 999_999_999_999_999

export function whole(value: number): number {
  return Math.min(value, LARGEST)
}

export function seconds(ms: number, least = 1): number {
  return Math.min(LARGEST, Math.max(least, Math.ceil(ms / 1000)))
}

let lastEpoch = 0
let lastEpochText = '0'

/** Printing ten digits takes as long as finding a key, and the same second is told to everybody. */
export function epoch(at: number): string {
  if (at !== lastEpoch) {
    lastEpoch = at
    lastEpochText = String(at)
  }
  return lastEpochText
}
