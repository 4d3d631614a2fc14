const LONGEST = 255
/** A String of RFC 9651; parameters after it say nothing that is known. */
const QUOTED = /^"((?:[ !#-[\]-~]|\\["\\])*)"(?: *;[ -~]*)?$/
/** What clients send that do not quote: a UUID, a token, base64. No comma: two fields on one line are no key. */
const BARE = /^[\w!#$%&'*+\-.^`|~:/=@]+$/

/** The key that a header field holds; undefined if it holds none. */
export function parseKey(field: string): string | undefined {
  const text = field.trim()
  const key = QUOTED.exec(text)?.[1]?.replaceAll(/\\(.)/g, '$1') ?? BARE.exec(text)?.[0] ?? ''
  return key !== '' && key.length <= LONGEST ? key : undefined
}
