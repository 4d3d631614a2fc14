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

export function isHopByHop(lowerName: string): boolean {
  return hopByHop.has(lowerName) || lowerName.startsWith('proxy-')
}

/** Options of a Connection field that name no other field; far the most common ones. */
const plainOptions = /^\s*(?:keep-alive|close|upgrade|te)\s*(?:,\s*(?:keep-alive|close|upgrade|te)\s*)*$/i

/** Takes out the fields that a Connection field lists. Fields of our own are added later, so nobody can list those away. */
export function withoutListed(headers: string[], connection: string): string[] {
  if (connection === '' || plainOptions.test(connection)) return headers
  const listed = new Set(connection.split(',').map((name) => name.trim().toLowerCase()))
  const kept: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string
    if (!listed.has(name.toLowerCase())) kept.push(name, headers[i + 1] as string)
  }
  return kept
}

/** Fields that mean nothing, or something dangerous, when they come after the body. RFC 9110, section 6.5.1. */
const neverTrailers = new Set([
  'content-length',
  'host',
  'trailer',
  'content-encoding',
  'content-type',
  'content-range',
])

/** Trailers as pairs. A list of lists keeps those that come twice. */
export function trailerPairs(raw: readonly (Buffer | string)[]): [string, string][] {
  const pairs: [string, string][] = []
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = textOf(raw[i] as Buffer | string)
    const lowerName = name.toLowerCase()
    if (isHopByHop(lowerName) || neverTrailers.has(lowerName)) continue
    pairs.push([name, textOf(raw[i + 1] as Buffer | string)])
  }
  return pairs
}

/** Header fields are bytes; Latin-1 keeps every one of them through to the other side. */
export function textOf(bytes: Buffer | string): string {
  return typeof bytes === 'string' ? bytes : bytes.toString('latin1')
}
