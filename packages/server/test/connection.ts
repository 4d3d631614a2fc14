import { connect, type Socket } from 'node:net'
import { until } from '../../headgate/test/until.ts'
import { ends } from './service.ts'

/** A client that says bytes, keeps its connection, and knows where answers end. */
export interface Connection {
  /** Undefined: the connection was closed instead, before the first byte of an answer. Rejects if it was closed within one. */
  ask(text: string): Promise<Heard | undefined>
  /** Says without listening. */
  say(bytes: string | Uint8Array): void
  /** All that was said to it so far. */
  readonly heard: string
  readonly closed: boolean
  end(): void
}

export interface Heard {
  readonly status: number
  readonly head: string
  readonly body: string
}

export async function dial(port: number): Promise<Connection> {
  const socket = connect(port, '127.0.0.1')
  ends(socket, (each) => each.destroy())
  await new Promise<void>((resolve, reject) => void socket.once('connect', resolve).once('error', reject))
  socket.on('error', () => {}) // a close follows
  return new Line(socket)
}

class Line implements Connection {
  heard = ''
  #read = 0
  readonly #socket: Socket

  constructor(socket: Socket) {
    this.#socket = socket
    socket.setEncoding('latin1').on('data', (chunk) => {
      this.heard += chunk
    })
  }

  get closed(): boolean {
    return this.#socket.closed
  }

  say(bytes: string | Uint8Array): void {
    this.#socket.write(bytes)
  }

  end(): void {
    this.#socket.destroy()
  }

  async ask(text: string): Promise<Heard | undefined> {
    this.say(text)
    await until('an answer', () => this.#next() !== undefined || this.closed || undefined)
    const answer = this.#next()
    if (answer === undefined && this.heard.length > this.#read)
      throw new Error(`cut off: ${this.heard.slice(this.#read)}`)
    if (answer !== undefined) this.#read += answer.head.length + answer.body.length
    return answer
  }

  /** The next answer, once all of it is there. */
  #next(): Heard | undefined {
    const text = this.heard.slice(this.#read)
    const end = text.indexOf('\r\n\r\n') + 4
    if (end < 4) return undefined
    const head = text.slice(0, end)
    const length = Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0)
    const body = text.slice(end, end + length)
    return body.length < length ? undefined : { status: Number(head.slice(9, 12)), head, body }
  }
}
