import { type Clock, type Ticks, ticksOf } from '../clock.ts'
import { HeadgateError, rejectUnknown, show } from '../errors.ts'
import { Expiring } from '../expiring.ts'
import type { Begun, Replies } from './replies.ts'
import type { Reply } from './reply.ts'

export interface MemoryRepliesOptions {
  /** How much memory replies may take; 16 MiB unless said otherwise. The oldest are forgotten first. */
  readonly maxBytes?: number
  readonly clock?: Clock
}

/** Keeps replies in this process. Answers at once and has no timers. */
export function memoryReplies(options: MemoryRepliesOptions = {}): MemoryReplies {
  return new MemoryReplies(options)
}

interface Running {
  readonly token: string
  readonly untilUs: number
}

interface Kept {
  readonly reply: Reply
  readonly bytes: number
  readonly untilUs: number
}

/** A name with what surrounds it in a map. */
const ENTRY_BYTES = 400
const SMALLEST_BYTES = 16_384

export class MemoryReplies implements Replies {
  readonly #maxBytes: number
  readonly #ticks: Ticks
  /** Apart from the replies, so that no flood of these can push one out: there are as many as requests in flight. */
  readonly #running = new Expiring<Running>()
  readonly #kept = new Expiring<Kept>(({ bytes }) => {
    this.#bytes -= bytes
  })
  #bytes = 0

  constructor(options: MemoryRepliesOptions) {
    rejectUnknown(options, ['maxBytes', 'clock'], 'memoryReplies()')
    const { maxBytes = 16 * 2 ** 20, clock } = options
    if (!(Number.isFinite(maxBytes) && maxBytes >= SMALLEST_BYTES)) {
      throw new HeadgateError(
        'HG_OPTION_INVALID',
        `"maxBytes" of memoryReplies() is ${show(maxBytes)}: give a number of bytes from ${SMALLEST_BYTES} on`,
        maxBytes,
      )
    }
    this.#maxBytes = maxBytes
    this.#ticks = ticksOf(clock)
  }

  /** How much the replies take. */
  get bytes(): number {
    return this.#bytes
  }

  begin(name: string, token: string, lockMs: number): Begun {
    const nowUs = this.#ticks.freshUs()
    const kept = this.#kept.get(name, nowUs)
    if (kept !== undefined) return kept.reply
    if (this.#running.get(name, nowUs) !== undefined) return 'running'
    this.#running.set(name, { token, untilUs: nowUs + lockMs * 1000 }, nowUs)
    return 'first'
  }

  finish(name: string, token: string, reply: Reply | undefined, ttlMs: number): boolean {
    const nowUs = this.#ticks.freshUs()
    const holder = this.#running.get(name, nowUs)?.token ?? token
    if (holder !== token || this.#kept.get(name, nowUs) !== undefined) return false
    this.#running.delete(name)
    if (reply !== undefined) this.#keep(name, reply, nowUs + ttlMs * 1000, nowUs)
    return true
  }

  #keep(name: string, reply: Reply, untilUs: number, nowUs: number): void {
    const bytes = bytesOf(reply)
    // It would push out all the others and itself.
    if (bytes > this.#maxBytes) return
    this.#bytes += bytes
    this.#kept.set(name, { reply, bytes, untilUs }, nowUs)
    while (this.#bytes > this.#maxBytes) this.#kept.shift()
  }
}

function bytesOf({ headers, body }: Reply): number {
  let bytes = ENTRY_BYTES + body.length
  for (const [name, value] of headers) bytes += 100 + 2 * (name.length + String(value).length)
  return bytes
}
