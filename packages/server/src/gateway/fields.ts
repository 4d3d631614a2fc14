/** Fields that speak of one connection only, and never pass. RFC 9110, section 7.6.1; `Trailer` depends, see the callers. */
const hopByHop = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-authorization',
  'te',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
])

/** What is known of a field by its name. */
export interface FieldName {
  readonly lower: string
  /** A token, as RFC 9110 wants it. */
  readonly isToken: boolean
  /** Never passes. */
  readonly isHopByHop: boolean
  /** Tells of hops before this one. */
  readonly tellsOfHops: boolean
  /** Tells of rate limits. */
  readonly tellsOfLimits: boolean
}

/** Names come again and again; so many are remembered, whoever makes them up. */
const MOST_NAMES = 2_000
const LONGEST_NAME = 64
const names = new Map<string, FieldName>()

export function fieldName(name: string): FieldName {
  return names.get(name) ?? learn(name)
}

function learn(name: string): FieldName {
  const lower = name.toLowerCase()
  const known = {
    lower,
    isToken: TOKEN.test(name),
    isHopByHop: hopByHop.has(lower) || lower.startsWith('proxy-'),
    tellsOfHops: tellsOfHops(lower),
    tellsOfLimits: /^(?:(?:x|anthropic)-)?ratelimit(?:-|$)/.test(lower),
  }
  // A copy, or it would keep the text alive that it was cut out of.
  if (names.size < MOST_NAMES && name.length <= LONGEST_NAME) names.set(Buffer.from(name).toString(), known)
  return known
}

/** Underscores count as hyphens: CGI and WSGI make no difference. */
function tellsOfHops(lowerName: string): boolean {
  const name = lowerName.replaceAll('_', '-')
  return name === 'forwarded' || name === 'x-real-ip' || name.startsWith('x-forwarded-')
}

export const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/

/** What no field may hold: control characters, above all those that would begin another field. */
const NO_TEXT = /[^\t\x20-\x7e\x80-\xff]/

export function isFieldText(value: string): boolean {
  return !NO_TEXT.test(value)
}

/** Options of a Connection field that name no other field; far the most common ones. */
const plainOptions = /^\s*(?:keep-alive|close|upgrade|te)\s*(?:,\s*(?:keep-alive|close|upgrade|te)\s*)*$/i

/** Takes out the fields that a Connection field lists. Fields of our own are added later, so nobody can list those away. */
export function withoutListed(headers: string[], connection: string): string[] {
  if (connection === '' || connection === 'keep-alive' || plainOptions.test(connection)) return headers
  const listed = new Set(optionsOf(connection))
  const kept: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string
    if (!listed.has(fieldName(name).lower)) kept.push(name, headers[i + 1] as string)
  }
  return kept
}

/** What a Connection field says, in lower case. */
export function optionsOf(connection: string): string[] {
  return connection.split(',').map((option) => option.trim().toLowerCase())
}

/** Fields that mean nothing, or something dangerous, when they come after the body. RFC 9110, section 6.5.1. */
const neverTrailers = new Set([
  'content-length',
  'host',
  'trailer',
  'content-encoding',
  'content-type',
  'content-range',
  'authorization',
  'cookie',
  'set-cookie',
])

/** Trailers as pairs. A list of lists keeps those that come twice. */
export function trailerPairs(raw: readonly string[]): [string, string][] {
  const pairs: [string, string][] = []
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const { lower, isHopByHop, tellsOfHops } = fieldName(raw[i] as string)
    if (isHopByHop || tellsOfHops || neverTrailers.has(lower)) continue
    pairs.push([raw[i] as string, raw[i + 1] as string])
  }
  return pairs
}
