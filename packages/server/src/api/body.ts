import type { IncomingMessage, ServerResponse } from 'node:http'
import { Refusal } from './problem.ts'

/** What comes after a body was refused as too large is thrown away, up to so many times as much: an answer that comes while its
 *  caller still sends is lost when the connection is cut. */
const DISCARDED = 16
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false })

/** The JSON in a body, whatever its type is said to be. Undefined if its caller went away. */
export async function readJson(req: IncomingMessage, res: ServerResponse, maxBytes: number): Promise<unknown> {
  const bytes = await readBytes(req, res, maxBytes)
  return bytes === undefined ? undefined : parse(bytes)
}

function readBytes(req: IncomingMessage, res: ServerResponse, maxBytes: number): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let length = 0
    const refuse = () => reject(tooLarge(maxBytes))
    if (Number(req.headers['content-length'] ?? 0) > maxBytes) refuse()
    else if (isWaiting(req, res)) res.writeContinue()
    req.on('data', (chunk: Buffer) => {
      length += chunk.length
      if (length <= maxBytes) chunks.push(chunk)
      else chunks.length = 0
      if (length > maxBytes) refuse()
      if (length > maxBytes * DISCARDED) req.destroy()
    })
    req.on('end', () => resolve(Buffer.concat(chunks)))
    req.on('close', () => resolve(undefined))
    req.on('error', () => resolve(undefined))
  })
}

/** A server with a listener for `checkContinue` leaves it to us to say so, another has said it. A second one confuses clients. */
export function isWaiting(req: IncomingMessage, res: ServerResponse): boolean {
  return req.headers.expect !== undefined && (res as { _sent100?: boolean })._sent100 !== true
}

function tooLarge(maxBytes: number): Refusal {
  return new Refusal(413, 'body_too_large', `A body has at most ${maxBytes} bytes: split the batch.`)
}

function parse(bytes: Buffer): unknown {
  try {
    const text = decoder.decode(bytes)
    return text.includes('__proto__') ? JSON.parse(text, refuseProto) : JSON.parse(text)
  } catch (error) {
    if (error instanceof Refusal) throw error
    const why = error instanceof SyntaxError ? error.message : 'it is not UTF-8, or nested too deep'
    const detail = bytes.length === 0 ? 'The body is empty: send JSON.' : `This is no JSON: ${why}.`
    throw new Refusal(400, 'invalid_json', detail)
  }
}

/** The one name that is not kept like others: what stands under it would be passed over in silence. */
function refuseProto(name: string, value: unknown): unknown {
  if (name === '__proto__') throw new Refusal(400, 'unknown_field', 'Nothing is named __proto__ here.')
  return value
}
