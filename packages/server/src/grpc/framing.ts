import { gunzipSync } from 'node:zlib'
import { GrpcError } from './status.ts'

/** Before a message: whether it is packed, and its length. */
export const PREFIX = 5
/** Far more than anybody asks at once. */
export const MOST_BYTES = 2 ** 20
/** Of all messages that are on their way. */
export const MOST_HELD = 64 * 2 ** 20

/** How much is held of messages that are not complete. */
export interface Pool {
  held: number
}

/** Collects the one message of a call. */
export class Inbox {
  readonly #pool: Pool
  #chunks: Buffer[] = []
  #length = 0

  constructor(pool: Pool) {
    this.#pool = pool
  }

  add(chunk: Buffer): void {
    this.#length += chunk.length
    this.#pool.held += chunk.length
    if (this.#length > MOST_BYTES + PREFIX) throw tooLarge()
    if (this.#pool.held > MOST_HELD) throw new GrpcError('RESOURCE_EXHAUSTED', 'too many messages are on their way')
    this.#chunks.push(chunk)
  }

  /** What came is no longer held. */
  clear(): void {
    this.#pool.held -= this.#length
    this.#length = 0
    this.#chunks = []
  }

  /** The message, once all has come. */
  message(encoding: string | undefined): Buffer {
    const bytes = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks)
    if (bytes.length < PREFIX) throw new GrpcError('INVALID_ARGUMENT', 'there is no message')
    const length = bytes.readUInt32BE(1)
    if (length > MOST_BYTES) throw tooLarge()
    if (length !== bytes.length - PREFIX)
      throw new GrpcError('INVALID_ARGUMENT', `a message of ${length} bytes came with ${bytes.length - PREFIX}`)
    const message = bytes.subarray(PREFIX)
    if (bytes[0] === 0) return message
    if (bytes[0] !== 1) throw new GrpcError('INVALID_ARGUMENT', `a message is packed or not, and this is ${bytes[0]}`)
    return unpacked(message, encoding)
  }
}

function unpacked(message: Buffer, encoding = 'identity'): Buffer {
  if (encoding !== 'gzip')
    throw new GrpcError('UNIMPLEMENTED', `messages may be packed by gzip, not by ${encoding.slice(0, 60)}`)
  try {
    return gunzipSync(message, { maxOutputLength: MOST_BYTES })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge()
    throw new GrpcError('INVALID_ARGUMENT', 'the message cannot be unpacked')
  }
}

function tooLarge(): GrpcError {
  return new GrpcError('RESOURCE_EXHAUSTED', `a message has at most ${MOST_BYTES} bytes`)
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
