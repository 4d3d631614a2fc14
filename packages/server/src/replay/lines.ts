import { pipeline } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import { createGunzip } from 'node:zlib'

/** No server logs more of a request than it reads of its head. */
export const LONGEST_LINE = 65_536

/** Lines of a stream, as many at a time as came together. One that is too long is told as undefined. */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<readonly (string | undefined)[]> {
  const decoder = new StringDecoder('utf8')
  const splitter = new Splitter()
  for await (const chunk of unpacked(chunks)) yield splitter.push(decoder.write(Buffer.from(chunk)))
  yield splitter.end(decoder.end())
}

class Splitter {
  #begun = ''
  #isTooLong = false

  push(text: string): (string | undefined)[] {
    const lines = (this.#begun + text).split('\n')
    this.#begun = lines.pop() as string
    const whole: (string | undefined)[] = lines.map((line, i) => this.#whole(line, i === 0))
    if (this.#begun.length <= LONGEST_LINE) return whole
    this.#begun = ''
    this.#isTooLong = true
    return whole
  }

  end(text: string): (string | undefined)[] {
    const lines = this.push(text)
    return this.#begun === '' && !this.#isTooLong ? lines : [...lines, this.#whole(this.#begun, true)]
  }

  #whole(line: string, isFirst: boolean): string | undefined {
    const isTooLong = line.length > LONGEST_LINE || (isFirst && this.#isTooLong)
    if (isFirst) this.#isTooLong = false
    if (isTooLong) return undefined
    return line.endsWith('\r') ? line.slice(0, -1) : line
  }
}

/** What is packed by gzip is unpacked on the way; its first two bytes tell. */
async function* unpacked(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const iterator = chunks[Symbol.asyncIterator]()
  let start = new Uint8Array()
  while (start.length < 2) {
    const { done, value } = await iterator.next()
    if (done) break
    start = Buffer.concat([start, value])
  }
  const all = from(start, iterator)
  if (start[0] !== 0x1f || start[1] !== 0x8b) yield* all
  else yield* pipeline(all, createGunzip(), () => {}) as AsyncIterable<Uint8Array>
}

async function* from(start: Uint8Array, rest: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  if (start.length > 0) yield start
  for (;;) {
    const { done, value } = await rest.next()
    if (done) return
    yield value
  }
}
