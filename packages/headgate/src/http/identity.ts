import { type ErrorCode, HeadgateError, show, suggest } from '../errors.ts'
import type { Key } from '../key.ts'
import type { By, ByPart, Word } from './options.ts'
import { normalPath } from './path.ts'

export type WarnOnce = (code: ErrorCode, message: string) => void

/** What the core asks of a framework. `R` is the framework's own request. */
export interface Reader<R> {
  /** The address at the other end of the connection. */
  peer(request: R): string | undefined
  /** The client's address as the framework knows it, where it was told which proxies to trust. */
  known?(request: R, warnOnce: WarnOnce): string | undefined
  /** A header by its lower-case name, several lines joined by commas. */
  header(request: R, name: string): string | undefined
  method(request: R): string
  /** Path and query as they came. */
  url(request: R): string
  /** The pattern that matched, if the framework knows it here. */
  route?(request: R): string | undefined
  /** A body may come that no header tells of, as from HTTP/2 on. */
  mayBring?(request: R): boolean
  /** What carries the decision about a request, unless it does so itself. */
  carrier?(request: R): object
}

type Part<R> = (request: R) => string | undefined
type OwnPart<R> = (request: R) => string | number | null | undefined

const words = ['ip', 'api-key', 'method', 'path', 'route', 'host']
const prefixes = ['header:', 'cookie:', 'query:', 'jwt:']

/** Makes a function of the words that say who is counted. */
export function identify<R>(by: By<R>, reader: Reader<R>, address: Part<R>): (request: R) => Key | null | undefined {
  if (typeof by === 'function') return by
  if (typeof by === 'string') return partOf(by, reader, address)
  if (!Array.isArray(by) || by.length === 0) throw unknownWord(by)
  const parts = by.map(
    (each: ByPart<R>): OwnPart<R> => (typeof each === 'function' ? each : partOf(each, reader, address)),
  )
  // A part that is missing makes the whole key a missing one.
  return (request) => parts.map((part) => part(request)) as string[]
}

function partOf<R>(word: Word, reader: Reader<R>, address: Part<R>): Part<R> {
  const colon = typeof word === 'string' ? word.indexOf(':') + 1 : 0
  const [kind, name] = [word.slice(0, colon || undefined), word.slice(colon)]
  if (colon > 0 && name !== '') return namedPart(kind, name, reader) ?? refuse(word)
  if (word === 'ip') return address
  if (word === 'api-key') return (request) => apiKeyOf(request, reader)
  if (word === 'method') return (request) => reader.method(request).toUpperCase()
  if (word === 'path') return (request) => normalPath(reader.url(request))
  if (word === 'host') return (request) => reader.header(request, 'host')?.toLowerCase()
  if (word === 'route' && reader.route !== undefined) return (request) => reader.route?.(request)
  return refuse(word)
}

function namedPart<R>(kind: string, name: string, reader: Reader<R>): Part<R> | undefined {
  if (kind === 'header:') return (request) => reader.header(request, name.toLowerCase())
  if (kind === 'cookie:') return (request) => cookieOf(reader.header(request, 'cookie'), name)
  if (kind === 'query:') return (request) => queryOf(reader.url(request), name)
  return kind === 'jwt:' ? (request) => claimOf(bearer(request, reader), name) : undefined
}

/** Whichever of the two it is, or both if they are the same. */
function apiKeyOf<R>(request: R, reader: Reader<R>): string | undefined {
  return onlyOf([bearer(request, reader), reader.header(request, 'x-api-key')])
}

function bearer<R>(request: R, reader: Reader<R>): string | undefined {
  const value = reader.header(request, 'authorization')
  return value === undefined ? undefined : value.replace(/^bearer[ \t]+/i, '')
}

/** What all say that say something; undefined if they contradict each other: who sends two would choose which one counts, while
 *  the app reads the other. */
export function onlyOf(values: readonly (string | undefined)[]): string | undefined {
  let only: string | undefined
  for (const value of values) {
    if (value === undefined || value === '') continue
    if (only !== undefined && only !== value) return undefined
    only = value
  }
  return only
}

export function cookieOf(header: string | undefined, name: string): string | undefined {
  const values: string[] = []
  for (const pair of header?.split(';') ?? []) {
    const equals = pair.indexOf('=')
    if (equals > 0 && pair.slice(0, equals).trim() === name) values.push(pair.slice(equals + 1).trim())
  }
  return onlyOf(values)
}

export function queryOf(url: string, name: string): string | undefined {
  const start = url.indexOf('?')
  return start < 0 ? undefined : onlyOf(new URLSearchParams(url.slice(start + 1)).getAll(name))
}

/** As it stands: whoever is in front of the limits, or behind them, has to verify the token. */
export function claimOf(token: string | undefined, claim: string): string | undefined {
  try {
    const payload = token?.split('.')[1]?.replaceAll('-', '+').replaceAll('_', '/')
    const bytes = Uint8Array.from(atob(payload ?? ''), (character) => character.charCodeAt(0))
    const value = JSON.parse(new TextDecoder().decode(bytes.buffer))[claim]
    return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined
  } catch {
    return undefined // as good as none
  }
}

function refuse(word: unknown): never {
  throw unknownWord(word)
}

function unknownWord(word: unknown): HeadgateError {
  const hint = typeof word === 'string' ? suggest(word, [...words, ...prefixes]) : ''
  const known = `give a function, or words such as 'ip', 'api-key', 'header:x-user'; 'route' where the framework has routes`
  return new HeadgateError('HG_OPTION_INVALID', `"by" is ${show(word)}${hint || `: ${known}`}`, word)
}
