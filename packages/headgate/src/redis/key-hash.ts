const MOST = 10_000

/** Half of a pair of surrogates has no bytes of its own: two such keys would be one. */
export function wellFormed(key: string): string {
  return /\p{Surrogate}/u.test(key) ? `\u0000${JSON.stringify(key)}` : key
}

/**
 * Keyed hashes (HMAC-SHA-256) of keys: whoever can read Redis learns neither an API key nor who has one. What stands in braces
 * stays in braces, hashed for itself, so that keys that belong into one slot of a cluster still do.
 */
export class KeyHash {
  readonly #secret: Promise<CryptoKey>
  readonly #seal: Promise<CryptoKey>
  /** Of keys that are being asked about, and how often. */
  readonly #held = new Map<string, { readonly hash: string; uses: number }>()
  /** Of keys that were asked about lately. */
  readonly #known = new Map<string, string>()

  constructor(secret: string) {
    const algorithm = { name: 'HMAC', hash: 'SHA-256' }
    this.#secret = crypto.subtle.importKey('raw', encoder.encode(secret), algorithm, false, ['sign'])
    this.#seal = this.#sealKey()
  }

  /** The hash of a key that is held or was lately; empty if it is not known. */
  of(key: string): string {
    return this.#held.get(key)?.hash ?? this.#known.get(key) ?? ''
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

  async #sealKey(): Promise<CryptoKey> {
    const bytes = await crypto.subtle.sign('HMAC', await this.#secret, encoder.encode('what is noted with an id'))
    const algorithm = { name: 'AES-GCM' }
    return crypto.subtle.importKey('raw', new Uint8Array(bytes), algorithm, false, ['encrypt', 'decrypt'])
  }

  /** Makes a text unreadable for those who do not know the secret. */
  async seal(text: string): Promise<string> {
    const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES))
    const sealed = await crypto.subtle.encrypt({ name: 'AES-GCM', iv }, await this.#seal, encoder.encode(text))
    return base64(iv) + base64(new Uint8Array(sealed))
  }

  /** The text again; undefined if it was sealed with another secret. */
  async open(sealed: string): Promise<string | undefined> {
    const bytes = Uint8Array.from(atob(sealed) as Iterable<string>, (char) => char.charCodeAt(0))
    const algorithm = { name: 'AES-GCM', iv: bytes.subarray(0, IV_BYTES) }
    return crypto.subtle.decrypt(algorithm, await this.#seal, bytes.subarray(IV_BYTES)).then(
      (text) => new TextDecoder().decode(text),
      () => undefined,
    )
  }

  async #hash(text: string): Promise<string> {
    const bytes = new Uint8Array(await crypto.subtle.sign('HMAC', await this.#secret, encoder.encode(wellFormed(text))))
    return base64(bytes.subarray(0, 18)).replaceAll('+', '-').replaceAll('/', '_')
  }
}

/** Three bytes make four characters, so that texts of whole threes can be joined. */
const IV_BYTES = 12

function base64(bytes: Uint8Array): string {
  let binary = ''
  for (const byte of bytes) binary += String.fromCharCode(byte)
  return btoa(binary)
}

const encoder = new TextEncoder()
