import { createHash } from 'node:crypto'

const LONGEST = 60

/** Names that limits have in metrics and on the admin port: of letters, digits, `_` and `-`, as others have there too. */
function nameOf(text: string): string {
  const plain = text
    .toLowerCase()
    .replaceAll(/[^a-z\d_-]+/g, '-')
    .replaceAll(/-{3,}/g, '--')
    .replaceAll(/^[^a-z]+|-+$/g, '')
    .slice(0, LONGEST)
  return plain === '' ? 'limit' : plain
}

/** What wants a name: the text to make it of, and where it is, which no other is. */
export interface Unnamed {
  readonly text: string
  readonly place: string
  /** Whether somebody chose the text; else it tells the place, if all of it can be in a name. */
  readonly isChosen: boolean
}

/** A name for each. What does not tell all gets a hash of the place besides, so that whatever else comes and goes, a limit keeps
 *  its name, and with it what it has counted. So do names that were chosen though another limit has them. */
export function namesOf(unnamed: readonly Unnamed[], taken: ReadonlySet<string>): string[] {
  const plain = unnamed.map(({ text, isChosen }) => {
    const name = nameOf(text)
    return { name, isWhole: isChosen || name === text }
  })
  const times = new Map<string, number>()
  for (const { name, isWhole } of plain) if (isWhole) times.set(name, (times.get(name) ?? 0) + 1)
  return unnamed.map(({ place, isChosen }, i) => {
    const { name, isWhole } = plain[i] as (typeof plain)[number]
    const isOwn = !isChosen || times.get(name) === 1
    if (isWhole && isOwn && !taken.has(name)) return name
    return `${name}-${createHash('sha256').update(place).digest('hex').slice(0, 8)}`
  })
}
