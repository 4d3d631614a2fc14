import { HeadgateError, rejectUnknown, show } from '../errors.ts'
import { checkType } from '../named-limit.ts'
import { promptTokens } from './prompt.ts'
import { type CountTokens, MOST_TOKENS, wholeTokens } from './tokens.ts'

/** Which of the calls it is: `messages` is Anthropic's, the others are OpenAI's and of those who speak like them. */
export type Endpoint = 'chat' | 'responses' | 'completions' | 'embeddings' | 'messages'

/** What is known of a call before it is made. */
export interface LlmRequest {
  readonly endpoint: Endpoint
  /** Empty if the body names none. */
  readonly model: string
  /** Tokens that the model is given, as estimated. */
  readonly input: number
  /** Tokens that it may answer with: the most that the call allows, times the answers it asks for. */
  readonly output: number
  readonly stream: boolean
}

export interface EstimateOptions {
  /** Counts tokens instead of a third of the bytes: give what your tokenizer says. */
  readonly count?: CountTokens
  /** What an answer is taken to be if the call does not say how long it may become. 4,096. */
  readonly defaultOutput?: number
  /** No more than this is reserved for an answer, however long it may become; what is more is booked while it flows. Unlimited. */
  readonly mostOutput?: number
  /** What an image is taken to be, or a file that the call only names. 2,500. */
  readonly mediaTokens?: number
}

export interface ReadOptions {
  /** Path of the call, if it is at hand: says for certain what the body only lets guess, and that it is no call at all. */
  readonly path?: string
  /** Where the body names none. */
  readonly model?: string
}

export const estimateKeys = ['count', 'defaultOutput', 'mostOutput', 'mediaTokens']

/** More answers than this to one call, or prompts in it, nobody takes. */
const MOST_ANSWERS = 10_000

type Fields = Readonly<Record<string, unknown>>

/** Reads the parsed body of a call; undefined if it is none. */
export function readRequest(body: unknown, options: EstimateOptions & ReadOptions = {}): LlmRequest | undefined {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return undefined
  const fields = body as Fields
  const { path, count, mediaTokens = 2_500 } = options
  const endpoint = path === undefined ? guessed(fields) : endpointAt(path)
  if (endpoint === undefined) return undefined
  const model = modelOf(fields, options)
  const input = promptTokens(fields, model, mediaTokens, count)
  const output = endpoint === 'embeddings' ? 0 : outputOf(fields, options)
  return { endpoint, model, input, output, stream: fields.stream === true }
}

const paths: readonly (readonly [RegExp, Endpoint])[] = [
  [/\/chat\/completions$/, 'chat'],
  [/\/completions$/, 'completions'],
  [/\/responses$/, 'responses'],
  [/\/embeddings$/, 'embeddings'],
  [/\/messages$/, 'messages'],
]

function endpointAt(path: string): Endpoint | undefined {
  const [plain = ''] = path.split(/[?#]/, 1)
  return paths.find(([pattern]) => pattern.test(plain.replace(/\/+$/, '')))?.[1]
}

/** By its body alone. Who cannot be told apart is taken for the one that costs more. */
function guessed(body: Fields): Endpoint | undefined {
  if (Array.isArray(body.messages)) return isAnthropic(body) ? 'messages' : 'chat'
  if (body.prompt !== undefined && body.input === undefined) return 'completions'
  if (body.input === undefined) return undefined
  const embeds = 'encoding_format' in body || 'dimensions' in body || /embed/i.test(String(body.model))
  return embeds ? 'embeddings' : 'responses'
}

function isAnthropic(body: Fields): boolean {
  const own = ['system', 'stop_sequences', 'thinking', 'anthropic_version', 'top_k', 'mcp_servers']
  return own.some((name) => name in body) || /^claude|anthropic/i.test(String(body.model))
}

/** Azure names its deployments in the path. */
function modelOf({ model }: Fields, options: ReadOptions): string {
  if (typeof model === 'string' && model !== '') return model
  const [, deployment = ''] = /\/deployments\/([^/?#]+)\//.exec(options.path ?? '') ?? []
  return options.model ?? deployment
}

function outputOf(body: Fields, { defaultOutput = 4_096, mostOutput = MOST_TOKENS }: EstimateOptions): number {
  const given = [body.max_completion_tokens, body.max_output_tokens, body.max_tokens].map(wholeTokens)
  const known = given.filter((tokens) => tokens !== undefined)
  // Who writes two may mean either.
  const each = known.length > 0 ? Math.max(...known) : defaultOutput
  const answers = Math.max(answersIn(body.n), answersIn(body.best_of)) * promptsIn(body.prompt)
  // There is always a reservation, as what is booked while an answer flows is given back from where that stands.
  return Math.max(1, Math.min(each * answers, mostOutput, MOST_TOKENS))
}

function answersIn(value: unknown): number {
  return Math.min(Math.max(1, wholeTokens(value) ?? 1), MOST_ANSWERS)
}

/** A list of prompts gets an answer to each; a list of numbers is one prompt. */
function promptsIn(prompt: unknown): number {
  return Array.isArray(prompt) && typeof prompt[0] !== 'number' ? answersIn(prompt.length) : 1
}

export function checkEstimates(options: EstimateOptions): void {
  checkType(options.count, 'function', '"count"')
  for (const name of ['defaultOutput', 'mostOutput', 'mediaTokens'] as const) {
    const value = options[name]
    if (value === undefined || (Number.isInteger(value) && value >= 0 && value <= MOST_TOKENS)) continue
    throw new HeadgateError(
      'HG_OPTION_INVALID',
      `"${name}" is ${show(value)}: give whole tokens from 0 to ${MOST_TOKENS}`,
      value,
    )
  }
}

/** As `readRequest`, with options that are checked once and for all. */
export function requestReader(
  options: EstimateOptions = {},
): (body: unknown, call?: ReadOptions) => LlmRequest | undefined {
  rejectUnknown(options, estimateKeys, 'requestReader()')
  checkEstimates(options)
  return (body, call) => readRequest(body, { ...options, ...call })
}
