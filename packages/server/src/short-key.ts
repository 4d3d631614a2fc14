import { createHash } from 'node:crypto'

/** A token as a key may be longer than all else that is known of it. */
const LONGEST_KEY = 2_048

/** A key as it is, or its hash, where somebody would fill memory with it. */
export function shortKey(key: string): string {
  return key.length <= LONGEST_KEY ? key : `sha256:${createHash('sha256').update(key).digest('hex')}`
}
