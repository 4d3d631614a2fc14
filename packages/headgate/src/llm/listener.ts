import { type AnswerOptions, AnswerReader } from './answer.ts'
import type { Usage } from './usage.ts'

/** What a listener tells of. */
interface Call {
  settle(usage: Partial<Usage>): Promise<void>
  fail(): Promise<void>
  grow(usage: Partial<Usage>, leastTokens: number): void
}

/** An answer that flows past its reservation is booked in steps of so many tokens: a question to the store for each chunk is too much. */
const STEP_TOKENS = 256

/** Hears an answer and settles its call, however it ends; the first end counts. */
export class Listener {
  readonly #call: Call
  readonly #reader: AnswerReader
  readonly #signal: AbortSignal | undefined

  constructor(call: Call, options: AnswerOptions, signal?: AbortSignal) {
    this.#call = call
    this.#signal = signal
    this.#reader = new AnswerReader(options)
  }

  push(chunk: Uint8Array | string): void {
    this.#reader.push(chunk)
    // Until then others see the reservation, which is more. What is certain is not given back later, which might not be possible.
    if (this.#reader.isStream) this.#call.grow(this.#reader.certainUsage, STEP_TOKENS)
  }

  /** It has come to its end. */
  end(): Promise<void> {
    this.#reader.end()
    const { failed, silent, usage } = this.#reader
    return failed && silent ? this.#call.fail() : this.#call.settle(usage)
  }

  /** Whoever asked does not want it any more. What has flowed was made; of an answer that comes in one piece nobody knows. */
  abort(): Promise<void> {
    return this.#call.settle(this.#reader.usage)
  }

  /** The provider broke off; or it was given up by a signal, which looks the same but for the error. */
  breakOff(error?: unknown): Promise<void> {
    const { silent, isStream, usage } = this.#reader
    return silent && isStream && !isAbort(error, this.#signal) ? this.#call.fail() : this.#call.settle(usage)
  }
}

/** A signal may have any reason. */
export function isAbort(error: unknown, signal: AbortSignal | undefined): boolean {
  if (signal?.aborted) return true
  const { name } = (error ?? {}) as { name?: unknown }
  return name === 'AbortError' || name === 'TimeoutError'
}
