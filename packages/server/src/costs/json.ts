import { isUtf8 } from 'node:buffer'
import type { Step } from '../config/cost-words.ts'
import { BodyFault } from './fault.ts'

/** Deeper than any body of use, and what lies deeper may break whoever reads it next. */
const DEEPEST = 100

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a]
const [OPEN_MAP, CLOSE_MAP, OPEN_LIST, CLOSE_LIST] = [0x7b, 0x7d, 0x5b, 0x5d]
const [TRUE, FALSE, NULL] = ['true', 'false', 'null'].map((word) => Buffer.from(word)) as [Buffer, Buffer, Buffer]
/** No value on the way to what is counted. */
const OFF = -1

/**
 * Counts what stands at a path, of an array its elements. Nothing is made of what is read, so a body costs no more memory than it has
 * bytes. A name on the path that stands twice in a map is refused: which one counts is not the same everywhere. Neither is whether
 * small letters matter, so they do not.
 */
export function countItems(body: Uint8Array, path: readonly Step[]): number {
  const reader = new Reader(body, path, false)
  reader.whole(0)
  return reader.count
}

/** A body as a value, if it means the same to everybody: no map in it has a name twice. */
export function parseJson(body: Uint8Array): unknown {
  new Reader(body, [], true).whole(OFF)
  return JSON.parse(new TextDecoder().decode(body))
}

/** A map with some of its names as they are written here, whatever letters they came in: some readers make no difference. */
export function withNames(value: unknown, known: ReadonlyMap<string, string>): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const named = new Map<string, unknown>()
  for (const [each, inner] of Object.entries(value)) {
    const name = known.get(folded(each)) ?? each
    if (named.has(name)) throw twice(each)
    named.set(name, inner)
  }
  return Object.fromEntries(named)
}

/** For `withNames`. */
export function namesOf(names: readonly string[]): ReadonlyMap<string, string> {
  return new Map(names.map((name) => [folded(name), name]))
}

/** The same for names that differ by small letters only. Up and down again, for there are letters that share their capital. */
export function folded(name: string): string {
  return name.toUpperCase().toLowerCase()
}

/** Walks over JSON as RFC 8259 has it, and nothing else. */
class Reader {
  count = 0
  readonly #bytes: Uint8Array
  readonly #path: readonly Step[]
  readonly #unique: boolean
  #at = 0

  constructor(bytes: Uint8Array, path: readonly Step[], unique: boolean) {
    this.#bytes = bytes
    this.#path = path
    this.#unique = unique
  }

