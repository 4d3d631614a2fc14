import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { HeadgateError, type Store } from 'headgate'
import { type ServeOptions, serveStore } from 'headgate/remote'
import { isWaiting } from './body.ts'

export interface RunOptions extends ServeOptions {
  /** Asked for as `Authorization: Bearer`; absent: anybody may ask. */
  readonly token?: string | undefined
  /** A longer message is refused. Default: 4 MiB, more than `remote()` ever sends at once. */
  readonly maxBytes?: number
}

/** `POST /v1/run`: what `remote()` of the library asks. Resolves when it is answered; never rejects. */
export function runHandler(
  store: Store,
  { token, maxBytes = 4 * 2 ** 20, ...options }: RunOptions = {},
): (req: IncomingMessage, res: ServerResponse) => Promise<void> {
  const serve = serveStore(store, options)
  const isAllowed = token === undefined ? () => true : bearerOf(token)
  return async (req, res) => {
    try {
      if (req.method !== 'POST') throw new Refusal(405, 'method_not_allowed', 'Ask by POST.')
      if (!isAllowed(req)) throw new Refusal(401, 'unauthorized', 'The token is missing or wrong.')
      if (isWaiting(req, res)) res.writeContinue()
      const answer = await serve(await bodyOf(req, maxBytes))
      send(res, 200, 'application/json', answer)
    } catch (reason) {
      if (!res.headersSent && !res.destroyed) refuse(req, res, reason)
    }
  }
}

class Refusal extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, detail: string) {
    super(detail)
    this.status = status
    this.code = code
  }
}

/** Hashes are of one length, so that how long a comparison takes says nothing about the token. */
function bearerOf(token: string): (req: IncomingMessage) => boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest()
  const wanted = hash(token)
  return ({ headers: { authorization = '' } }) => {
    const [, given = ''] = /^bearer +(\S+)$/i.exec(authorization) ?? []
    return timingSafeEqual(hash(given), wanted)
  }
}

async function bodyOf(req: IncomingMessage, maxBytes: number): Promise<string> {
  const tooLarge = () => new Refusal(413, 'body_too_large', `A message has at most ${maxBytes} bytes.`)
  if (Number(req.headers['content-length'] ?? 0) > maxBytes) throw tooLarge()
  const chunks: Buffer[] = []
  let bytes = 0
  // Who sends too much still gets an answer: the connection must not end with the reading.
  for await (const chunk of req.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxBytes) throw tooLarge()
    chunks.push(chunk)
  }
  return (chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)).toString()
}

const titles: Readonly<Record<number, string>> = {
  400: 'Not understood',
  401: 'Not authorized',
  405: 'Method not allowed',
  413: 'Message too large',
  500: 'Failed',
}

function refuse(req: IncomingMessage, res: ServerResponse, reason: unknown): void {
  const { status, code, detail } = problemOf(reason)
  const body = JSON.stringify({ type: 'about:blank', title: titles[status], status, detail, code })
  if (status === 401) res.setHeader('WWW-Authenticate', 'Bearer')
  if (status === 405) res.setHeader('Allow', 'POST')
  // What was not read would be taken for the next request.
  if (!req.complete) res.setHeader('Connection', 'close')
  send(res, status, 'application/problem+json', body)
}

function problemOf(reason: unknown): { readonly status: number; readonly code: string; readonly detail: string } {
  if (reason instanceof Refusal) return { status: reason.status, code: reason.code, detail: reason.message }
  if (reason instanceof HeadgateError) return { status: 400, code: reason.code, detail: reason.message }
  return { status: 500, code: 'failed', detail: 'The message could not be answered.' }
}

function send(res: ServerResponse, status: number, type: string, body: string): void {
  res.writeHead(status, {
    'Content-Type': type,
    'Content-Length': Buffer.byteLength(body),
    'Cache-Control': 'no-store',
  })
  res.end(body)
}
