import { toldHeader } from './logged.ts'

/** What a line says by name, in one spelling: `X-Forwarded-For` is `x_forwarded_for`. */
export type Fields = ReadonlyMap<string, unknown>

const spellings = new Map<string, string>()
const MOST_SPELLINGS = 10_000

/** Names come again with every line. */
export function spelled(name: string): string {
  const known = spellings.get(name)
  if (known !== undefined) return known
  const spelling = name
    .toLowerCase()
    .replaceAll(/[^a-z\d]+/g, '_')
    .replaceAll(/^_+|_+$/g, '')
  if (spellings.size >= MOST_SPELLINGS) spellings.clear()
  spellings.set(name, spelling)
  return spelling
}

/** How servers name a header among other fields: nginx by its variable, Traefik by a word before it. */
const PREFIXES = ['', 'http_', 'request_', 'header_', 'req_header_', 'request_header_']
const OTHER_NAMES: ReadonlyMap<string, readonly string[]> = new Map([
  ['host', ['authority', 'vhost', 'requesthost']],
  ['x_forwarded_for', ['xff', 'forwarded_for']],
  ['user_agent', ['useragent', 'ua']],
  ['referer', ['referrer']],
])

/** As `header` of `Logged`. */
export function headerAmong(fields: Fields, name: string): string | undefined | null {
  if (fields.size === 0) return null
  const wanted = spelled(name)
  for (const prefix of PREFIXES) {
    const value = fields.get(prefix + wanted)
    if (value !== undefined) return toldHeader(value)
  }
  for (const other of OTHER_NAMES.get(wanted) ?? []) {
    const value = fields.get(other)
    if (value !== undefined) return toldHeader(value)
  }
  return null
}

/** The first of these that is there. */
export function fieldOf(fields: Fields, names: readonly string[]): unknown {
  for (const name of names) {
    const value = fields.get(name)
    if (value !== undefined && value !== null && value !== '' && value !== '-') return value
  }
  return undefined
}

const IN_SECONDS = ['request_time', 'rt', 'reqtime', 'duration_s', 'duration_seconds', 'latency_s']
const IN_MS = [
  'responsetime',
  'response_time_ms',
  'duration_ms',
  'durationms',
  'request_time_ms',
  'elapsed_ms',
  'latency_ms',
]
/** A day; what says more is in another unit than it seems. */
const LONGEST_MS = 86_400_000

/** Fields whose name tells their unit. */
export function tookIn(fields: Fields): number | undefined {
  if (fields.size === 0) return undefined
  return lengthOf(fieldOf(fields, IN_SECONDS), 1000) ?? lengthOf(fieldOf(fields, IN_MS), 1)
}

export function lengthOf(value: unknown, unitMs: number): number | undefined {
  const ms = typeof value === 'number' || typeof value === 'string' ? Number(value) * unitMs : Number.NaN
  return ms >= 0 && ms <= LONGEST_MS ? ms : undefined
}
