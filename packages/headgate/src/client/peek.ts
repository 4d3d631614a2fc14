import { after, type Clock } from '../clock.ts'

const REFUSAL_BYTES = 16_384
const GRAPHQL_BYTES = 1_048_576
/** A body that takes longer to come says nothing. */
const PATIENCE_MS = 1_000

/** The JSON of an answer that may say something about limits in its body, which can still be read by whoever gets it. */
export async function peekJson(response: Response, url: string, clock: Clock | undefined): Promise<unknown> {
  const isRefusal = [403, 429, 503].includes(response.status)
  const isGraphql = response.status === 200 && /\/graphql(?:\.json)?(?:[?#]|$)/i.test(url)
  if ((!isRefusal && !isGraphql) || response.body === null) return undefined
  if (!/\bjson\b|\+json/i.test(response.headers.get('content-type') ?? '')) return undefined
  try {
    return JSON.parse(await textOf(response.clone(), isRefusal ? REFUSAL_BYTES : GRAPHQL_BYTES, clock))
  } catch {
    return undefined
  }
}

async function textOf(copy: Response, mostBytes: number, clock: Clock | undefined): Promise<string> {
  const reader = (copy.body as ReadableStream).getReader()
  const stop = () => void reader.cancel().catch(() => {})
  const cancelTimer = after(clock, PATIENCE_MS, stop)
  const decoder = new TextDecoder()
  const pieces: Uint8Array[] = []
  try {
    for (let bytes = 0; ; ) {
      const { done, value } = await reader.read()
      if (done) return pieces.map((piece) => decoder.decode(piece, { stream: true })).join('') + decoder.decode()
      bytes += value.length
      pieces.push(value)
      if (bytes > mostBytes) {
        stop()
        return ''
      }
    }
  } finally {
    cancelTimer()
  }
}
