import { HeadgateError, show } from './errors.ts'

/** Who is limited. An array is a composite key: `['a', 'b']` and `['ab']` are different keys, `['a']` and `'a'` are one. */
export type Key = string | number | readonly (string | number)[]

/**
 * Encodes a key as text without collisions. Nearly every key is a plain string and stays as it is; composite keys are a mark
 * and length-prefixed parts, and so is a plain string that starts with the mark, as a composite key of one part. So what follows
 * a mark at the start is always a digit.
 */
export function encodeKey(key: unknown, limit: string): string {
  return typeof key === 'string' && key.charCodeAt(0) > 0 ? key : encodeOther(key, limit)
}

function encodeOther(key: unknown, limit: string): string {
  if (!Array.isArray(key)) return join([part(key, limit)])
  if (key.length === 0) throw missing(key, limit)
  if (key.length === 1) return join([part(key[0], limit)])
  let text = MARK
  // Neither `map`, which would pass over holes, nor an array in between, which costs as much as the rest.
  for (let i = 0; i < key.length; i++) text = withPart(text, part(key[i], limit))
  return text
}

const MARK = '\u0000'

function join(parts: readonly string[]): string {
  const first = parts[0] as string
  if (parts.length === 1 && !first.startsWith(MARK)) return first
  return parts.reduce(withPart, MARK)
}

function withPart(text: string, item: string): string {
  return `${text}${item.length}:${item}`
}

/** As `encodeKey` of an array, but a part may be empty: for those who have to count what they are told. */
export function encodeParts(parts: readonly string[]): string {
  return join(parts)
}

/** The parts of an encoded key: one, of a key that is not composite. */
export function keyParts(encoded: string): string[] {
  if (!encoded.startsWith(MARK)) return [encoded]
  const parts: string[] = []
  for (let at = 1; at < encoded.length; ) {
    const colon = encoded.indexOf(':', at)
    const end = colon + 1 + Number(encoded.slice(at, colon))
    parts.push(encoded.slice(colon + 1, end))
    at = end
  }
  return parts
}

function part(item: unknown, limit: string): string {
  if (typeof item === 'string' && item !== '') return item
  if (typeof item === 'number' && Number.isFinite(item)) return String(item)
  throw missing(item, limit)
}

function missing(key: unknown, limit: string): HeadgateError {
  return new HeadgateError(
    'HG_KEY_MISSING',
    `limit "${limit}" got ${show(key)} for a key: give a non-empty string, a number or an array of them, or leave such requests out with "when"`,
    key,
  )
}
