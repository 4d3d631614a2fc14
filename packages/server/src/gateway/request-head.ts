import type { IncomingMessage } from 'node:http'
import { fieldName, withoutListed } from './fields.ts'
import { pushForwarded, type Told } from './forwarded.ts'
import type { Problem } from './problem.ts'
import type { Peer, RawHeaders } from './types.ts'

/** A request as it goes on. */
export interface RequestHead {
  /** Path and query. */
  readonly target: string
  readonly path: string
  readonly host: string | undefined
  /** All but Host. */
  headers: RawHeaders
  /** Length of the body: 0 is none, -1 is told by chunks. */
  readonly length: number
  /** Expects to be told to continue. */
  readonly expects: boolean
  /** Announces trailers. */
  readonly trailers: boolean
}

/** What the walk over the fields finds beside those that are handed on. */
class Walk {
  readonly headers: RawHeaders = []
  readonly told: Told = {}
  host: string | undefined
  connection = ''
  length = -1
  coding = ''
  expects = false
  trailers = false
  wrong = ''
}

/** Reads a request, or says why it cannot go on. Two readers must never find different ends of it, so what is unclear is refused. */
export function readRequest(req: IncomingMessage, peer: Peer, via: string | undefined): RequestHead | Problem {
  const walk = new Walk()
  const { rawHeaders } = req
  for (let i = 0; i < rawHeaders.length; i += 2) {
    read(walk, rawHeaders[i] as string, rawHeaders[i + 1] as string, peer.chain !== undefined)
  }
  const target = targetOf(req.url ?? '', walk.host)
  const wrong = walk.wrong || framing(walk, req)
  if (wrong !== '') return { code: 'bad_request', detail: wrong }
  if (target === undefined) return { code: 'bad_request', detail: 'The target of the request cannot be forwarded.' }
  const headers = withoutListed(walk.headers, walk.connection)
  pushForwarded(headers, req, peer, walk.told)
  if (via !== undefined) headers.push('Via', `${req.httpVersion} ${via}`)
  const query = target.indexOf('?')
  const length = walk.coding !== '' ? -1 : Math.max(walk.length, 0)
  return {
    target,
    path: query === -1 ? target : target.slice(0, query),
    host: walk.host,
    headers,
    length,
    // Without a body there is nothing to continue with, and HTTP/1.0 knows nothing before an answer.
    expects: walk.expects && length !== 0 && req.httpVersionMinor > 0,
    trailers: walk.trailers && walk.coding !== '',
  }
}

function read(walk: Walk, name: string, value: string, trusted: boolean): void {
  const { lower: lowerName, isHopByHop, tellsOfHops } = fieldName(name)
  switch (lowerName) {
    case 'host':
      if (walk.host !== undefined) walk.wrong = 'The request has more than one Host.'
      walk.host = value
      return
    case 'content-length':
      readLength(walk, value)
      return
    case 'transfer-encoding':
      walk.coding += walk.coding === '' ? value : `,${value}`
      return
    case 'connection':
      walk.connection += walk.connection === '' ? value : `,${value}`
      return
    case 'expect':
      walk.expects = value.toLowerCase() === '100-continue'
      return
    case 'trailer':
      walk.trailers = true
      break
  }
  if (isHopByHop) return
  if (tellsOfHops && !keepsTold(walk.told, lowerName, value, trusted)) return
  walk.headers.push(name, value)
}

function readLength(walk: Walk, value: string): void {
  if (!/^\d{1,15}$/.test(value)) walk.wrong = 'The Content-Length of the request is not a number.'
  const length = Number(value)
  if (walk.length !== -1 && walk.length !== length) walk.wrong = 'The request has more than one Content-Length.'
  walk.length = length
}

/** Sorts out what the peer told of hops before it. Whether the field is handed on as it is. */
function keepsTold(told: Told, lowerName: string, value: string, trusted: boolean): boolean {
  if (!trusted || lowerName.includes('_')) return false
  switch (lowerName) {
    case 'x-forwarded-for':
    case 'x-real-ip':
    case 'forwarded':
      return false
    case 'x-forwarded-proto':
      told.proto = value
      return false
    case 'x-forwarded-host':
      told.host = value
      return false
    default:
      return true
  }
}

/** Whether all will agree where the body ends. Node refuses most of this itself, unless it was told to be lenient. */
function framing(walk: Walk, req: IncomingMessage): string {
  if (walk.coding === '') return ''
  if (walk.length !== -1) return 'The request has both Content-Length and Transfer-Encoding.'
  if (walk.coding.trim().toLowerCase() !== 'chunked') return 'The Transfer-Encoding of the request is not chunked.'
  return req.httpVersionMinor === 0 ? 'HTTP/1.0 knows no Transfer-Encoding.' : ''
}

/** The path of a request, also of one that names its server in the target; those two must not contradict. */
function targetOf(url: string, host: string | undefined): string | undefined {
  // What stands behind a # would be a path to one server and nothing to another.
  if (url.charCodeAt(0) === 47 /* / */) return url.includes('#') ? undefined : url
  const [, authority, rest] = /^https?:\/\/([^/?#]+)([^#]*)$/i.exec(url) ?? []
  if (authority === undefined || rest === undefined || authority.toLowerCase() !== host?.toLowerCase()) return undefined
  return rest.startsWith('/') ? rest : `/${rest}`
}
