import { isIP } from 'node:net'

/** A request that a log tells of. */
export interface Logged {
  /** When it came, in milliseconds since the epoch. */
  atMs: number
  /** How long it took; undefined: the log does not say. */
  readonly tookMs: number | undefined
  /** Its time is that of its end, as servers write it that log when they are done. */
  readonly timedAtEnd: boolean
  /** Its time is told to the second only. */
  readonly inWholeSeconds: boolean
  readonly method: string
  readonly url: string
  /** The other end of the connection; undefined: the log does not say, or tells a name. */
  readonly peer: string | undefined
  readonly status: number | undefined
  /** By its lower-case name. Undefined: the request had none; null: the log does not say. */
  header(name: string): string | undefined | null
}

/** Why a line is no request. */
export class Unread {
  readonly reason: string

  constructor(reason: string) {
    this.reason = reason
  }
}

export const NO_REQUEST = new Unread('tells of no request')
export const NO_TIME = new Unread('has no time that can be read')
export const OTHER_FORMAT = new Unread('is not in the format of its file')

/** Reads a line. Never throws, whatever the line is. */
export type ReadLine = (line: string) => Logged | Unread

/** Servers that are told to keep a secret write this in its place. */
const REDACTED = /^[[(<{*]*redacted|^\[?filtered\]?$|^\*{3,}$/i

/** What a log has where a header belongs: `-`, an empty text and null stand for none. */
export function toldHeader(value: unknown): string | undefined | null {
  if (value === null || value === '' || value === '-') return undefined
  if (Array.isArray(value)) return value.length === 0 ? undefined : toldHeader(value.join(', '))
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  return typeof value !== 'string' || REDACTED.test(value) ? null : value
}

/** An address, with a port or without; undefined: a name, or the path of a socket. */
export function peerIn(text: string): string | undefined {
  if (isIP(text) !== 0) return text
  const [, inner = ''] = /^\[([^\]]+)\](?::\d+)?$/.exec(text) ?? /^([\d.]+):\d+$/.exec(text) ?? []
  return isIP(inner) === 0 ? undefined : inner
}

const REQUEST_LINE = /^([\w!#$%&'*+.^`|~-]+) (\S+)(?: HTTP\/\d(?:\.\d)?)?$/

/** `GET /a?b HTTP/1.1`. */
export function requestLine(text: string): { readonly method: string; readonly url: string } | undefined {
  const [, method, url] = REQUEST_LINE.exec(text) ?? []
  return method === undefined || url === undefined || !isTarget(url) ? undefined : { method, url }
}

export function isMethod(text: unknown): text is string {
  return typeof text === 'string' && /^[\w!#$%&'*+.^`|~-]+$/.test(text)
}

/** What a request asks for: a path, a whole URL, or `*`. A name and port, as CONNECT has it, is no path. */
export function isTarget(text: unknown): text is string {
  return typeof text === 'string' && (text.startsWith('/') || text === '*' || /^https?:\/\//i.test(text))
}

/** Three digits; nginx tells of a client that left as 499, Apache and Envoy of none by `-` and 0. */
export function statusIn(value: unknown): number | undefined {
  const status = Number(value)
  if (value === '-' || status === 0) return 499
  return Number.isInteger(status) && status >= 100 && status <= 999 ? status : undefined
}
