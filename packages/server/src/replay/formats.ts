import { combinedReader } from './combined.ts'
import { envoyReader } from './envoy-text.ts'
import { jsonReader } from './json-lines.ts'
import { type Logged, OTHER_FORMAT, type ReadLine, type Unread } from './logged.ts'

const readers = { combined: combinedReader, json: jsonReader, envoy: envoyReader }
export type Format = keyof typeof readers
export const formatNames = Object.keys(readers) as readonly Format[]

/** Reads lines in a format, or in the one that the first line is in that is in any. */
export class Reader {
  #format: Format | undefined
  #read: ReadLine | undefined

  constructor(format?: Format) {
    if (format !== undefined) this.#choose(format)
  }

  /** Undefined: no line was in any that is known. */
  get format(): Format | undefined {
    return this.#format
  }

  read(line: string): Logged | Unread {
    if (this.#read === undefined) this.#detect(line)
    return this.#read?.(line) ?? OTHER_FORMAT
  }

  #detect(line: string): void {
    const format = formatNames.find((each) => readers[each]()(line) !== OTHER_FORMAT)
    if (format !== undefined) this.#choose(format)
  }

  #choose(format: Format): void {
    this.#format = format
    this.#read = readers[format]()
  }
}
