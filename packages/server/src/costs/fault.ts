import type { Answer } from 'headgate/http'
import { problem } from '../problem.ts'

const kinds = {
  body_invalid: { status: 400, title: 'Request body cannot be read' },
  request_timeout: { status: 408, title: 'Request came too slowly' },
  body_too_large: { status: 413, title: 'Request body too large' },
  body_unsupported: { status: 415, title: 'Request body of another kind' },
  overloaded: { status: 503, title: 'Service short of capacity' },
} as const

export type BodyCode = keyof typeof kinds

/** Why a request is not passed on: what it costs stands in its body, and that cannot be read. */
export class BodyFault extends Error {
  readonly code: string
  readonly status: number
  readonly #title: string

  /** @param code of ours, or one of the library's, which is the caller's fault */
  constructor(code: BodyCode | `HG_QUERY_${string}`, detail: string) {
    super(detail)
    this.code = code
    const { status, title } = isBodyCode(code) ? kinds[code] : { status: 400, title: 'Query refused' }
    this.status = status
    this.#title = title
  }

  /** When to come back, where that may help. */
  get headers(): string[] {
    return this.status === 503 ? ['Retry-After', '1'] : []
  }

  get answer(): Answer {
    const answer = problem(this.status, this.code, this.#title, this.message)
    if (isBodyCode(this.code)) return answer
    // What clients of GraphQL show.
    const errors = [{ message: this.message, extensions: { code: this.code } }]
    return { ...answer, body: JSON.stringify({ ...JSON.parse(answer.body), errors }) }
  }
}

function isBodyCode(code: string): code is BodyCode {
  return Object.hasOwn(kinds, code)
}
