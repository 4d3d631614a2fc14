/** The hash of the key hashed last: two signed 32-bit halves, as unsigned ones are no small integers to the engine. `low` is
 *  never 0. */
export let low = 1
export let high = 0
/** The key hashed last. */
export let hashed = ''

/** The largest prime below 2^32. */
const PRIME = 4_294_967_291
const INVERSE = 1 / PRIME
/** So many products of a 32-bit number and a 16-bit word sum up below 2^53. */
const BLOCK = 28
/** Random factors, two for each word of a block (one per half of the hash), then for the length and for the block before. */
const factors = new Float64Array(2 * (BLOCK + 4))
const bits = crypto.getRandomValues(new Uint32Array(factors.length))
for (let i = 0; i < factors.length; i++) factors[i] = (bits[i] as number) % PRIME
const [LENGTH, CARRY] = [2 * BLOCK, 2 * BLOCK + 4]

/**
 * Sums the words of a key, each times a random factor of this process, modulo a prime; twice, with other factors. For any two
 * keys, whoever chose them, the chance over the factors that both halves meet is 1 in 2^64 (per 56 characters), and the hash
 * is never shown: nobody can look for keys that share a counter. By accident that happens to some pair of a million keys with
 * a chance of 3 in 10^8. Characters are packed two to a word; a key with one above 0xff is hashed anew with one each.
 */
export function hash(key: string): void {
  hashed = key
  const length = key.length
  const pairs = length & ~1
  let a = (length & 0x7fff) * (factors[LENGTH] as number)
  let b = (length & 0x7fff) * (factors[LENGTH + 1] as number)
  let wide = 0
  let at = 0
  let i = 0
  for (; i < pairs; i += 2) {
    const first = key.charCodeAt(i)
    const second = key.charCodeAt(i + 1)
    wide |= first | second
    const word = first | (second << 8)
    a += word * (factors[at] as number)
    b += word * (factors[at + 1] as number)
    at += 2
    if (at === 2 * BLOCK) {
      a = carry(a, 0)
      b = carry(b, 1)
      at = 0
    }
  }
  if (i < length) {
    const word = key.charCodeAt(i)
    wide |= word
    a += word * (factors[at] as number)
    b += word * (factors[at + 1] as number)
  }
  if (wide > 0xff) hashWide(key)
  else finish(a, b)
}

function hashWide(key: string): void {
  const mark = (key.length & 0x7fff) | 0x8000
  let a = mark * (factors[LENGTH] as number)
  let b = mark * (factors[LENGTH + 1] as number)
  let at = 0
  for (let i = 0; i < key.length; i++) {
    const word = key.charCodeAt(i)
    a += word * (factors[at] as number)
    b += word * (factors[at + 1] as number)
    at += 2
    if (at === 2 * BLOCK) {
      a = carry(a, 0)
      b = carry(b, 1)
      at = 0
    }
  }
  finish(a, b)
}

/** Makes a full sum the first two words of the next block. */
function carry(sum: number, half: number): number {
  const rest = reduce(sum)
  return (rest >>> 16) * (factors[CARRY + half] as number) + (rest & 0xffff) * (factors[CARRY + 2 + half] as number)
}

function finish(a: number, b: number): void {
  low = mix(reduce(a)) || 1
  high = mix(reduce(b))
}

/** Modulo the prime. Multiplying by 1 / prime is quicker than dividing, and off by one at most. */
function reduce(sum: number): number {
  const rest = sum - Math.floor(sum * INVERSE) * PRIME
  return (rest < 0 ? rest + PRIME : rest >= PRIME ? rest - PRIME : rest) | 0
}

/** Tables use a few bits of each half; neighbouring sums shall not fill neighbouring slots. */
function mix(half: number): number {
  half = Math.imul(half ^ (half >>> 16), 0x7feb352d)
  half = Math.imul(half ^ (half >>> 15), 0x846ca68b)
  return half ^ (half >>> 16)
}
