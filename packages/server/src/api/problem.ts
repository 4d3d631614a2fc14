import { HeadgateError } from 'headgate'
import type { Finding } from '../config/problem.ts'

/** RFC 9457, with a code for programs and, where the fault is in a field, a pointer to it (RFC 6901). */
export interface Problem {
  readonly type: 'about:blank'
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly code: string
  readonly pointer?: string
  readonly docs?: string
}

const titles: Readonly<Record<number, string>> = {
  400: 'Bad request',
  401: 'Token missing or wrong',
  403: 'Forbidden',
  404: 'Not found',
  405: 'Method not allowed',
  413: 'Request body too large',
  500: 'Internal error',
  503: 'Store unavailable',
}

/** What is answered instead of what was asked for. */
export class Refusal extends Error {
  readonly problem: Problem
  readonly headers: Readonly<Record<string, string>>

  constructor(
    status: number,
    code: string,
    detail: string,
    more: {
      readonly pointer?: string
      readonly docs?: string
      readonly headers?: Readonly<Record<string, string>>
    } = {},
  ) {
    super(detail)
    const { headers = {}, ...rest } = more
    this.problem = { type: 'about:blank', title: titles[status] ?? 'Error', status, detail, code, ...rest }
    this.headers = headers
  }
}

/** A path in a body as a JSON pointer. */
export function pointerOf(path: readonly PropertyKey[]): string {
  return path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}

const codes: Readonly<Record<string, string>> = {
  HG_RULES_UNKNOWN_KEY: 'unknown_field',
  HG_RULES_MISSING: 'field_missing',
  HG_RULES_TYPE: 'wrong_type',
}

/** What is wrong with a field of a body. */
export function invalid({ code, path, reason, suggestion }: Finding): Refusal {
  const name = String(path.at(-1))
  const isUnknown = code === 'HG_RULES_UNKNOWN_KEY'
  const detail = isUnknown ? `Unknown field "${name.slice(0, 60)}": ${suggestion}` : `${reason}: ${suggestion}`
  const isCost = code !== 'HG_RULES_MISSING' && !isUnknown && (name === 'cost' || path[0] === 'actual')
  return new Refusal(
    400,
    isCost ? 'HG_COST_INVALID' : (codes[code] ?? 'invalid_value'),
    detail,
    path.length > 0 ? { pointer: pointerOf(path) } : {},
  )
}

/** What an error means to who asked. What is no fault of theirs is not told in detail. */
export function refusalOf(error: unknown, pointer?: string): Refusal {
  if (error instanceof Refusal) return error
  if (!(error instanceof HeadgateError)) return new Refusal(500, 'internal', 'This should not have happened.')
  const { code, message } = error
  const docs = `docs/errors.md#${code.toLowerCase()}`
  const detail = message.replace(/^\w+: /, '').replace(/ docs\/errors\.md#\w+$/, '')
  if (code === 'HG_STORE_FAILED')
    return new Refusal(503, code, 'The store does not answer. Try again.', { docs, headers: { 'Retry-After': '1' } })
  return new Refusal(400, code, detail, { docs, ...(pointer !== undefined && { pointer }) })
}
