import { createReadStream } from 'node:fs'
import { type Format, Reader } from './formats.ts'
import { LONGEST_LINE, linesOf } from './lines.ts'
import { type Logged, Unread } from './logged.ts'
import { Order } from './order.ts'
import type { UnreadLines } from './unread.ts'

const TOO_LONG = new Unread(`is longer than ${LONGEST_LINE} characters`)

/** One log and what was read of it so far. */
export class LogFile {
  readonly file: string
  readonly #reader: Reader
  readonly #unread: UnreadLines
  readonly #open: () => AsyncIterable<Uint8Array>
  lines = 0
  requests = 0
  /** Of which so many have their time in whole seconds. */
  inWholeSeconds = 0

  constructor(
    file: string,
    unread: UnreadLines,
    format?: Format,
    open = () => createReadStream(file) as AsyncIterable<Uint8Array>,
  ) {
    this.file = file
    this.#reader = new Reader(format)
    this.#unread = unread
    this.#open = open
  }

  get format(): Format | undefined {
    return this.#reader.format
  }

  /** In the order in which they came, some at a time. */
  async *requestsInOrder(): AsyncGenerator<Logged[]> {
    const order = new Order()
    try {
      for await (const lines of linesOf(this.#open())) {
        const out: Logged[] = []
        for (const line of lines) this.#read(line, order, out)
        if (out.length > 0) yield out
      }
    } catch (error) {
      throw new Error(`${this.file} cannot be read: ${(error as Error).message}`)
    }
    const rest: Logged[] = []
    order.end(rest)
    yield rest
  }

  #read(line: string | undefined, order: Order, out: Logged[]): void {
    this.lines++
    const text = this.lines === 1 ? line?.replace(/^\uFEFF/, '') : line
    if (text !== undefined && text.trim() === '') return
    const logged = text === undefined ? TOO_LONG : this.#reader.read(text)
    if (logged instanceof Unread) this.#unread.add(logged, this.file, this.lines)
    else {
      this.requests++
      if (logged.inWholeSeconds) this.inWholeSeconds++
      order.push(logged, out)
    }
  }
}
