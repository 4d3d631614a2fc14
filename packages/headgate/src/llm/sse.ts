/** Longer events are passed over. The largest that tells of usage repeats a whole answer. */
const MOST_CHARACTERS = 1_048_576

/**
 * Finds the events in a stream of them, however it was cut into pieces, and hands on the data of each. Holds no more than one
 * event of bounded length, and never throws: whoever looks on must not break what passes by.
 */
export class SseReader {
  readonly #onData: (data: string) => void
  readonly #most: number
  readonly #decoder = new TextDecoder()
  /** Of the line that has begun, and how much of the event is held in all. */
  #line = ''
  #data: string[] = []
  #held = 0
  #isTooLong = false
  #wasCr = false

  constructor(onData: (data: string) => void, mostCharacters = MOST_CHARACTERS) {
    this.#onData = onData
    this.#most = mostCharacters
  }

  push(chunk: Uint8Array | string): void {
    this.#read(typeof chunk === 'string' ? chunk : this.#decoder.decode(chunk, { stream: true }))
  }

  /** What came last may lack the empty line after it. */
  end(): void {
    this.#read(this.#decoder.decode())
    this.#endLine()
    this.#endEvent()
  }

  #read(text: string): void {
    let from = this.#wasCr && text.startsWith('\n') ? 1 : 0
    if (text !== '') this.#wasCr = text.endsWith('\r')
    const ends = /\r\n|\n|\r/g
    ends.lastIndex = from
    for (let end = ends.exec(text); end !== null; end = ends.exec(text)) {
      this.#hold(text.slice(from, end.index))
      this.#endLine()
      from = ends.lastIndex
    }
    this.#hold(text.slice(from))
  }

  #hold(part: string): void {
    this.#held += part.length
    if (this.#held > this.#most) {
      this.#isTooLong = true
      this.#line = ''
      this.#data = []
    }
    if (!this.#isTooLong) this.#line += part
    // Something has to stand for what is not held: an empty line would be the end of the event.
    else if (part !== '') this.#line = '.'
  }

  #endLine(): void {
    const line = this.#line
    this.#line = ''
    if (line === '') this.#endEvent()
    else if (this.#isTooLong) return
    else if (line.startsWith('data:')) this.#data.push(line.slice(line[5] === ' ' ? 6 : 5))
    // Comments keep a connection open for as long as it takes, and are not held.
    else this.#held -= line.length
  }

  #endEvent(): void {
    const data = this.#data.join('\n')
    this.#data = []
    this.#held = 0
    this.#isTooLong = false
    if (data !== '') this.#onData(data)
  }
}
