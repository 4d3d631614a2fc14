import { HeadgateError } from 'headgate'
import { RulesError, type Problem as RulesProblem } from '../config/problem.ts'
import type { Reply } from './route.ts'

const kinds = {
  bad_path: { status: 400, title: 'Path cannot be read' },
  bad_query: { status: 400, title: 'Query cannot be used' },
  bad_body: { status: 400, title: 'Body cannot be read' },
  bad_fields: { status: 400, title: 'Fields cannot be used' },
  bad_key: { status: 400, title: 'Key does not fit the limit' },
  unauthorized: { status: 401, title: 'Token needed' },
  forbidden: { status: 403, title: 'Token may not do this' },
  not_found: { status: 404, title: 'Nothing here' },
  limit_unknown: { status: 404, title: 'No such limit' },
  id_unknown: { status: 404, title: 'No such id' },
  method_not_allowed: { status: 405, title: 'Method not allowed' },
  not_protected: { status: 409, title: 'No overload protection' },
  no_rules_file: { status: 409, title: 'Nothing to reload' },
  too_many: { status: 409, title: 'Too many' },
  generation_conflict: { status: 412, title: 'Rules have changed' },
  body_too_large: { status: 413, title: 'Body too large' },
  media_type: { status: 415, title: 'Media type not read here' },
  rules_invalid: { status: 422, title: 'Rules cannot be used' },
  failed: { status: 500, title: 'Failed' },
  store_failed: { status: 503, title: 'Store does not answer' },
  too_many_readers: { status: 503, title: 'Too many readers' },
} as const

export type AdminCode = keyof typeof kinds

/** What the caller did wrong, or could not have. Its words name no key: whoever sent one knows it, whoever reads on need not. */
export class AdminError extends Error {
  override readonly name = 'AdminError'
  readonly code: AdminCode
  readonly more: Readonly<Record<string, unknown>>

  constructor(code: AdminCode, detail: string, more: Readonly<Record<string, unknown>> = {}) {
    super(detail)
    this.code = code
    this.more = more
  }
}

/** Thrown by whoever applies rules when others came first. */
export class RulesConflict extends Error {
  override readonly name = 'RulesConflict'
}

/** Any error as an answer. RFC 9457. */
export function problemOf(error: unknown): Reply {
  const { code, message: detail, more } = adminErrorOf(error)
  const { status, title } = kinds[code]
  return {
    status,
    headers: headersOf(code, more),
    type: 'application/problem+json',
    text: JSON.stringify({ type: 'about:blank', title, status, detail, code, ...more }),
  }
}

function headersOf(code: AdminCode, { allow }: Readonly<Record<string, unknown>>): Record<string, string> {
  if (code === 'unauthorized') return { 'WWW-Authenticate': 'Bearer realm="headgate"' }
  if (code === 'method_not_allowed') return { Allow: (allow as readonly string[]).join(', ') }
  return kinds[code].status === 503 ? { 'Retry-After': '1' } : {}
}

function adminErrorOf(error: unknown): AdminError {
  if (error instanceof AdminError) return error
  if (error instanceof RulesError) return rulesInvalid(error.problems)
  if (error instanceof RulesConflict) return new AdminError('generation_conflict', error.message)
  if (error instanceof HeadgateError) return libraryError(error)
  return new AdminError('failed', 'This should not have happened; the log says more.')
}

function rulesInvalid(problems: readonly RulesProblem[]): AdminError {
  const { length } = problems
  const detail = `The rules in force stay: ${length} ${length === 1 ? 'problem' : 'problems'} in those that were sent.`
  return new AdminError('rules_invalid', detail, { problems })
}

function libraryError(error: HeadgateError): AdminError {
  switch (error.code) {
    case 'HG_STORE_FAILED':
      return new AdminError('store_failed', 'The store did not answer, so nothing was changed. Try again.')
    case 'HG_OVERRIDES_FULL':
      return new AdminError('too_many', 'The limit has as many overrides as it can have: lift some, or use tiers.')
    case 'HG_KEY_MISSING':
      return new AdminError('bad_key', 'A key is a text, a number, or a list of them; none may be empty.')
    case 'HG_TIER_UNKNOWN':
      return new AdminError('bad_query', `${textOf(error)}.`)
    default:
      return new AdminError('bad_fields', `${textOf(error)}.`, { docs: `docs/errors.md#${error.code.toLowerCase()}` })
  }
}

/** Without its code and page. */
function textOf({ message }: HeadgateError): string {
  return message.replace(/^\w+: /, '').replace(/\.? docs\/errors\.md#\w+$/, '')
}
