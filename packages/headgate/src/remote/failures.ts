import { HeadgateError } from '../errors.ts'
import { INVALID, LATE, type WireFailure } from './protocol.ts'

/** The other side could not decide, or could not be asked. `kind` is a word to count by; none if it could not be reached. */
export class RemoteFailed extends Error {
  override readonly name = 'RemoteFailed'
  readonly kind: string | undefined

  constructor(kind: string | undefined, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.kind = kind
  }
}

/** The other side answers, and will not do what it is asked until somebody mends that. */
export function refused(kind: string, message: string, cause?: unknown): HeadgateError {
  return new HeadgateError('HG_REMOTE_REFUSED', message, kind, { cause })
}

export function tooLate(): RemoteFailed {
  return new RemoteFailed('timeout', 'the deadline was over before the question could be decided')
}

export function kindOf(reason: unknown): string | undefined {
  if (reason instanceof RemoteFailed) return reason.kind
  if (!(reason instanceof HeadgateError)) return undefined
  return reason.code === 'HG_REMOTE_REFUSED' ? String(reason.value) : INVALID
}

/** What a group got in place of a result, as an error. */
export function failureOf({ error, message = '' }: WireFailure): Error {
  if (error === LATE) return tooLate()
  if (error === INVALID) return refused(INVALID, `the other side refuses a group: ${message}`)
  return new RemoteFailed(error, `the store of the other side failed: ${error}`)
}
