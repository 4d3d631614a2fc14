import { SseReader } from './sse.ts'
import { type CountTokens, countedTokens, MOST_TOKENS, tokensInBytes, utf8Bytes } from './tokens.ts'
import { pick, type Usage, type UsageFields, usageFields, usageOf } from './usage.ts'

export interface AnswerOptions {
  /** Of the answer: `text/event-stream` is read while it flows, anything else at its end. */
  readonly contentType: string | null | undefined
  /** As for requests; for what flows until the provider tells. */
  readonly count?: CountTokens | undefined
  readonly model?: string
}

/** A JSON answer up to this long is parsed as a whole. Of a longer one, such as many embeddings, the end is kept: usage is there. */
const MOST_CHARACTERS = 1_048_576
const TAIL_CHARACTERS = 65_536

/**
 * Looks on while an answer passes by, and knows what it has used so far. Bounded in memory, and never throws.
 *
 * What the provider tells replaces what it told before, as it counts from the start each time. What has flowed since is
 * estimated on top: so nothing is missing where an answer breaks off, or its provider tells nothing.
 */
export class AnswerReader {
  readonly isStream: boolean
  readonly #events: SseReader | undefined
  readonly #decoder = new TextDecoder()
  readonly #count: CountTokens | undefined
  readonly #model: string
  #text = ''
  #isCut = false
  #told: UsageFields | undefined
  /** Since the provider told, in bytes and as counted by the user's counter. */
  #flowedBytes = 0
  #flowedTokens = 0
  #failed = false

  constructor({ contentType, count, model = '' }: AnswerOptions) {
    this.isStream = /^\s*text\/event-stream\b/i.test(contentType ?? '')
    this.#events = this.isStream ? new SseReader((data) => this.#event(data)) : undefined
    this.#count = count
    this.#model = model
  }

  push(chunk: Uint8Array | string): void {
    if (this.#events !== undefined) this.#events.push(chunk)
    else this.#keep(typeof chunk === 'string' ? chunk : this.#decoder.decode(chunk, { stream: true }))
  }

  end(): void {
    if (this.#events === undefined) this.#endText()
    else this.#events.end()
  }

  /** Whether the provider said that it failed. */
  get failed(): boolean {
    return this.#failed
  }

  /** Whether nothing was heard that costs anything. */
  get silent(): boolean {
    return this.#told === undefined && this.#flowed === 0
  }

  /** By now. What is absent is not known. */
  get usage(): Partial<Usage> {
    return this.#usage(this.#flowed)
  }

  /** The same, as far as it is certain: a third of the bytes is too much for English by about a quarter. */
  get certainUsage(): Partial<Usage> {
    return this.#usage(Math.floor(tokensInBytes(this.#flowedBytes) * 0.75) + this.#flowedTokens)
  }

  get #flowed(): number {
    return tokensInBytes(this.#flowedBytes) + this.#flowedTokens
  }

  #usage(flowed: number): Partial<Usage> {
    const told = usageOf(this.#told ?? {})
    const { prompt, input = prompt, output } = this.#told ?? {}
    const hasOutput = this.isStream || output !== undefined || prompt !== undefined
    return {
      ...(input !== undefined && told),
      ...(hasOutput && { output: Math.min(told.output + flowed, MOST_TOKENS) }),
    }
  }

  #endText(): void {
    this.#keep(this.#decoder.decode())
    const text = this.#text
    this.#text = ''
    if (this.#isCut) this.#told = usageInTail(text)
    else this.#event(text)
  }

  #keep(text: string): void {
    this.#text += text
    if (this.#text.length <= MOST_CHARACTERS) return
    this.#isCut = true
    this.#text = this.#text.slice(-TAIL_CHARACTERS)
  }

  #event(data: string): void {
    const event = parsed(data)
    if (typeof event !== 'object' || event === null) return
    const told = usageFields(event)
    if (isFailure(event)) this.#failed = true
    if (told === undefined) {
      if (this.isStream) for (const each of deltasOf(event)) speak(each, (text) => this.#flow(text))
      return
    }
    this.#told = { ...this.#told, ...told }
    this.#flowedBytes = 0
    this.#flowedTokens = 0
  }

  #flow(text: string): void {
    if (this.#count === undefined) this.#flowedBytes += utf8Bytes(text)
    else {
      try {
        this.#flowedTokens += countedTokens(this.#count, text, this.#model)
      } catch {
        // A counter that fails is no reason to break the answer it counts.
        this.#flowedBytes += utf8Bytes(text)
      }
    }
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** `error` events of all three, `response.failed`, and the bare `{ "error": … }` of chat completions. */
function isFailure(event: object): boolean {
  const { type, error } = event as Readonly<Record<string, unknown>>
  if (type === 'error' || type === 'response.failed') return true
  return typeof error === 'object' && error !== null
}

/** What an event adds to the answer: of each choice (OpenAI), or of the one answer. */
function deltasOf(event: object): unknown[] {
  const { type, delta, choices } = event as Readonly<Record<string, unknown>>
  // Sound, not text.
  if (typeof type === 'string' && type.endsWith('audio.delta')) return []
  if (!Array.isArray(choices)) return [delta]
  return choices.flatMap((choice) => [pick(choice, 'delta'), pick(choice, 'text')])
}

/** Where in a delta stands what the model has made, and not what it is called. */
const made = [
  'content',
  'text',
  'refusal',
  'reasoning',
  'reasoning_content',
  'thinking',
  'partial_json',
  'arguments',
  'name',
]
const around = ['content', 'tool_calls', 'function', 'function_call']

function speak(delta: unknown, say: (text: string) => void, depth = 0): void {
  if (typeof delta === 'string') say(delta)
  if (depth > 3) return
  if (Array.isArray(delta)) for (const each of delta) speak(each, say, depth + 1)
  for (const name of made) {
    const text = pick(delta, name)
    if (typeof text === 'string') say(text)
  }
  for (const name of around) {
    const inner = pick(delta, name)
    if (typeof inner === 'object' && inner !== null) speak(inner, say, depth + 1)
  }
}

/** The last object of that name. Texts cannot hold one, as quotes in them are escaped. */
function usageInTail(text: string): UsageFields | undefined {
  const start = [...text.matchAll(/"usage"\s*:\s*(?=\{)/g)].at(-1)
  if (start === undefined) return undefined
  const from = start.index + start[0].length
  let depth = 0
  for (const { 0: token, index } of text.slice(from).matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"|[{}]/g)) {
    if (token === '{') depth++
    else if (token === '}' && --depth === 0) return usageFields({ usage: parsed(text.slice(from, from + index + 1)) })
  }
  return undefined
}
