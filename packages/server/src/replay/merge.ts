import type { Logged } from './logged.ts'

interface Cursor {
  readonly source: AsyncIterator<readonly Logged[]>
  batch: readonly Logged[]
  at: number
}

/** Requests of several logs, the earliest first, some at a time: logs of one server that follow each other, or of several. */
export async function* merged(sources: readonly AsyncIterable<readonly Logged[]>[]): AsyncGenerator<readonly Logged[]> {
  const opened = sources.map((source) => ({ source: source[Symbol.asyncIterator](), batch: [], at: 0 }))
  const cursors = await filled(opened)
  while (cursors.length > 1) {
    yield together(cursors)
    const [empty] = cursors.filter(({ at, batch }) => at >= batch.length)
    if (empty !== undefined && !(await fill(empty))) cursors.splice(cursors.indexOf(empty), 1)
  }
  const [last] = cursors
  if (last === undefined) return
  yield last.batch.slice(last.at)
  while (await fill(last)) yield last.batch
}

async function filled(cursors: readonly Cursor[]): Promise<Cursor[]> {
  const left: Cursor[] = []
  for (const cursor of cursors) if (await fill(cursor)) left.push(cursor)
  return left
}

/** Whether there is more. */
async function fill(cursor: Cursor): Promise<boolean> {
  do {
    const { done, value } = await cursor.source.next()
    if (done) return false
    cursor.batch = value
    cursor.at = 0
  } while (cursor.batch.length === 0)
  return true
}

/** Until one of them has to be read on. */
function together(cursors: readonly Cursor[]): Logged[] {
  const out: Logged[] = []
  for (;;) {
    let first = cursors[0] as Cursor
    for (const each of cursors) if (timeOf(each) < timeOf(first)) first = each
    out.push(first.batch[first.at++] as Logged)
    if (first.at >= first.batch.length) return out
  }
}

function timeOf({ batch, at }: Cursor): number {
  return (batch[at] as Logged).atMs
}
