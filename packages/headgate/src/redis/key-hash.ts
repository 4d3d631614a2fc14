const MOST = 10_000

/**
 * Keyed hashes (HMAC-SHA-256) of keys: whoever can read Redis learns neither an API key nor who has one. What stands in braces
 * stays in braces, hashed for itself, so that keys that belong into one slot of a cluster still do.
 */
export class KeyHash {
  readonly #secret: Promise<CryptoKey>
  /** Of keys that are being asked about, and how often. */
  readonly #held = new Map<string, { readonly hash: string; uses: number }>()
  /** Of keys that were asked about lately. */
  readonly #known = new Map<string, string>()

  constructor(secret: string) {
    const algorithm = { name: 'HMAC', hash: 'SHA-256' }
    this.#secret = crypto.subtle.importKey('raw', encoder.encode(secret), algorithm, false, ['sign'])
  }

  /** The hash of a key that is held. */
  of(key: string): string {
    return this.#held.get(key)?.hash as string
  }

  /** Sees to it that the hash of a key is at hand until it was let go as often; at once, if it is known. */
  hold(key: string): Promise<void> | undefined {
    const hash = this.#held.get(key)?.hash ?? this.#known.get(key)
    if (hash === undefined) return this.#hashOf(key).then((made) => this.#hold(key, made))
    this.#hold(key, hash)
    return undefined
  }

  #hold(key: string, hash: string): void {
    const held = this.#held.get(key)
    if (held === undefined) this.#held.set(key, { hash, uses: 1 })
    else held.uses++
  }

  letGo(key: string): void {
    const held = this.#held.get(key)
    if (held === undefined || --held.uses > 0) return
    this.#held.delete(key)
    if (this.#known.size >= MOST) this.#known.delete(this.#known.keys().next().value as string)
    this.#known.set(key, held.hash)
  }

  async #hashOf(key: string): Promise<string> {
    const [, before = '', tag, after = ''] = /^([^{]*)\{([^}]+)\}(.*)$/s.exec(key) ?? []
    if (tag === undefined) return this.#hash(key)
    return `{${await this.#hash(tag)}}${await this.#hash(`${before.length}:${before}${after}`)}`
  }

  async #hash(text: string): Promise<string> {
    const bytes = new Uint8Array(await crypto.subtle.sign('HMAC', await this.#secret, encoder.encode(text)))
    return btoa(String.fromCharCode(...bytes.subarray(0, 18)))
      .replaceAll('+', '-')
      .replaceAll('/', '_')
  }
}

const encoder = new TextEncoder()
