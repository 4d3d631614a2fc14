const primes = firstPrimes(64)
/** The first 32 bits after the point of the roots of the first primes: doubles have enough of them. */
const START = Int32Array.from(primes.slice(0, 8), (prime) => fraction(Math.sqrt(prime)))
const ROUNDS = Int32Array.from(primes, (prime) => fraction(Math.cbrt(prime)))
const BLOCK = 64

/**
 * SHA-256 of bytes that come piece by piece. `crypto.subtle` would want them all at once, in memory, and would answer later,
 * when the response is over; here a body is hashed while it passes.
 */
export class Sha256 {
  readonly #state = START.slice()
  readonly #block = new Uint8Array(BLOCK)
  readonly #view = new DataView(this.#block.buffer)
  readonly #words = new Int32Array(BLOCK)
  #filled = 0
  #length = 0

  update(data: Uint8Array | string): this {
    const bytes = typeof data === 'string' ? encoder.encode(data) : data
    this.#length += bytes.length
    let at = 0
    while (at < bytes.length) {
      const part = bytes.subarray(at, at + BLOCK - this.#filled)
      this.#block.set(part, this.#filled)
      this.#filled += part.length
      at += part.length
      if (this.#filled === BLOCK) this.#mix()
    }
    return this
  }

  /** In hexadecimal. Nothing can be added after it. */
  digest(): string {
    const bits = this.#length * 8
    this.update(new Uint8Array([0x80]))
    while (this.#filled !== BLOCK - 8) this.update(new Uint8Array((2 * BLOCK - 8 - this.#filled) % BLOCK))
    const length = new DataView(new ArrayBuffer(8))
    length.setUint32(0, Math.floor(bits / 2 ** 32))
    length.setUint32(4, bits >>> 0)
    this.update(new Uint8Array(length.buffer))
    return [...this.#state].map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('')
  }

  #mix(): void {
    const words = this.#spread()
    const state = this.#state
    let a = at(state, 0)
    let b = at(state, 1)
    let c = at(state, 2)
    let d = at(state, 3)
    let e = at(state, 4)
    let f = at(state, 5)
    let g = at(state, 6)
    let h = at(state, 7)
    for (let i = 0; i < BLOCK; i++) {
      const chosen = (e & f) ^ (~e & g)
      const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + chosen + at(ROUNDS, i) + at(words, i)) | 0
      const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0
      h = g
      g = f
      f = e
      e = (d + one) | 0
      d = c
      c = b
      b = a
      a = (one + two) | 0
    }
    const mixed = [a, b, c, d, e, f, g, h]
    for (let i = 0; i < 8; i++) state[i] = at(state, i) + (mixed[i] as number)
    this.#filled = 0
  }

  /** The block as 16 words, and 48 more made of them. */
  #spread(): Int32Array {
    const words = this.#words
    for (let i = 0; i < 16; i++) words[i] = this.#view.getInt32(4 * i)
    for (let i = 16; i < BLOCK; i++) {
      const near = at(words, i - 2)
      const far = at(words, i - 15)
      const low = turn(far, 7) ^ turn(far, 18) ^ (far >>> 3)
      const high = turn(near, 17) ^ turn(near, 19) ^ (near >>> 10)
      words[i] = (at(words, i - 16) + low + at(words, i - 7) + high) | 0
    }
    return words
  }
}

/** Of texts, told apart: ('a', 'bc') is not ('ab', 'c'). */
export function hashOf(...parts: readonly string[]): string {
  return new Sha256().update(JSON.stringify(parts)).digest()
}

function at(words: Int32Array, i: number): number {
  return words[i] as number
}

function turn(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits))
}

function fraction(root: number): number {
  return ((root - Math.floor(root)) * 2 ** 32) | 0
}

function firstPrimes(count: number): number[] {
  const found: number[] = []
  for (let n = 2; found.length < count; n++) if (found.every((prime) => n % prime !== 0)) found.push(n)
  return found
}

const encoder = new TextEncoder()
