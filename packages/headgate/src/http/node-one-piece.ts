import type { ServerResponse as Response } from 'node:http'

/** What Node has of a response that is to be sent. */
interface Sending {
  /** Sends, with the head in front if that is not sent yet. */
  _send(data: unknown, encoding?: unknown, done?: unknown, bytes?: unknown): boolean
  readonly _header?: string | null
  readonly _headerSent?: boolean
  /** What waits for a connection. */
  readonly outputData?: readonly { readonly data: unknown; callback?(): void }[]
}

type Responses<R = Response> = new (...args: never[]) => R

/** The text that `end` was given, until it leaves; null: it has not come by yet; undefined: whatever is sent leaves as ever. */
const LAST = Symbol('last')

/** How it was to be spelled. */
const SPELLED = Symbol('spelled')

/**
 * Responses whose last text leaves with the head in one piece. Up to Node 22 `end` sends it and then nothing, to learn when that has
 * left: a list of two, which takes a tenth of a small answer's time. And it spells the head in UTF-8 with the body, letter by
 * letter, which is the same bytes as long as all of them are ASCII, and slower the longer the head.
 *
 * The same class as was given where Node does so itself, as from 24 on, or sends in another way.
 */
export function inOnePiece<Base extends Responses>(Base: Base): Base {
  if (piecesOf(Base as never) !== 2) return Base
  const base = Base.prototype as Response & Sending

  // As for its name, see node-lines.ts.
  class ServerResponse extends (Base as unknown as new (...args: unknown[]) => Response) {
    declare [LAST]: string | null | undefined
    declare [SPELLED]: unknown

    override end(chunk?: unknown, encoding?: unknown, done?: unknown): this {
      const end = base.end as (...args: unknown[]) => this
      if (typeof chunk !== 'string' || !(encoding === 'latin1' || isUtf8(encoding)))
        return end.call(this, chunk, encoding, done)
      this[LAST] = null
      try {
        return end.call(this, chunk, encoding, done)
      } finally {
        this[LAST] = undefined
      }
    }

    _send(data: unknown, encoding?: unknown, done?: unknown, bytes?: unknown): boolean {
      const last = this[LAST]
      if (last === null && typeof data === 'string' && data !== '' && !this.chunkedEncoding) {
        this[LAST] = data // `done` is nothing: that all has left is said of what follows
        this[SPELLED] = encoding
        return true
      }
      this[LAST] = undefined
      if (typeof last !== 'string') return base._send.call(this, data, encoding, done, bytes)
      const isLatin = this[SPELLED] === 'latin1' || (isAscii(last) && isHeadAscii(this))
      return base._send.call(this, `${last}${data}`, isLatin ? 'latin1' : 'utf8', done)
    }
  }
  return piecesOf(ServerResponse as never) === 1 ? (ServerResponse as never) : Base
}

/** Into how many a small answer goes; 0: not as expected, or it is not said of the last one when all has left. */
function piecesOf(Responses: Responses<Response & Sending>): number {
  const request = { method: 'GET', httpVersionMajor: 1, httpVersionMinor: 1 } as never
  try {
    const response = new Responses(request)
    response.writeHead(200, ['content-length', '2']).end('ok')
    const { _header: head, outputData: pieces = [] } = response
    let isOver = false
    response.once('finish', () => {
      isOver = true
    })
    pieces.at(-1)?.callback?.()
    return isOver && pieces.map(({ data }) => data).join('') === `${head}ok` ? pieces.length : 0
  } catch {
    return 0
  }
}

function isUtf8(encoding: unknown): boolean {
  return encoding === undefined || encoding === null || encoding === 'utf8' || typeof encoding === 'function'
}

function isHeadAscii({ _header: head, _headerSent: isSent }: Sending): boolean {
  return isSent === true || isAscii(head ?? '')
}

/** Up to here a call of what Node has for it takes longer. */
const SHORT = 100

function isAscii(text: string): boolean {
  if (text.length > SHORT) return Buffer.byteLength(text) === text.length
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 0x7f) return false
  return true
}
