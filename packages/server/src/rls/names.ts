import { createHash } from 'node:crypto'

const LONGEST = 60

/** Names that limits have in metrics and on the admin port: of letters, digits, `_` and `-`, as others have there too. */
function nameOf(text: string): string {
  const plain = text
    .toLowerCase()
    .replaceAll(/[^a-z\d_]+/g, '-')
    .replaceAll(/^[^a-z]+|-+$/g, '')
    .slice(0, LONGEST)
  return plain === '' ? 'limit' : plain
}

/** What wants a name: the text to make it of, and where it is, which no other is. */
export interface Unnamed {
  readonly text: string
  readonly place: string
}

/** A name for each, the same whatever else there is, unless two would have one name, or somebody else has it: those get a
 *  hash of where they are besides. */
export function namesOf(unnamed: readonly Unnamed[], taken: ReadonlySet<string>): string[] {
  const plain = unnamed.map(({ text }) => nameOf(text))
  const times = new Map<string, number>()
  for (const name of plain) times.set(name, (times.get(name) ?? 0) + 1)
  return plain.map((name, i) => {
    if (times.get(name) === 1 && !taken.has(name)) return name
    const hash = createHash('sha256')
      .update(unnamed[i]?.place ?? '')
      .digest('hex')
    return `${name}-${hash.slice(0, 8)}`
  })
}
