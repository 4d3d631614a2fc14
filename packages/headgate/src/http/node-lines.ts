import type { ServerResponse as Response } from 'node:http'
import type { Decision } from '../decision.ts'
import type { SetHeader } from '../headers/format.ts'
import type { Core } from './core.ts'
import { type Fields, fieldSetter, fieldsOf, findPlace, OWN_SETTER, placer } from './node-fields.ts'
import { inOnePiece } from './node-one-piece.ts'

/** Where Node makes the text of a head: the status line, then its fields; and what its types leave out. */
interface Storing {
  _storeHeader(first: string, fields: unknown): void
  getRawHeaderNames(): string[]
  readonly _header?: string | null
}

type Responses = new (...args: never[]) => Response

// Shared by all copies of this library in a process, as is `OWN_SETTER`: two kinds of lines would know nothing of each other.
const LINES = Symbol.for('headgate.lines')

/** A response whose head takes lines as they are. To whoever looks, they are fields like any. */
export interface Lined extends Response {
  [LINES]: string
  /** What `setHeader` is, unless somebody has put another in its place. */
  readonly [OWN_SETTER]: Response['setHeader']
}

/** Writes the fields of a decision into a response. Not as lines if somebody looks at its fields in the end: what `writeHead` is given
 *  Node keeps only beside others. */
export function tell<R extends object>(
  core: Core<R>,
  decision: Decision<unknown>,
  response: Response,
  addedMs: number,
): void {
  const isWatched = core.watches && decision.ok
  const lines = !isWatched && takesLines(response) ? core.lines(decision, addedMs) : undefined
  if (lines === undefined) core.writeHeaders(decision, setterOf(response), addedMs)
  else setLines(response, lines)
}

function setterOf(response: Response): SetHeader {
  if (!isLined(response)) return fieldSetter(response)
  unfold(response)
  return placer(fieldsOf(response) as Fields)
}

/** Whether its head takes lines, and has nothing yet that they would have to replace. */
export function takesLines(response: object): response is Lined {
  return isLined(response) && response[LINES] === '' && fieldsOf(response, false) === null
}

function isLined(response: object): response is Lined {
  const own = (response as Lined)[OWN_SETTER]
  if (own === undefined) adopt(response)
  // Another copy of this library may have made it, before this one knows where fields are.
  return own !== undefined && (response as Lined).setHeader === own && fieldsOf(response as Lined, false) !== undefined
}

/** Each ends with CRLF and needs no check; names are in lower case and begin with r or x. */
export function setLines(response: object, lines: string): void {
  ;(response as Lined)[LINES] = lines
}

/** Servers that were looked at. */
const known = new WeakSet<object>()
const classes = new WeakMap<Responses, Responses>()

/**
 * From the next one on, the server of this response makes such as take lines. `createServer` has an option for that, but whoever
 * mounts a middleware has not used it; the server keeps it under a symbol.
 */
function adopt(response: object): void {
  const { server } = ((response as Partial<Response>).req?.socket ?? {}) as {
    server?: Record<symbol, Responses | undefined>
  }
  if (typeof server !== 'object' || known.has(server)) return
  known.add(server)
  const prototype: unknown = Object.getPrototypeOf(response)
  for (const symbol of Object.getOwnPropertySymbols(server)) {
    const Base = server[symbol]
    if (typeof Base !== 'function' || Base.prototype !== prototype) continue
    if (!classes.has(Base)) classes.set(Base, lined(Base))
    server[symbol] = classes.get(Base)
  }
}

/**
 * Responses that take lines. Node checks each field by two expressions and compares its name with those that it minds itself; for the
 * six that tell of limits that takes longer than the decision. Text that needs no check goes behind the status line as it is. Once
 * somebody asks for such a name, or for all, the lines become fields.
 *
 * The same class as was given where that would not work: in a Node that makes heads in another way, or what only looks like Node.
 */
