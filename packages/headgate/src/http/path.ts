/** Paths that are as they should be, in either case. No segment starts with a dot, so none has to be resolved. */
const NORMAL = /^(?:\/[\w~-][\w.~-]*)+$/
const ORIGIN = /^[a-z][a-z\d+.-]*:\/\/[^/\\]*/i
/** An escape, perhaps right behind a broken one; or a run of what may not stand in a path unescaped. */
const ESCAPES = /(%(?![\da-f]{2})[\da-f]?)?%([\da-f]{2})|[^\w\-.~!$&'()*+,;=:@/[\]%]+/gi
const UNRESERVED = /[\w.~-]/
const encoder = new TextEncoder()

/** The one spelling of a path, so that nobody gets a fresh counter for `//login`, `/x/../login`, `/%6cogin` or `/LOGIN/`. Slashes
 *  that are escaped stay so: they are part of a name. The query is dropped. */
export function normalPath(pathOrUrl: string, { caseSensitive = false } = {}): string {
  const end = pathOrUrl.search(/[?#]/)
  const target = end < 0 ? pathOrUrl : pathOrUrl.slice(0, end)
  if (target === '/' || target === '*') return target
  const path = NORMAL.test(target) ? target : resolve(inOneSpelling(target.replace(ORIGIN, '').replaceAll('\\', '/')))
  return caseSensitive ? path : path.toLowerCase()
}

/** Repeated slashes are one, as most servers have it, so `/a//../b` is `/b`. */
function resolve(path: string): string {
  const names: string[] = []
  for (const name of path.split('/')) {
    if (name === '..') names.pop()
    else if (name !== '' && name !== '.') names.push(name)
  }
  return `/${names.join('/')}`
}

/** Unreserved characters as they are, all others that were or must be escaped as `%` and two small digits. */
function inOneSpelling(path: string): string {
  return path.replace(ESCAPES, (raw: string, broken: string | undefined, digits: string | undefined) => {
    if (digits === undefined) return percentEncoded(raw)
    const char = String.fromCharCode(Number.parseInt(digits, 16))
    // `%%36%31` must not become `%61`, which the next reader would take for an `a`.
    return broken === undefined && UNRESERVED.test(char) ? char : `${broken ?? ''}%${digits.toLowerCase()}`
  })
}

function percentEncoded(raw: string): string {
  let text = ''
  for (const byte of encoder.encode(raw)) text += `%${byte.toString(16).padStart(2, '0')}`
  return text
}
