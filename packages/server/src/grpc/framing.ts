import { gunzipSync } from 'node:zlib'
import { GrpcError } from './status.ts'

/** Before a message: whether it is packed, and its length. */
export const PREFIX = 5
/** Far more than anybody asks at once. */
export const MOST_BYTES = 2 ** 20
/** Of all messages that are on their way, and of those of one connection. */
export const MOST_HELD = 64 * 2 ** 20
export const MOST_SHARE = MOST_HELD / 8
/** Of a message that has room whatever the others take: hardly more than the stream that it comes on. */
export const SMALL = 16 * 2 ** 10
/** What a piece of a message takes beside its bytes: it may be one byte. */
const PIECE = 256

/** How much is held of messages that are not complete. */
export class Pool {
  readonly #most: number
  readonly #whole: Pool | undefined
  #held = 0

  /** @param whole what this is a share of */
  constructor(most = MOST_HELD, whole?: Pool) {
    this.#most = most
    this.#whole = whole
  }

  add(bytes: number): void {
    this.#held += bytes
    this.#whole?.add(bytes)
  }

  get isFull(): boolean {
    return this.#held > this.#most || this.#whole?.isFull === true
  }
}

/** Collects the one message of a call. */
export class Inbox {
  readonly #pool: Pool
  readonly #mostBytes: number
  #chunks: Buffer[] = []
  #length = 0
  #held = 0

  constructor(pool: Pool, mostBytes = MOST_BYTES) {
    this.#pool = pool
    this.#mostBytes = mostBytes
  }

  add(chunk: Buffer): void {
    const isFirst = this.#length === 0
    this.#length += chunk.length
    this.#hold(chunk.length + PIECE)
    this.#chunks.push(chunk)
    const declared = isFirst && chunk.length >= PREFIX ? chunk.readUInt32BE(1) : 0
    if (Math.max(this.#length - PREFIX, declared) > this.#mostBytes) throw tooLarge(this.#mostBytes)
    if (this.#held > SMALL && this.#pool.isFull)
      throw new GrpcError('RESOURCE_EXHAUSTED', 'too many messages are on their way')
  }

  #hold(bytes: number): void {
    this.#held += bytes
    this.#pool.add(bytes)
  }

  /** What came is no longer held. */
  clear(): void {
    this.#hold(-this.#held)
    this.#length = 0
    this.#chunks = []
  }

  /** The message, once all has come. */
  message(encoding: string | undefined): Buffer {
    const bytes = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks)
    if (bytes.length < PREFIX) throw new GrpcError('INVALID_ARGUMENT', 'there is no message')
    const length = bytes.readUInt32BE(1)
    if (length > this.#mostBytes) throw tooLarge(this.#mostBytes)
    if (length !== bytes.length - PREFIX)
      throw new GrpcError('INVALID_ARGUMENT', `a message of ${length} bytes came with ${bytes.length - PREFIX}`)
    const message = bytes.subarray(PREFIX)
    if (bytes[0] === 0) return message
    if (bytes[0] !== 1) throw new GrpcError('INVALID_ARGUMENT', `a message is packed or not, and this is ${bytes[0]}`)
    return unpacked(message, this.#mostBytes, encoding)
  }
}

function unpacked(message: Buffer, mostBytes: number, encoding = 'identity'): Buffer {
  if (encoding !== 'gzip')
    throw new GrpcError('UNIMPLEMENTED', `messages may be packed by gzip, not by ${encoding.slice(0, 60)}`)
  try {
    return gunzipSync(message, { maxOutputLength: mostBytes })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(mostBytes)
    throw new GrpcError('INVALID_ARGUMENT', 'the message cannot be unpacked')
  }
}

function tooLarge(mostBytes: number): GrpcError {
  return new GrpcError('RESOURCE_EXHAUSTED', `a message has at most ${mostBytes} bytes here`)
}

/** Fills in the prefix that was left free. */
export function framed(message: Buffer): Buffer {
  message[0] = 0
  message.writeUInt32BE(message.length - PREFIX, 1)
  return message
}

const UNITS_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 }

/** How long the caller waits, as `grpc-timeout` says; undefined: it does not, or not so that it can be understood. */
export function timeoutMs(text: string | undefined): number | undefined {
  const [, count, unit = ''] = /^(\d{1,8})([HMSmun])$/.exec(text ?? '') ?? []
  return count === undefined ? undefined : Number(count) * (UNITS_MS[unit] as number)
}
