import type { Decision } from '../decision.ts'
import type { LlmHeaderStyle } from '../headers/llm.ts'

/** A refusal as the provider's own would look, which its SDKs understand: 429, or 503 where it is not the caller's doing. */
export function refusalOf(
  decision: Decision<unknown>,
  style: LlmHeaderStyle,
  isOverload: boolean,
  headers: Readonly<Record<string, string>>,
): Response {
  const message = isOverload ? 'The service is busy; try again later' : messageOf(decision)
  const body = style === 'anthropic' ? anthropic(message, isOverload) : openai(message, isOverload)
  const fields: [string, string][] = [['content-type', 'application/json'], ...Object.entries(headers)]
  // Both SDKs would try again on their own, twice and in vain.
  if (decision.retryAfterMs === Infinity) fields.push(['x-should-retry', 'false'])
  return new Response(new TextEncoder().encode(JSON.stringify(body)), {
    status: isOverload ? 503 : 429,
    headers: fields,
  })
}

function messageOf({ limit, retryAfterMs }: Decision<unknown>): string {
  if (retryAfterMs === Infinity) return `This call is more than the limit "${limit}" ever lets through; ask for less`
  return `The limit "${limit}" is reached; try again in ${Math.max(1, Math.ceil(retryAfterMs / 1000))} s`
}

function openai(message: string, isOverload: boolean): object {
  const [type, code] = isOverload ? ['server_error', 'overloaded'] : ['rate_limit_error', 'rate_limit_exceeded']
  return { error: { message, type, param: null, code } }
}

function anthropic(message: string, isOverload: boolean): object {
  return { type: 'error', error: { type: isOverload ? 'overloaded_error' : 'rate_limit_error', message } }
}
