import { createHmac, randomBytes } from 'node:crypto'
import type { Key } from 'headgate'
import { keyParts } from 'headgate/http'

/** A key as others may see it; a list where it has several parts. */
export type ShownKey = string | readonly string[]

/**
 * Shows enough of a key to know it again, and too little to use it: some of its start, and a hash. The hash has a secret, as
 * addresses and numbers are few enough to try them all; who wants the same masks on all nodes gives all the same one.
 */
export class Mask {
  readonly #secret: string | Buffer

  constructor(secret: string | Buffer = randomBytes(16)) {
    this.#secret = secret
  }

  key(key: Key | undefined, reveal = false): ShownKey | undefined {
    return key === undefined ? undefined : this.#show([key].flat().map(String), reveal)
  }

  /** As it stands in decisions. */
  encoded(key: string | undefined, reveal = false): ShownKey | undefined {
    return key === undefined ? undefined : this.#show(keyParts(key), reveal)
  }

  #show(parts: readonly string[], reveal: boolean): ShownKey {
    const shown = reveal ? parts : parts.map((part) => this.#mask(part))
    return shown.length === 1 ? (shown[0] as string) : shown
  }

  #mask(part: string): string {
    const digest = createHmac('sha256', this.#secret).update(part).digest('hex')
    // Of a short key no more than half.
    return `${part.slice(0, Math.min(4, part.length >> 1))}…${digest.slice(0, 10)}`
  }
}
