import { wholeTokens } from './tokens.ts'

/** What a call used, in tokens. */
export interface Usage {
  /** All that the model was given, from a cache and into it too. */
  readonly input: number
  /** All that it made, thoughts that nobody sees too. */
  readonly output: number
  /** Of the input, what came from a cache. */
  readonly cachedInput: number
  /** Of the input, what was put into a cache. */
  readonly cacheWrite: number
  /** Of the output, thoughts. */
  readonly reasoning: number
}

/** What providers write, under one name each. They come in pieces while an answer is streamed. */
export interface UsageFields {
  /** With what came from a cache, as OpenAI counts. */
  readonly prompt?: number
  /** As the Responses API and Anthropic call it; the latter without the two below. */
  readonly input?: number
  readonly cacheRead?: number
  readonly cacheWrite?: number
  readonly output?: number
  readonly total?: number
  /** Already in `prompt` or `input`. */
  readonly cached?: number
  readonly reasoning?: number
}

/** Reads the usage that a parsed answer tells, or an event of a streamed one; undefined if it tells none. */
export function readUsage(answer: unknown): Usage | undefined {
  const fields = usageFields(answer)
  return fields === undefined ? undefined : usageOf(fields)
}

/** Its usage is at the top, or with the answer (Responses API) or the message (Anthropic) that an event carries. */
export function usageFields(answer: unknown): UsageFields | undefined {
  const [response, message] = [pick(answer, 'response'), pick(answer, 'message')]
  for (const usage of [pick(answer, 'usage'), pick(response, 'usage'), pick(message, 'usage')]) {
    const fields = typeof usage === 'object' && usage !== null ? fieldsOf(usage) : {}
    // All zeros are what some write until they know.
    if (fields.prompt || fields.input || fields.output || fields.cacheRead || fields.cacheWrite) return fields
  }
  return undefined
}

function fieldsOf(usage: object): UsageFields {
  const at = (...names: string[]) => wholeTokens(names.reduce<unknown>(pick, usage))
  const known: Record<keyof UsageFields, number | undefined> = {
    prompt: at('prompt_tokens'),
    input: at('input_tokens'),
    cacheRead: at('cache_read_input_tokens'),
    cacheWrite: at('cache_creation_input_tokens'),
    output: at('completion_tokens') ?? at('output_tokens'),
    total: at('total_tokens'),
    cached: at('prompt_tokens_details', 'cached_tokens') ?? at('input_tokens_details', 'cached_tokens'),
    reasoning: at('completion_tokens_details', 'reasoning_tokens') ?? at('output_tokens_details', 'reasoning_tokens'),
  }
  return Object.fromEntries(Object.entries(known).filter(([, tokens]) => tokens !== undefined))
}

export function usageOf({ prompt, input = 0, cacheRead = 0, cacheWrite = 0, ...rest }: UsageFields): Usage {
  const all = prompt ?? input + cacheRead + cacheWrite
  const { total = 0, cached = cacheRead, reasoning = 0 } = rest
  // Some leave thoughts out of the answer's tokens, but not out of the total.
  const output = Math.max(rest.output ?? 0, total - all)
  return {
    input: all,
    output,
    cachedInput: Math.min(cached, all),
    cacheWrite: Math.min(cacheWrite, all),
    reasoning: Math.min(reasoning, output),
  }
}

export function pick(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined
}
