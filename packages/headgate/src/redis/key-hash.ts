const MOST = 10_000

/**
 * Keyed hashes (HMAC-SHA-256) of keys: whoever can read Redis learns neither an API key nor who has one. What stands in braces
 * stays in braces, hashed for itself, so that keys that belong into one slot of a cluster still do.
 */
export class KeyHash {
  readonly #secret: Promise<CryptoKey>
  #known = new Map<string, string>()
  /** What was known before these: who is asked for again stays known, so nobody is forgotten between `learn` and `of`. */
  #before = new Map<string, string>()

  constructor(secret: string) {
    const algorithm = { name: 'HMAC', hash: 'SHA-256' }
    this.#secret = crypto.subtle.importKey('raw', encoder.encode(secret), algorithm, false, ['sign'])
  }

  /** The hash of a key that `learn` was told before. */
  of(key: string): string {
    return this.#known.get(key) ?? (this.#before.get(key) as string)
  }

  knows(key: string): boolean {
    if (this.#known.has(key)) return true
    const hash = this.#before.get(key)
    if (hash !== undefined) this.#keep(key, hash)
    return hash !== undefined
  }

  async learn(key: string): Promise<void> {
    const [, before = '', tag, after = ''] = /^([^{]*)\{([^}]+)\}(.*)$/s.exec(key) ?? []
    const hash =
      tag === undefined ? await this.#hash(key) : `{${await this.#hash(tag)}}${await this.#hash(`${before} ${after}`)}`
    this.#keep(key, hash)
  }

  #keep(key: string, hash: string): void {
    if (this.#known.size >= MOST) [this.#known, this.#before] = [new Map(), this.#known]
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
