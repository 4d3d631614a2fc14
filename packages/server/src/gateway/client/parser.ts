import { invalid, UpstreamError } from '../failure.ts'
import { withoutListed } from '../fields.ts'
import { parseHead, parseTrailers, type ResponseHead } from './head.ts'

/** Who hears what a response says. Any of these may stop the parser. */
export interface Sink {
  /** 1xx included; after 101 nothing follows that is HTTP. */
  onHead(head: ResponseHead): void
  /** Whether more can be taken at once; if not, what follows in what was read is left. */
  onPiece(chunk: Buffer): boolean
  onEnd(trailers: string[]): void
}

const MAX_HEAD_BYTES = 64 * 1024
/** Before an answer; each tells that the server is still at it, so one that goes on for ever would never be too slow. */
const MAX_EARLY_HEADS = 1000
const MAX_TRAILER_BYTES = 16 * 1024
/** The length of a chunk, with whatever extensions; those are not for us. */
const MAX_SIZE_BYTES = 4 * 1024

const EMPTY_LINE = Buffer.from('\r\n\r\n')
const LINE_END = Buffer.from('\r\n')
/** Fewer digits than a number holds exactly. */
const SIZE =
  /^([\da-f]{1,13})(?:;[\w!#$%&'*+.^`|~-]+(?:=(?:[\w!#$%&'*+.^`|~-]+|"[\t\x20\x21\x23-\x5b\x5d-\x7e]*"))?)*$/i

type State = 'silent' | 'head' | 'length' | 'close' | 'size' | 'chunk' | 'chunk-end' | 'trailers' | 'stopped'

/** Reads responses of HTTP/1, piece by piece as they come. Throws at what two readers could understand in two ways. */
export class ResponseParser {
  readonly #sink: Sink
  #state: State = 'silent'
  /** The question was HEAD: its answer has no body, whatever it says. */
  #isBare = false
  /** What is still to come of a body, of one of its chunks, or of the line that ends the chunk. */
  #left = 0
  /** Where to read on in the piece that came. */
  #at = 0
  /** The beginning of what has not come to its end yet. */
  #begun: Buffer | undefined
  #goesOn = true
  #trailers = ''
  #earlyHeads = 0

  constructor(sink: Sink) {
    this.#sink = sink
  }

  /** An answer is expected from now on. */
  expect(method: string): void {
    this.#state = 'head'
    this.#isBare = method === 'HEAD'
    this.#earlyHeads = 0
  }

  /** Nothing more is told. */
  stop(): void {
    this.#state = 'stopped'
  }

  /** How many bytes it took: all, unless it was stopped, no more is wanted now, or what follows is not HTTP. */
  read(chunk: Buffer): number {
    this.#at = 0
    this.#goesOn = true
    while (this.#at < chunk.length && this.#goesOn && this.#state !== 'stopped') this.#step(chunk)
    return this.#at
  }

  /** The other side says nothing more. Whether that was the end of an answer. */
  close(): boolean {
    if (this.#state !== 'close') return false
    this.#end([])
    return true
  }

  #step(chunk: Buffer): void {
    switch (this.#state) {
      case 'head':
        this.#readHead(chunk)
        break
      case 'length':
      case 'chunk':
      case 'close':
        this.#readPiece(chunk)
        break
      case 'size':
        this.#readSize(chunk)
        break
      case 'chunk-end':
        this.#readChunkEnd(chunk)
        break
      case 'trailers':
        this.#readTrailers(chunk)
        break
      default:
        throw invalid('more than was asked for')
    }
  }

  #readHead(chunk: Buffer): void {
    const text = this.#upTo(EMPTY_LINE, chunk, MAX_HEAD_BYTES)
    if (text === undefined) return
    const head = parseHead(text)
    if (head.status >= 200) this.#readFinal(head)
    else {
      if (++this.#earlyHeads > MAX_EARLY_HEADS) throw invalid('no answer, but news of it again and again')
      if (head.status === 101) this.#state = 'stopped'
      this.#sink.onHead(head)
    }
  }

  #readFinal(head: ResponseHead): void {
    const { status, length, isChunked } = head
    const isOver = this.#isBare || status === 204 || status === 304 || length === 0
    this.#left = length === -1 ? Infinity : length
    this.#state = isChunked ? 'size' : length === -1 ? 'close' : 'length'
    if (this.#state === 'close' && !isOver) head.keepsAlive = false
    if (status === 204 && (length > 0 || isChunked)) withoutBody(head)
    this.#sink.onHead(head)
    if (isOver) this.#end([])
  }

  #readPiece(chunk: Buffer): void {
    const start = this.#at
    const end = Math.min(chunk.length, start + this.#left)
    this.#at = end
    this.#left -= end - start
    this.#goesOn = this.#sink.onPiece(start === 0 && end === chunk.length ? chunk : chunk.subarray(start, end))
    if (this.#left > 0) return
    if (this.#state === 'length') this.#end([])
    else if (this.#state === 'chunk') [this.#state, this.#left] = ['chunk-end', LINE_END.length]
  }

  #readSize(chunk: Buffer): void {
    const text = this.#upTo(LINE_END, chunk, MAX_SIZE_BYTES)
    if (text === undefined) return
    const digits = SIZE.exec(text)?.[1]
    if (digits === undefined) throw invalid('a chunk without a length')
    this.#left = Number.parseInt(digits, 16)
    this.#state = this.#left === 0 ? 'trailers' : 'chunk'
    this.#trailers = ''
  }

  #readChunkEnd(chunk: Buffer): void {
    if (chunk[this.#at++] !== LINE_END[LINE_END.length - this.#left])
      throw invalid('a chunk that is longer than it says')
    if (--this.#left === 0) this.#state = 'size'
  }

  #readTrailers(chunk: Buffer): void {
    const line = this.#upTo(LINE_END, chunk, MAX_TRAILER_BYTES - this.#trailers.length)
    if (line === undefined) return
    if (line === '') this.#end(parseTrailers(this.#trailers))
    else this.#trailers += `${line}\r\n`
  }

  /** The text before an end mark, if all of it has come. */
  #upTo(mark: Buffer, chunk: Buffer, maxBytes: number): string | undefined {
    if (this.#begun !== undefined) return this.#goOn(this.#begun, mark, chunk, maxBytes)
    const start = this.#at
    const end = chunk.indexOf(mark, start)
    if ((end === -1 ? chunk.length : end) - start > maxBytes) throw tooLarge()
    this.#at = end === -1 ? chunk.length : end + mark.length
    if (end !== -1) return chunk.toString('latin1', start, end)
    this.#begun = Buffer.from(chunk.subarray(start)) // a copy: something small would keep all alive that it came with
    return undefined
  }

  #goOn(begun: Buffer, mark: Buffer, chunk: Buffer, maxBytes: number): string | undefined {
    const all = Buffer.concat([begun, chunk.subarray(this.#at)])
    const end = all.indexOf(mark, Math.max(0, begun.length - mark.length + 1))
    if ((end === -1 ? all.length : end) > maxBytes) throw tooLarge()
    this.#begun = end === -1 ? all : undefined
    this.#at = end === -1 ? chunk.length : this.#at + end + mark.length - begun.length
    return end === -1 ? undefined : all.toString('latin1', 0, end)
  }

  #end(trailers: string[]): void {
    if (this.#state === 'stopped') return
    this.#state = 'silent'
    this.#goesOn = true // what is left is nobody's, and must not be there when the connection is used again
    this.#sink.onEnd(trailers)
  }
}

/** It says that there is a body where none can be: whoever believes that takes the next answer for it. */
function withoutBody(head: ResponseHead): void {
  head.headers = withoutListed(head.headers, 'content-length')
  head.keepsAlive = false
}

function tooLarge(): Error {
  return new UpstreamError('HEAD_TOO_LARGE', 'a head or a trailer is too large')
}
