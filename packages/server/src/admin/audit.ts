import type { Key } from 'headgate'
import type { Mask, ShownKey } from './mask.ts'
import type { Call } from './route.ts'

export interface AuditEntry {
  readonly at: string
  /** Scope of the token, and from where. */
  readonly who: string
  readonly what: string
  readonly limit?: string
  readonly key?: ShownKey
  readonly id?: string
  readonly reason?: string
  readonly before?: unknown
  readonly after?: unknown
}

/** Where lines go: a stream, or anything with a `write`. */
export interface AuditSink {
  write(line: string): unknown
}

interface Change extends Omit<AuditEntry, 'at' | 'who' | 'what' | 'key'> {
  readonly key?: Key | undefined
}

const MOST_ENTRIES = 1_000

/** Who changed what, when, from what to what: lines of JSON, and the last of them to look at. Keys are masked, tokens not there. */
export class Audit {
  readonly #sink: AuditSink | undefined
  readonly #mask: Mask
  readonly #nowMs: () => number
  readonly #entries: AuditEntry[] = []

  constructor(sink: AuditSink | undefined, mask: Mask, nowMs: () => number) {
    this.#sink = sink
    this.#mask = mask
    this.#nowMs = nowMs
  }

  record({ who }: Pick<Call, 'who'>, what: string, { key, ...change }: Change = {}): void {
    const shown = this.#mask.key(key)
    const at = new Date(this.#nowMs()).toISOString()
    const entry = { at, who, what, ...(shown !== undefined && { key: shown }), ...change }
    if (this.#entries.push(entry) > MOST_ENTRIES) this.#entries.shift()
    this.#sink?.write(`${JSON.stringify(entry)}\n`)
  }

  /** The last ones, newest first. */
  last(n: number): readonly AuditEntry[] {
    return this.#entries.slice(-n).reverse()
  }
}
