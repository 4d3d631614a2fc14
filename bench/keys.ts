// The keys of a scenario: which exist, and which one each decision uses. Made before the clock starts, from a seed, so
// that every variant of a round sees the same sequence.

export interface KeySet {
  readonly size: number
  /** The key with this number: used to fill a store before timing, so that growth is not part of the measurement. */
  key(number: number): string
  /** The key of the i-th decision. */
  next(decision: number): string
}

const SEQUENCE = 2 ** 22 // 16 MB of key numbers: too long for any cache or branch predictor to learn
const STREAM = 2 ** 19
const LENGTH = 24
const HEX = Buffer.from('0123456789abcdef', 'latin1')

export function oneKey(): KeySet {
  const key = keyText(1, LENGTH, 1).toString('latin1')
  return { size: 1, key: () => key, next: () => key }
}

/** The same string objects every time: the engine keeps the hash of a string with it, which flatters every Map. */
export function uniform(size: number, seed: number): KeySet {
  const strings = reused(size, seed)
  const order = sequence(seed, (random) => Math.floor(random() * size))
  return { size, key: (number) => strings[number], next: (i) => strings[order[i & (SEQUENCE - 1)]] }
}

/** A new string per decision, cut out of a stream of bytes, as when a server parses a header. */
export function fresh(size: number, seed: number): KeySet {
  const text = keyText(size, LENGTH, seed)
  const random = mulberry32(seed)
  const stream = Buffer.allocUnsafe(STREAM * LENGTH)
  for (let i = 0; i < STREAM; i++) {
    const start = Math.floor(random() * size) * LENGTH
    text.copy(stream, i * LENGTH, start, start + LENGTH)
  }
  return { size, key: cutter(text, LENGTH), next: cutter(stream, LENGTH, STREAM - 1) }
}

/** Every key once, as a new string: nothing but the limiter can keep it alive. */
export function once(size: number, length: number, seed: number): KeySet {
  const key = cutter(keyText(size, length, seed), length)
  return { size, key, next: key }
}

/** Zipf with exponent 1: the k-th most frequent key comes with probability proportional to 1/k. */
export function zipf(size: number, seed: number): KeySet {
  const strings = reused(size, seed)
  const rank = zipfRanks(size)
  // Frequent keys must not be neighbours in memory: multiplying by a number coprime to the size scatters the ranks.
  const order = sequence(seed, (random) => (rank(random) * 611_953) % size)
  return { size, key: (number) => strings[number], next: (i) => strings[order[i & (SEQUENCE - 1)]] }
}

/** Rejection-inversion (Hörmann and Derflinger 1996) for exponent 1, where the integral of 1/x is the logarithm: exact, and
 *  without a table of 1M sums to search. Draws 0 for the most frequent key. */
function zipfRanks(size: number): (random: () => number) => number {
  const from = Math.log(1.5) - 1
  const to = Math.log(size + 0.5)
  const sure = 2 - Math.exp(Math.log(2.5) - 0.5)
  return (random) => {
    for (let tries = 0; tries < 100; tries++) {
      const area = to + random() * (from - to)
      const x = Math.exp(area)
      const rank = Math.min(size, Math.max(1, Math.round(x)))
      if (rank - x <= sure || area >= Math.log(rank + 0.5) - 1 / rank) return rank - 1
    }
    return 0 // most draws are accepted, so a hundred refusals do not happen
  }
}

function sequence(seed: number, next: (random: () => number) => number): Uint32Array {
  const random = mulberry32(seed)
  const numbers = new Uint32Array(SEQUENCE)
  for (let i = 0; i < SEQUENCE; i++) numbers[i] = next(random)
  return numbers
}

function reused(size: number, seed: number): readonly string[] {
  const cut = cutter(keyText(size, LENGTH, seed), LENGTH)
  return Array.from({ length: size }, (_, number) => cut(number))
}

function cutter(text: Buffer, length: number, mask = 0xffff_ffff): (number: number) => string {
  return (number) => {
    const start = ((number & mask) >>> 0) * length
    return text.toString('latin1', start, start + length)
  }
}

/** Random hexadecimal digits, `length` for each key. The last eight are the key's number, so no two keys are equal. */
function keyText(size: number, length: number, seed: number): Buffer {
  const random = mulberry32(seed)
  const text = Buffer.allocUnsafe(size * length)
  for (let number = 0, offset = 0; number < size; number++) {
    for (let left = length; left > 0; left -= 8) {
      let bits = left === 8 ? number : random() * 2 ** 32
      for (let digit = 0; digit < 8; digit++, bits /= 16) text[offset++] = HEX[bits & 15]
    }
  }
  return text
}

/** A small seeded generator; Math.random cannot be seeded. */
function mulberry32(seed: number): () => number {
  let state = seed * 0x9e3779b1
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
