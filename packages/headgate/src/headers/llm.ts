import { checkChoice } from '../errors.ts'
import type { HeaderState, SetHeader, Told } from './format.ts'
import { seconds } from './numbers.ts'

const llmStyles = ['openai', 'anthropic'] as const
/** How those who sell language models tell of their limits. */
export type LlmHeaderStyle = (typeof llmStyles)[number]

/** What a limit counts, as both call it; `money` has no field in either. */
export type LlmUnit = 'requests' | 'tokens' | 'input' | 'output' | 'money'

/** Fields of one unit. */
interface Fields {
  readonly name: string
  /** The tightest limit of any of these is told. */
  readonly of: readonly LlmUnit[]
}

const requests: Fields = { name: 'requests', of: ['requests'] }
const tokens: Fields = { name: 'tokens', of: ['tokens', 'input', 'output'] }
const input: Fields = { name: 'input-tokens', of: ['input'] }
const output: Fields = { name: 'output-tokens', of: ['output'] }

/** Fields of either style, and those of a provider behind, which are not the limits of whoever asks. */
export function isLlmField(name: string): boolean {
  return /^(?:x|anthropic)-ratelimit-/i.test(name)
}

/** Writes what a decision tells in these styles; `unitOf` says what each limit counts. */
export function writeLlmHeaders(
  { states, retryAfterMs }: Told,
  unitOf: (limit: string) => LlmUnit | undefined,
  style: LlmHeaderStyle | readonly LlmHeaderStyle[],
  set: SetHeader,
): void {
  for (const each of Array.isArray(style) ? style : [style]) {
    checkChoice(each ?? null, llmStyles, 'a style of headers')
    const isOpenai = each === 'openai'
    for (const { name, of } of isOpenai ? [requests, tokens] : [requests, tokens, input, output]) {
      const state = tightest(states.filter((state) => of.includes(unitOf(state.name) as LlmUnit)))
      if (state !== undefined) (isOpenai ? openai : anthropic)(set, name, state)
    }
  }
  if (retryAfterMs !== undefined) set('retry-after', String(seconds(retryAfterMs)))
}

function openai(set: SetHeader, name: string, { limit, remaining, resetAfterMs }: HeaderState): void {
  set(`x-ratelimit-limit-${name}`, String(limit))
  set(`x-ratelimit-remaining-${name}`, String(remaining))
  set(`x-ratelimit-reset-${name}`, durationText(resetAfterMs))
}

function anthropic(set: SetHeader, name: string, { limit, remaining, resetAtS }: HeaderState): void {
  set(`anthropic-ratelimit-${name}-limit`, String(limit))
  set(`anthropic-ratelimit-${name}-remaining`, String(remaining))
  set(`anthropic-ratelimit-${name}-reset`, new Date(resetAtS * 1000).toISOString().replace('.000', ''))
}

function tightest(states: readonly HeaderState[]): HeaderState | undefined {
  const share = ({ ok, remaining, limit }: HeaderState) => (ok ? remaining / (limit || 1) : -1)
  const limited = states.filter(({ limit }) => limit !== Infinity)
  return limited.reduce<HeaderState | undefined>((a, b) => (a !== undefined && share(a) <= share(b) ? a : b), undefined)
}

/** `6m0s`, `1.5s`, `12ms`: from the largest unit that is needed down to seconds. */
function durationText(ms: number): string {
  if (ms < 1000) return `${ms}ms`
  const [hours, minutes] = [Math.floor(ms / 3_600_000), Math.floor(ms / 60_000) % 60]
  const rest = `${(ms % 60_000) / 1000}s`
  return hours > 0 ? `${hours}h${minutes}m${rest}` : minutes > 0 ? `${minutes}m${rest}` : rest
}
