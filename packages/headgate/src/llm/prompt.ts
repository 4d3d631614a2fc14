import { type CountTokens, countedTokens, MOST_TOKENS, tokensInBytes, utf8Bytes } from './tokens.ts'

/** What of a body a model gets to read: what was written for it, and what describes tools and formats. */
const written = ['messages', 'system', 'input', 'instructions', 'prompt', 'suffix']
const described = ['tools', 'functions', 'response_format', 'text', 'output_config']

const images = ['image', 'image_url', 'input_image']
const files = ['file', 'document', 'input_file']
/** Base64 characters of speech that are taken to be a token: a tenth of a second at the lowest rate that is in use. */
const SPEECH_PER_TOKEN = 100

/** What of a prompt is not text. */
interface Rest {
  /** Images, and files that are only named. */
  media: number
  /** Tokens that were sent as such, or are known otherwise. */
  tokens: number
}

/**
 * How many tokens a model is given to read, before anybody has counted them. All texts count, and the names that JSON gives them,
 * which stand for what providers put around messages and tools.
 */
export function promptTokens(
  body: Readonly<Record<string, unknown>>,
  model: string,
  mediaTokens: number,
  count: CountTokens | undefined,
): number {
  const rest: Rest = { media: 0, tokens: 0 }
  const texts: string[] = []
  let bytes = 0
  const add = (text: string) => {
    if (count !== undefined) texts.push(text)
    // A byte for what stands between this text and the next.
    else bytes += utf8Bytes(text) + 1
  }
  for (const name of written) walk(body[name], add, rest)
  for (const name of described) walk(body[name], add)
  const inText = count === undefined ? tokensInBytes(bytes) : countedTokens(count, texts.join('\n'), model)
  return Math.min(inText + rest.tokens + rest.media * mediaTokens, MOST_TOKENS)
}

/** Without recursion: how deep a body goes is up to whoever sends it. */
function walk(root: unknown, add: (text: string) => void, rest?: Rest): void {
  const open: unknown[] = [root]
  while (open.length > 0) {
    const value = open.pop()
    if (typeof value === 'string') {
      if (rest !== undefined && /^data:image\//i.test(value)) rest.media++
      else add(value)
    } else if (Array.isArray(value)) {
      for (const each of value) {
        // Texts for embedding may come as tokens already.
        if (typeof each === 'number' && rest !== undefined) rest.tokens++
        else open.push(each)
      }
    } else if (typeof value === 'object' && value !== null) {
      if (rest === undefined || !isMedia(value, rest))
        for (const [name, each] of Object.entries(value)) pushNamed(name, each)
    } else if (value !== undefined && value !== null) add(String(value))
  }
  function pushNamed(name: string, value: unknown): void {
    if (value === undefined || value === null) return
    add(name)
    open.push(value)
  }
}

/** Whether a part of a message needs no further look. Its data is no text: an image costs by its size in pixels, speech by its length. */
function isMedia(part: object, rest: Rest): boolean {
  const { type, image_url, source, file_id, input_audio } = part as Readonly<Record<string, unknown>>
  if (typeof type !== 'string') return false
  if (images.includes(type)) {
    rest.media++
    return image_url !== undefined || source !== undefined || file_id !== undefined
  }
  // What a file says is read on as text, if it is here; if not, it is worth an image.
  if (files.includes(type)) rest.media++
  const data = type === 'input_audio' && (input_audio as { data?: unknown } | null | undefined)?.data
  if (typeof data !== 'string') return false
  rest.tokens += Math.ceil(data.length / SPEECH_PER_TOKEN)
  return true
}
