/** The wire format of Protocol Buffers, as far as a few small messages need it: https://protobuf.dev/programming-guides/encoding/ */

/** Bytes that are no message. */
export class Malformed extends Error {
  override readonly name = 'Malformed'
}

const VARINT = 0
const FIXED64 = 1
const BYTES = 2
const GROUP = 3
const END_GROUP = 4
const FIXED32 = 5

/** Groups inside groups: nobody writes them any more, and a stack has an end. */
const DEEPEST = 100
const TWO_28 = 2 ** 28
/** Of a message with all that is inside of it: a field takes two bytes to send, and far longer to read. */
const MOST_FIELDS = 20_000

/** Reads the fields of a message one after the other. Who does not know a field skips it: versions differ. */
export class Reader {
  readonly #bytes: Buffer
  readonly #end: number
  /** How many fields may still come, here and in all that is around. */
  readonly #rest: { fields: number }
  #at: number
  /** Of the field that `next` has come to. */
  #wire = 0
  #low = 0
  #high = 0

  constructor(bytes: Buffer, at = 0, end = bytes.length, rest = { fields: MOST_FIELDS }) {
    this.#bytes = bytes
    this.#at = at
    this.#end = end
    this.#rest = rest
  }

  /** The number of the next field, 0 at the end. Its value has to be read, or skipped. */
  next(): number {
    if (this.#at >= this.#end) return 0
    if (--this.#rest.fields < 0) throw new Malformed(`it has more than ${MOST_FIELDS} fields`)
    const tag = this.uint32()
    this.#wire = tag & 7
    const field = tag >>> 3
    if (field === 0) throw new Malformed('a field has the number 0')
    return field
  }

  get isVarint(): boolean {
    return this.#wire === VARINT
  }

  get isBytes(): boolean {
    return this.#wire === BYTES
  }

  /** A varint cut to 32 bits, as readers of smaller types have to. */
  uint32(): number {
    this.#varint()
    return (this.#high % 16) * TWO_28 + this.#low
  }

  bool(): boolean {
    return this.uint64() > 0
  }

  /** Beyond 2^53 - 1 it is that: no larger number is exact here. */
  uint64(): number {
    this.#varint()
    return Math.min((this.#high % 2 ** 36) * TWO_28 + this.#low, Number.MAX_SAFE_INTEGER)
  }

  /** What is no UTF-8 is read as far as it is: an error would let a request pass that has such a header. */
  text(): string {
    const end = this.#length()
    const text = this.#bytes.toString('utf8', this.#at, end)
    this.#at = end
    return text
  }

  message(): Reader {
    const end = this.#length()
    const inside = new Reader(this.#bytes, this.#at, end, this.#rest)
    this.#at = end
    return inside
  }

  skip(depth = 0): void {
    if (this.#wire === VARINT) this.uint64()
    else if (this.#wire === FIXED64) this.#pass(8)
    else if (this.#wire === BYTES) this.#at = this.#length()
    else if (this.#wire === FIXED32) this.#pass(4)
    else if (this.#wire === GROUP) this.#skipGroup(depth + 1)
    else throw new Malformed(`there is no wire type ${this.#wire} here`)
  }

  #skipGroup(depth: number): void {
    if (depth > DEEPEST) throw new Malformed('groups are nested too deep')
    for (;;) {
      if (this.next() === 0) throw new Malformed('a group has no end')
      if (this.#wire === END_GROUP) return
      this.skip(depth)
    }
  }

  /** Into its lowest 28 bits and those above. */
  #varint(): void {
    this.#low = this.#high = 0
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = this.#byte()
      if (shift < 28) this.#low += (byte & 127) * 2 ** shift
      else this.#high += (byte & 127) * 2 ** (shift - 28)
      if (byte < 128) return
    }
    throw new Malformed('a number has more than 10 bytes')
  }

  #byte(): number {
    if (this.#at >= this.#end) throw new Malformed('it ends inside a number')
    return this.#bytes[this.#at++] as number
  }

  /** Where what follows ends. */
  #length(): number {
    const end = this.uint64() + this.#at
    if (end > this.#end) throw new Malformed('it ends inside a field')
    return end
  }

  #pass(bytes: number): void {
    this.#at += bytes
    if (this.#at > this.#end) throw new Malformed('it ends inside a field')
  }
}

/** Writes a message from its end to its start, so that the length of what is inside is known when it is due. */
export class Writer {
  #bytes = Buffer.allocUnsafe(1024)
  #at = 1024

  /** How much is written; what comes next stands before it. */
  get length(): number {
    return this.#bytes.length - this.#at
  }

  /** A field that is 0 is left out, as proto3 has it. */
  uint(field: number, value: number): void {
    if (value === 0) return
    this.#varint(value)
    this.#varint(field << 3)
  }

  text(field: number, text: string): void {
    if (text === '') return
    const length = Buffer.byteLength(text)
    this.#room(length)
    this.#at -= length
    this.#bytes.write(text, this.#at, 'utf8')
    this.#prefix(field, length)
  }

  /** Whatever `write` writes is inside of it. */
  message(field: number, write: () => void): void {
    const before = this.length
    write()
    this.#prefix(field, this.length - before)
  }

  /** A copy, with `before` bytes that are left for the caller in front of it. Then it starts anew. */
  take(before = 0): Buffer {
    const copy = Buffer.allocUnsafe(before + this.length)
    this.#bytes.copy(copy, before, this.#at)
    this.#at = this.#bytes.length
    return copy
  }

  #prefix(field: number, length: number): void {
    this.#varint(length)
    this.#varint((field << 3) | BYTES)
  }

  #varint(value: number): void {
    let size = 1
    for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) size++
    this.#room(size)
    this.#at -= size
    let rest = value
    for (let i = 0; i < size - 1; i++) {
      this.#bytes[this.#at + i] = (rest % 128) + 128
      rest = Math.floor(rest / 128)
    }
    this.#bytes[this.#at + size - 1] = rest
  }

  #room(bytes: number): void {
    if (this.#at >= bytes) return
    const { length } = this
    const larger = Buffer.allocUnsafe(2 * (this.#bytes.length + bytes))
    this.#bytes.copy(larger, larger.length - length, this.#at)
    this.#at = larger.length - length
    this.#bytes = larger
  }
}