export function lined<Base extends Responses>(Plain: Base): Base {
  const Base = inOnePiece(Plain)
  const base = Base.prototype as Response & Storing

  // Has its name from here: to set one later makes engines construct it at half the speed.
  class ServerResponse extends (Base as unknown as new (...args: unknown[]) => Response) {
    declare [LINES]: string

    constructor(...args: unknown[]) {
      super(...args)
      this[LINES] = ''
    }

    _storeHeader(first: string, fields: unknown): void {
      base._storeHeader.call(this, first + this[LINES], fields)
    }

    override writeHead(status: number, reason?: unknown, fields?: unknown): this {
      const given = typeof reason === 'string' ? fields : (fields ?? reason)
      if (this[LINES] !== '' && replacesLine(given, this[LINES])) unfold(this)
      const write = base.writeHead as (...args: unknown[]) => unknown
      if (!isList(given) || fieldsOf(this, false) === null) write.call(this, status, reason, fields)
      else {
        setList(this, given)
        write.call(this, status, typeof reason === 'string' ? reason : undefined)
      }
      return this
    }

    override getHeader(name: string): ReturnType<Response['getHeader']> {
      if (mayBeLine(name)) unfold(this)
      return base.getHeader.call(this, name)
    }

    override hasHeader(name: string): boolean {
      if (mayBeLine(name)) unfold(this)
      return base.hasHeader.call(this, name)
    }

    override setHeader(name: string, value: number | string | readonly string[]): this {
      if (mayBeLine(name)) unfold(this)
      base.setHeader.call(this, name, value)
      return this
    }

    override appendHeader(name: string, value: string | readonly string[]): this {
      if (mayBeLine(name)) unfold(this)
      base.appendHeader.call(this, name, value)
      return this
    }

    override removeHeader(name: string): void {
      if (mayBeLine(name)) unfold(this)
      base.removeHeader.call(this, name)
    }

    override getHeaders(): ReturnType<Response['getHeaders']> {
      unfold(this)
      return base.getHeaders.call(this)
    }

    override getHeaderNames(): string[] {
      unfold(this)
      return base.getHeaderNames.call(this)
    }

    getRawHeaderNames(): string[] {
      unfold(this)
      return base.getRawHeaderNames.call(this)
    }
  }
  Object.defineProperty(ServerResponse.prototype, OWN_SETTER, { value: ServerResponse.prototype.setHeader })
  return sendsLines(Base as never, ServerResponse as never) ? (ServerResponse as never) : Plain
}

type Made<R> = new (request: object) => R

function sendsLines(Base: Made<Response>, Responses: Made<Lined & Storing>): boolean {
  const request = { method: 'GET', httpVersionMajor: 1, httpVersionMinor: 1 }
  try {
    if (!findPlace(new Base(request))) return false
    const response = new Responses(request)
    setLines(response, 'x-probe: 1\r\n')
    response.writeHead(200, ['content-length', '2'])
    return response._header?.startsWith('HTTP/1.1 200 OK\r\nx-probe: 1\r\ncontent-length: 2\r\n') === true
  } catch {
    return false
  }
}

/** Lines become fields. They go straight to their place: `setHeader` would refuse them once the head was sent. */
function unfold(response: object): void {
  const lined = response as Lined
  const lines = lined[LINES]
  if (lines === '') return
  lined[LINES] = ''
  const place = placer(fieldsOf(lined) as Fields)
  for (const line of lines.slice(0, -2).split('\r\n')) {
    const colon = line.indexOf(': ')
    place(line.slice(0, colon), line.slice(colon + 2))
  }
}

const [R, X] = ['r'.charCodeAt(0), 'x'.charCodeAt(0)]

/** What is no text is Node's to refuse. */
function mayBeLine(name: unknown): boolean {
  if (typeof name !== 'string') return false
  const first = name.charCodeAt(0) | 0x20
  return first === R || first === X
}

/** Whether among the fields that `writeHead` was given is one of the lines. */
function replacesLine(fields: unknown, lines: string): boolean {
  if (typeof fields !== 'object' || fields === null) return false
  if (!Array.isArray(fields)) {
    for (const name in fields) if (isLine(name, lines)) return true
    return false
  }
  for (let i = 0; i < fields.length; i += 2) if (typeof fields[i] !== 'string' || isLine(fields[i], lines)) return true
  return false
}

function isLine(name: string, lines: string): boolean {
  if (!mayBeLine(name)) return false
  const start = `${name.toLowerCase()}: `
  return lines.startsWith(start) || lines.includes(`\r\n${start}`)
}

/** Names and values in turn; anything else in a list is Node's to refuse. */
function isList(fields: unknown): fields is string[] {
  return Array.isArray(fields) && fields.length % 2 === 0
}

/** Beside fields that were set, Node 20 keeps only the last of each name in a list; from 22 on it does this. */
function setList(response: Response, list: readonly string[]): void {
  for (let i = 0; i < list.length; i += 2) response.removeHeader(list[i] as string)
  for (let i = 0; i < list.length; i += 2) if (list[i]) response.appendHeader(list[i] as string, list[i + 1] as string)
}
