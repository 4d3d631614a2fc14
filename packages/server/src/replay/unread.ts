import type { Unread } from './logged.ts'

/** Lines that could not be read, for one reason. */
export interface UnreadGroup {
  readonly reason: string
  readonly lines: number
  /** Where the first of them are. */
  readonly first: readonly { readonly file: string; readonly line: number }[]
}

const MOST_TOLD = 10

/** Counts lines that could not be read, and remembers where some of them are. */
export class UnreadLines {
  readonly #groups = new Map<string, { lines: number; first: { file: string; line: number }[] }>()

  add({ reason }: Unread, file: string, line: number): void {
    const group = this.#groups.get(reason) ?? { lines: 0, first: [] }
    this.#groups.set(reason, group)
    group.lines++
    if (group.first.length < MOST_TOLD) group.first.push({ file, line })
  }

  get groups(): readonly UnreadGroup[] {
    return [...this.#groups].map(([reason, group]) => ({ reason, ...group }))
  }

  get lines(): number {
    return this.groups.reduce((sum, { lines }) => sum + lines, 0)
  }
}
