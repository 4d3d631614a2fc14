import { AnswerReader, type LlmRequest, readRequest, type Usage } from 'headgate/llm'
import type { LlmUnit } from '../config/cost-words.ts'
import type { LlmRules } from '../config/llm-schema.ts'
import type { Outcome, RawHeaders } from '../gateway/index.ts'
import type { Caller } from '../rules/caller.ts'
import { mustBeJson } from './content.ts'
import { namesOf, parseJson, withNames } from './json.ts'

type Used = Pick<Usage, 'input' | 'output'>

/** What of a call decides what it costs. */
const NAMES = namesOf([
  ...['model', 'messages', 'system', 'input', 'instructions', 'prompt', 'suffix'],
  ...['tools', 'functions', 'response_format', 'text', 'output_config'],
  ...['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n', 'best_of', 'stream'],
])

/** What a body asks of a language model; undefined if it is no such call. */
export function llmRequestOf(caller: Caller, body: Buffer | undefined, rules: LlmRules): LlmRequest | undefined {
  if (body === undefined || body.length === 0) return undefined
  mustBeJson(caller)
  const value = withNames(parseJson(body), NAMES)
  const options = Object.fromEntries(Object.entries(rules).filter(([, each]) => each !== undefined))
  // Paths of a gateway need not be those of the provider.
  return readRequest(value, { ...options, path: caller.path }) ?? readRequest(value, options)
}

/** What of it a limit counts. */
export function tokensOf({ input, output }: Used, unit: LlmUnit): number {
  return unit === 'input' ? input : unit === 'output' ? output : input + output
}

const NOTHING: Used = { input: 0, output: 0 }

/** Looks on while an answer passes by. What it does not tell is as it was estimated. */
export class LlmMeter {
  readonly #request: LlmRequest
  #reader: AnswerReader | undefined
  #failed = false

  constructor(request: LlmRequest) {
    this.#request = request
  }

  head(status: number, headers: RawHeaders): void {
    // A provider that refuses or fails has made nothing, and sells nothing.
    if (status >= 400) this.#failed = true
    // Nobody asked for it packed; what cannot be read costs what was estimated.
    else if (fieldOf(headers, 'content-encoding') === undefined)
      this.#reader = new AnswerReader({ contentType: fieldOf(headers, 'content-type'), model: this.#request.model })
  }

  data(chunk: Uint8Array): void {
    this.#reader?.push(chunk)
  }

  /** What was used, however it ended: what has flowed was made. */
  used({ aborted, upstreamMs }: Pick<Outcome, 'aborted' | 'upstreamMs'>): Used {
    const reader = this.#reader
    if (this.#failed) return NOTHING
    // Whom nobody has asked has made nothing.
    if (reader === undefined) return upstreamMs === 0 ? NOTHING : this.#request
    if (!aborted) reader.end()
    const brokeOff = aborted === 'upstream' ? reader.isStream : aborted === false && reader.failed
    if (brokeOff && reader.silent) return NOTHING
    const { input = this.#request.input, output = this.#request.output } = reader.usage
    return { input, output }
  }
}

function fieldOf(headers: RawHeaders, name: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2)
    if ((headers[i] as string).toLowerCase() === name) return headers[i + 1] as string
  return undefined
}
