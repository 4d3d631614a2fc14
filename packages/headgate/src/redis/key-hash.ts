const MOST = 10_000

/**
 * Keyed hashes (HMAC-SHA-256) of keys: whoever can read Redis learns neither an API key nor who has one. What stands in braces
 * stays in braces, hashed for itself, so that keys that belong into one slot of a cluster still do.
 */
export class KeyHash {
  readonly #secret: Promise<CryptoKey>
  readonly #known = new Map<string, string>()

  constructor(secret: string) {
    const algorithm = { name: 'HMAC', hash: 'SHA-256' }
    this.#secret = crypto.subtle.importKey('raw', encoder.encode(secret), algorithm, false, ['sign'])
  }

  /** The hash of a key that `learn` was told before. */
  of(key: string): string {
    return this.#known.get(key) as string
  }

  knows(key: string): boolean {
    return this.#known.has(key)
  }

  async learn(key: string): Promise<void> {
    const [, before = '', tag, after = ''] = /^([^{]*)\{([^}]+)\}(.*)$/s.exec(key) ?? []
    const hash =
      tag === undefined ? await this.#hash(key) : `{${await this.#hash(tag)}}${await this.#hash(`${before} ${after}`)}`
    if (this.#known.size >= MOST) this.#known.delete(this.#known.keys().next().value as string)
    this.#known.set(key, hash)
  }

  async #hash(text: string): Promise<string> {
    const bytes = new Uint8Array(await crypto.subtle.sign('HMAC', await this.#secret, encoder.encode(text)))
    return btoa(String.fromCharCode(...bytes.subarray(0, 18)))
      .replaceAll('+', '-')
      .replaceAll('/', '_')
  }
}

const encoder = new TextEncoder()
