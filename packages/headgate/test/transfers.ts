// Uploads and downloads by clients that say how they ended, also where they were cut off.
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'

export const OCTETS = { 'content-type': 'application/octet-stream' }

export interface Ended {
  /** Undefined: there was no answer. */
  readonly status: number | undefined
  readonly headers: IncomingMessage['headers']
  readonly body: string
  /** All of it came. */
  readonly whole: boolean
}

type Fields = Readonly<Record<string, string | number>>

/** Sends the pieces one by one. Without a length it is chunked; one that is longer than the pieces is never ended. */
export async function upload(
  port: number,
  pieces: readonly number[],
  length?: number,
  fields: Fields = {},
): Promise<Ended> {
  const headers = { ...OCTETS, ...fields, ...(length !== undefined && { 'content-length': length }) }
  const request = httpRequest({ port, host: '127.0.0.1', path: '/upload', method: 'POST', headers, agent: false })
  const ended = endOf(request)
  for (const piece of pieces) {
    request.write(Buffer.alloc(piece, 'u'))
    await new Promise((resolve) => setImmediate(resolve))
  }
  if (length === undefined || pieces.reduce((a, b) => a + b, 0) === length) request.end()
  return ended
}

export function download(port: number, path: string, headers: Fields = {}): Promise<Ended> {
  const request = httpRequest({ port, host: '127.0.0.1', path, headers, agent: false })
  const ended = endOf(request)
  request.end()
  return ended
}

/** However it ends. */
export async function endOf(request: ClientRequest): Promise<Ended> {
  const response = await new Promise<IncomingMessage | undefined>((resolve) => {
    request.on('response', resolve).on('error', () => resolve(undefined))
  })
  if (response === undefined) return { status: undefined, headers: {}, body: '', whole: false }
  let body = ''
  response.setEncoding('latin1')
  try {
    for await (const piece of response) body += piece
  } catch {
    // It was cut off.
  }
  return { status: response.statusCode, headers: response.headers, body, whole: response.complete }
}
