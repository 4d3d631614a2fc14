import { after, type Clock } from '../clock.ts'

const REFUSAL_BYTES = 16_384
const GRAPHQL_BYTES = 1_048_576
/** A body that takes longer to come says nothing. */
const PATIENCE_MS = 1_000

/** How much of a body may say something about limits; 0: none of it. */
export function tellingBytes(status: number, url: string, contentType: string | null | undefined): number {
  if (!/\bjson\b|\+json/i.test(contentType ?? '')) return 0
  if ([403, 429, 503].includes(status)) return REFUSAL_BYTES
  return status === 200 && /\/graphql(?:\.json)?(?:[?#]|$)/i.test(url) ? GRAPHQL_BYTES : 0
}

/** Of bytes that hold JSON, or nothing. */
export function parseJson(pieces: readonly Uint8Array[]): unknown {
  const decoder = new TextDecoder()
  try {
    return JSON.parse(pieces.map((piece) => decoder.decode(piece, { stream: true })).join('') + decoder.decode())
  } catch {
    return undefined
  }
}

/** The JSON of an answer that may say something about limits in its body, which can still be read by whoever gets it. */
export async function peekJson(response: Response, url: string, clock: Clock | undefined): Promise<unknown> {
  const mostBytes = tellingBytes(response.status, url, response.headers.get('content-type'))
  if (mostBytes === 0 || response.body === null) return undefined
  return parseJson(await piecesOf(response.clone(), mostBytes, clock))
}

async function piecesOf(copy: Response, mostBytes: number, clock: Clock | undefined): Promise<Uint8Array[]> {
  const reader = (copy.body as ReadableStream).getReader()
  const stop = () => void reader.cancel().catch(() => {})
  const cancelTimer = after(clock, PATIENCE_MS, stop)
  const pieces: Uint8Array[] = []
  try {
    for (let bytes = 0; bytes <= mostBytes; ) {
      const { done, value } = await reader.read()
      if (done) return pieces
      bytes += value.length
      pieces.push(value)
    }
    stop()
  } catch {
    // Whoever reads the answer will find out.
  } finally {
    cancelTimer()
  }
  return []
}