  whole(step: number): void {
    if (!isUtf8(this.#bytes)) throw broken('it is not UTF-8')
    if (isMarked(this.#bytes)) this.#at = 3
    this.#blanks()
    this.#value(step, 0)
    this.#blanks()
    if (this.#at < this.#bytes.length) throw this.#unexpected()
  }

  /** @param step how many steps of the path led here; all of them: this is what is counted */
  #value(step: number, depth: number): void {
    if (depth > DEEPEST) throw new BodyFault('body_invalid', `The body is nested more than ${DEEPEST} deep.`)
    const byte = this.#bytes[this.#at]
    if (byte === OPEN_LIST) this.#list(step, depth)
    else this.#single(byte, this.#past(step), depth)
  }

  /** What is no array is taken for an array of itself: many APIs take one or several. */
  #past(step: number): number {
    while (step !== OFF && this.#path[step] === 'each') step++
    return step
  }

  #single(byte: number | undefined, step: number, depth: number): void {
    if (step === this.#path.length && byte !== NULL[0]) this.count++
    if (byte === OPEN_MAP) this.#map(step, depth)
    else if (byte === QUOTE) this.#text()
    else if (byte === TRUE[0]) this.#word(TRUE)
    else if (byte === FALSE[0]) this.#word(FALSE)
    else if (byte === NULL[0]) this.#word(NULL)
    else this.#number()
  }

  #list(step: number, depth: number): void {
    const inner = step !== OFF && this.#path[step] === 'each' ? step + 1 : OFF
    const isCounted = step === this.#path.length
    this.#at++
    this.#blanks()
    if (this.#bytes[this.#at] === CLOSE_LIST) {
      this.#at++
      return
    }
    for (;;) {
      if (isCounted) this.count++
      this.#value(inner, depth + 1)
      if (this.#isLast(CLOSE_LIST)) return
    }
  }

  #map(step: number, depth: number): void {
    const wanted = step === OFF ? undefined : this.#path[step]
    const name = wanted === undefined || wanted === 'each' ? undefined : folded(wanted.name)
    const names = this.#unique || name !== undefined ? new Set<string>() : undefined
    this.#at++
    this.#blanks()
    if (this.#bytes[this.#at] === CLOSE_MAP) {
      this.#at++
      return
    }
    for (;;) {
      const isWanted = this.#name(name, names)
      this.#expect(COLON)
      this.#blanks()
      this.#value(isWanted ? step + 1 : OFF, depth + 1)
      if (this.#isLast(CLOSE_MAP)) return
    }
  }

  /** Reads a name. Whether it is the one that is looked for. */
  #name(wanted: string | undefined, names: Set<string> | undefined): boolean {
    const start = this.#at
    if (this.#bytes[start] !== QUOTE) throw this.#unexpected()
    const isPlain = this.#text()
    if (names === undefined) return false
    const raw = Buffer.from(this.#bytes.buffer, this.#bytes.byteOffset + start, this.#at - start)
    const given = isPlain ? raw.toString('utf8', 1, raw.length - 1) : (JSON.parse(raw.toString()) as string)
    const name = this.#unique ? given : folded(given)
    if (!this.#unique && name !== wanted) return false
    if (names.has(name)) throw twice(given)
    names.add(name)
    return name === wanted
  }

  /** Whether this is the end of a list or map, and not a comma. */
  #isLast(close: number): boolean {
    this.#blanks()
    if (this.#bytes[this.#at] === close) {
      this.#at++
      return true
    }
    this.#expect(COMMA)
    this.#blanks()
    return false
  }

  #expect(byte: number): void {
    this.#blanks()
    if (this.#bytes[this.#at] !== byte) throw this.#unexpected()
    this.#at++
  }

  #blanks(): void {
    for (;;) {
      const byte = this.#bytes[this.#at]
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return
      this.#at++
    }
  }

  /** Whether it has no escapes. */
  #text(): boolean {
    let isPlain = true
    for (this.#at++; ; this.#at++) {
      const byte = this.#bytes[this.#at]
      if (byte === QUOTE) break
      if (byte === undefined || byte < 0x20) throw this.#unexpected()
      if (byte !== BACKSLASH) continue
      isPlain = false
      this.#escape()
    }
    this.#at++
    return isPlain
  }

  #escape(): void {
    const byte = this.#bytes[++this.#at]
    if (byte === undefined || !'"\\/bfnrtu'.includes(String.fromCharCode(byte))) throw this.#unexpected()
    if (byte !== 0x75) return
    for (let i = 0; i < 4; i++) if (!isHex(this.#bytes[++this.#at])) throw this.#unexpected()
  }

  #word(word: Buffer): void {
    for (const byte of word) {
      if (this.#bytes[this.#at] !== byte) throw this.#unexpected()
      this.#at++
    }
  }

  #number(): void {
    if (this.#bytes[this.#at] === 0x2d) this.#at++
    if (this.#bytes[this.#at] === 0x30) this.#at++
    else this.#digits()
    if (this.#bytes[this.#at] === 0x2e) {
      this.#at++
      this.#digits()
    }
    const byte = this.#bytes[this.#at]
    if (byte !== 0x65 && byte !== 0x45) return
    const sign = this.#bytes[++this.#at]
    if (sign === 0x2b || sign === 0x2d) this.#at++
    this.#digits()
  }

  #digits(): void {
    if (!isDigit(this.#bytes[this.#at])) throw this.#unexpected()
    while (isDigit(this.#bytes[this.#at])) this.#at++
  }

  #unexpected(): BodyFault {
    return broken(this.#at >= this.#bytes.length ? 'it ends too soon' : `see its byte ${this.#at}`)
  }
}

function broken(why: string): BodyFault {
  return new BodyFault('body_invalid', `The body is no JSON: ${why}.`)
}

function twice(name: string): BodyFault {
  return new BodyFault('body_invalid', `The body has ${JSON.stringify(name.slice(0, 60))} twice in one object.`)
}

/** A byte order mark, which some libraries write and most read over. */
function isMarked([first, second, third]: Uint8Array): boolean {
  return first === 0xef && second === 0xbb && third === 0xbf
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39
}

function isHex(byte: number | undefined): boolean {
  if (byte === undefined) return false
  return isDigit(byte) || (byte >= 0x41 && byte <= 0x46) || (byte >= 0x61 && byte <= 0x66)
}
