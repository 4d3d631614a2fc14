import { after, endOfTurn } from '../clock.ts'
import { type Collected, concat } from './reply.ts'

/** A body that nobody will read is read here for so long, to see whether it is complete. */
const SALVAGE_MS = 250
/** What comes of a response in the same turn is read at once, up to this, to see whether it is all. */
const AHEAD_BYTES = 65_536

/** A response's body on its way. */
export class Passing {
  readonly stream: ReadableStream
  readonly #reader: StreamReader
  readonly #collected: Collected
  readonly #finish: () => void | Promise<void>
  readonly #drop: () => void | Promise<void>
  /** Read before anybody asked, and a piece that is on its way. */
  readonly #ahead: Uint8Array[] = []
  #next: Promise<StreamPiece> | undefined
  #begun = false

  constructor(
    source: ReadableStream,
    collected: Collected,
    finish: () => void | Promise<void>,
    drop: () => void | Promise<void>,
  ) {
    this.#reader = source.getReader()
    this.#collected = collected
    this.#finish = finish
    this.#drop = drop
    // The source is as fast as who reads this.
    const pull = (controller: StreamController) => this.#pull(controller)
    this.stream = new ReadableStream({ pull, cancel: (reason) => this.#cancel(reason) }, { highWaterMark: 0 })
  }

  /** All of it, if it is there already: it is then kept before anybody reads it, and sent as one piece with its length. */
  async atOnce(): Promise<Uint8Array | undefined> {
    const turn = new Promise<undefined>((resolve) => void endOfTurn(() => resolve(undefined)))
    for (let bytes = 0; bytes <= AHEAD_BYTES; ) {
      this.#next ??= this.#reader.read()
      const piece = await Promise.race([this.#next, turn]).catch(() => undefined)
      if (piece === undefined) return undefined
      if (piece.done) {
        await this.#finish()
        return concat(this.#ahead)
      }
      this.#next = undefined
      bytes += piece.value.length
      this.#ahead.push(piece.value)
      this.#collected.add(piece.value)
    }
    return undefined
  }

  async #pull(controller: StreamController): Promise<void> {
    this.#begun = true
    const ahead = this.#ahead.shift()
    if (ahead !== undefined) return controller.enqueue(ahead)
    try {
      const { done, value } = await this.#read()
      if (!done) return controller.enqueue(value)
      await this.#finish()
      controller.close()
    } catch (error) {
      await this.#drop()
      controller.error(error)
    }
  }

  async #read(): Promise<StreamPiece> {
    const next = this.#next ?? this.#reader.read()
    this.#next = undefined
    const piece = await next
    if (!piece.done) this.#collected.add(piece.value)
    return piece
  }

  /** The client has gone: midway, or before it had anything. */
  async #cancel(reason: unknown): Promise<void> {
    if (!this.#begun) return this.salvage()
    await this.#drop()
    await this.#reader.cancel(reason)
  }

  /** Nobody reads it: a client that lost its connection while the handler was at work. It will ask again. */
  async salvage(): Promise<void> {
    let late = false
    const cancel = after(undefined, SALVAGE_MS, () => {
      late = true
      void this.#reader.cancel('nobody is there to read it').catch(() => {})
    })
    try {
      for (;;) {
        const { done } = await this.#read()
        if (late) return void (await this.#drop())
        if (done) return void (await this.#finish())
      }
    } catch {
      await this.#drop()
    } finally {
      cancel()
    }
  }
}
