import { invalid } from '../failure.ts'
import { fieldName, isFieldText, optionsOf, withoutListed } from '../fields.ts'
import type { RawHeaders } from '../types.ts'

/** The head of a response, as far as it concerns others than the two ends of its connection. */
export class ResponseHead {
  readonly status: number
  /** Empty where it is no text, or not there. */
  readonly reason: string
  /** Fields that go on. */
  headers: RawHeaders = []
  /** What `Content-Length` says; -1: nothing. */
  length = -1
  isChunked = false
  /** Names of the trailers that are announced. */
  trailer = ''
  /** The protocol that follows a 101. */
  upgrade = ''
  /** Whether the connection can be used again, and for how long it may rest until then; undefined: nobody says. */
  keepsAlive: boolean
  restsMs: number | undefined

  constructor(status: number, reason: string, minor: number) {
    this.status = status
    this.reason = reason
    this.keepsAlive = minor === 1
  }
}

const STATUS = /^[1-9]\d\d$/
const REASON = /^[\t\x20-\x7e]*$/

/** @param text all of it without the empty line at its end, one character per byte */
export function parseHead(text: string): ResponseHead {
  const firstEnd = endOfLine(text, 0)
  const minor = minorOf(text)
  const head = new ResponseHead(statusOf(text, firstEnd), reasonOf(text.slice(13, firstEnd)), minor)
  let connection = ''
  let keepAlive = ''
  for (let at = firstEnd + 2; at < text.length; ) {
    const end = endOfLine(text, at)
    const colon = colonOf(text, at, end)
    const name = text.slice(at, colon)
    const value = fieldValue(text, colon + 1, end)
    at = end + 2
    const { lower, isToken, isHopByHop } = fieldName(name)
    if (!isToken) throw invalid('a field whose name is none')
    if (isHopByHop) {
      if (lower === 'connection') connection += connection === '' ? value : `,${value}`
      else if (lower === 'keep-alive') keepAlive = value
      else if (lower === 'transfer-encoding') readCoding(head, value, minor)
      else if (lower === 'upgrade') head.upgrade = value
    } else if (lower === 'trailer') head.trailer += head.trailer === '' ? value : `, ${value}`
    else {
      if (lower === 'content-length') readLength(head, value)
      head.headers.push(name, value)
    }
  }
  if (head.isChunked && head.length !== -1) throw invalid('both a length and chunks')
  if (connection !== '') readConnection(head, connection, minor)
  if (keepAlive !== '') head.restsMs = restsMsOf(keepAlive)
  return head
}

/** Fields that come after a body. */
export function parseTrailers(text: string): string[] {
  const trailers: string[] = []
  for (let at = 0; at < text.length; ) {
    const end = endOfLine(text, at)
    const colon = colonOf(text, at, end)
    const name = text.slice(at, colon)
    if (!fieldName(name).isToken) throw invalid('a trailer whose name is none')
    trailers.push(name, fieldValue(text, colon + 1, end))
    at = end + 2
  }
  return trailers
}

function endOfLine(text: string, from: number): number {
  const end = text.indexOf('\r\n', from)
  return end === -1 ? text.length : end
}

function minorOf(text: string): 0 | 1 {
  if (text.startsWith('HTTP/1.1 ')) return 1
  if (text.startsWith('HTTP/1.0 ')) return 0
  throw invalid('what is not HTTP/1')
}

function statusOf(text: string, end: number): number {
  const status = text.slice(9, 12)
  // A server may leave out the reason, and with it the blank before it.
  if (STATUS.test(status) && (end === 12 || text[12] === ' ')) return Number(status)
  throw invalid('a status that is none')
}

function reasonOf(text: string): string {
  if (text === 'OK') return text
  if (!isFieldText(text)) throw invalid('a reason with control characters')
  return REASON.test(text) ? text : ''
}

/** A line that begins with a blank would go on with the one before; that is as deprecated as it is dangerous. */
function colonOf(text: string, start: number, end: number): number {
  const colon = text.indexOf(':', start)
  if (colon <= start || colon >= end) throw invalid('a field without a name')
  return colon
}

function fieldValue(text: string, start: number, end: number): string {
  let from = start
  let to = end
  while (from < to && isBlank(text.charCodeAt(from))) from++
  while (to > from && isBlank(text.charCodeAt(to - 1))) to--
  const value = text.slice(from, to)
  if (!isFieldText(value)) throw invalid('a field with control characters')
  return value
}

function isBlank(code: number): boolean {
  return code === 32 || code === 9
}

/** Said twice it is refused even if both are alike: who tells it twice may mean two messages. */
function readLength(head: ResponseHead, value: string): void {
  if (head.length !== -1 || !/^\d{1,15}$/.test(value)) throw invalid('a length that is none')
  head.length = Number(value)
}

/** Undoing other codings is not our part, and without this field nobody else could. */
function readCoding(head: ResponseHead, value: string, minor: number): void {
  if (head.isChunked || minor === 0 || value.toLowerCase() !== 'chunked') throw invalid(`coding ${value}`)
  head.isChunked = true
}

function readConnection(head: ResponseHead, connection: string, minor: number): void {
  if (connection !== 'keep-alive') head.headers = withoutListed(head.headers, connection)
  const options = optionsOf(connection)
  head.keepsAlive = !options.includes('close') && (minor === 1 || options.includes('keep-alive'))
}

function restsMsOf(keepAlive: string): number | undefined {
  const seconds = /(?:^|[\s,])timeout\s*=\s*"?(\d{1,9})/i.exec(keepAlive)?.[1]
  return seconds === undefined ? undefined : Number(seconds) * 1000
}
