import { createHash, timingSafeEqual } from 'node:crypto'
import { AdminError } from './problem.ts'
import type { Scope } from './route.ts'

export interface AdminTokens {
  /** May do everything. */
  readonly write?: string
  /** May look. */
  readonly read?: string
}

/** Knows tokens by their hashes, which take as long to compare whatever was sent. Without tokens nobody gets in. */
export class Tokens {
  readonly #write: Buffer | undefined
  readonly #read: Buffer | undefined

  constructor({ write, read }: AdminTokens) {
    this.#write = hashOf(write)
    this.#read = hashOf(read)
  }

  /** Throws unless the token is known. */
  check(authorization: string | undefined): Scope {
    const scope = this.#scopeOf(authorization)
    if (scope !== undefined) return scope
    const detail = authorization === undefined ? 'Send Authorization: Bearer <token>.' : 'The token is not known here.'
    throw new AdminError('unauthorized', detail)
  }

  #scopeOf(authorization = ''): Scope | undefined {
    const [, token] = /^bearer +(\S+) *$/i.exec(authorization) ?? []
    const sent = hashOf(token)
    if (sent === undefined) return undefined
    // Both are compared, so that the time does not tell which one was near.
    const [write, read] = [this.#write, this.#read].map((known) => known !== undefined && timingSafeEqual(known, sent))
    return write ? 'write' : read ? 'read' : undefined
  }
}

function hashOf(token: string | undefined): Buffer | undefined {
  return token === undefined || token === '' ? undefined : createHash('sha256').update(token).digest()
}
