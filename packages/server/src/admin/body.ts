import type { IncomingMessage } from 'node:http'
import { AdminError } from './problem.ts'

const MOST_JSON_BYTES = 65_536

/** The whole body, if it is not too large and of one of these media types; none said is fine too. */
export async function readText(req: IncomingMessage, types: readonly string[], mostBytes: number): Promise<string> {
  const type = req.headers['content-type']?.split(';')[0]?.trim().toLowerCase() ?? ''
  if (type !== '' && !types.includes(type)) throw new AdminError('media_type', `This reads ${types.join(', ')}.`)
  if (req.headers['content-encoding'] !== undefined)
    throw new AdminError('media_type', 'Send the body as it is, not compressed.')
  const bytes = await readBytes(req, mostBytes)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new AdminError('bad_body', 'The body is not UTF-8.')
  }
}

async function readBytes(req: IncomingMessage, most: number): Promise<Buffer> {
  const tooLarge = () => new AdminError('body_too_large', `A body has at most ${most} bytes here.`)
  if (Number(req.headers['content-length'] ?? 0) > most) throw tooLarge()
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let length = 0
    // Not by iterating, which destroys the connection that the answer goes out on.
    req.on('data', (chunk: Buffer) => {
      length += chunk.length
      if (length <= most) chunks.push(chunk)
      else reject(tooLarge())
    })
    req.once('end', () => resolve(Buffer.concat(chunks)))
    const cut = () => reject(new AdminError('bad_body', 'The body ended too early.'))
    req.once('error', cut)
    req.once('close', cut)
  })
}

export async function readJson(req: IncomingMessage): Promise<unknown> {
  const text = await readText(req, ['application/json'], MOST_JSON_BYTES)
  try {
    return JSON.parse(text)
  } catch (error) {
    // The message of the parser quotes what it read.
    const [, position] = /position (\d+)/.exec(String(error)) ?? []
    const where = position === undefined ? '' : ` at position ${position}`
    throw new AdminError('bad_body', `The body is not JSON${where}: send an object such as { "mode": "observe" }.`)
  }
}
