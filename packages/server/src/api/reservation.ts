import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto'

/** What has to be known to correct a take: its receipt and, of limits that the call brought along, what they were. */
export interface Reserved {
  readonly receipt: string
  readonly definition?: string | undefined
}

const SALT = 16
const TAG = 16
/** Every reservation has a key of its own, so one nonce serves all. */
const nonce = Buffer.alloc(12)

/**
 * Writes reservations that nobody else can make, change or read: they hold keys of callers, and end up in logs. All that is needed is
 * in them, so any instance with the secret and the store can act on one, whatever rules hold by then, and nothing is kept for
 * takes that nobody settles.
 */
export class Seal {
  readonly #secret: Buffer

  constructor(secret: Buffer) {
    this.#secret = secret
  }

  #keyOf(salt: Buffer): Buffer {
    return createHmac('sha256', this.#secret).update('headgate reservation 1').update(salt).digest()
  }

  close({ receipt, definition = '' }: Reserved): string {
    const salt = randomBytes(SALT)
    const cipher = createCipheriv('aes-256-gcm', this.#keyOf(salt), nonce)
    // Neither text holds a line end: both are JSON.
    const sealed = Buffer.concat([cipher.update(`${definition}\n${receipt}`, 'utf8'), cipher.final()])
    return Buffer.concat([salt, cipher.getAuthTag(), sealed]).toString('base64url')
  }

  /** Undefined if it was not made with this secret. */
  open(reservation: string): Reserved | undefined {
    const bytes = Buffer.from(reservation, 'base64url')
    if (bytes.length <= SALT + TAG || bytes.toString('base64url') !== reservation) return undefined
    const decipher = createDecipheriv('aes-256-gcm', this.#keyOf(bytes.subarray(0, SALT)), nonce, {
      authTagLength: TAG,
    })
    decipher.setAuthTag(bytes.subarray(SALT, SALT + TAG))
    try {
      const text = Buffer.concat([decipher.update(bytes.subarray(SALT + TAG)), decipher.final()]).toString('utf8')
      const end = text.indexOf('\n')
      return { definition: text.slice(0, end) || undefined, receipt: text.slice(end + 1) }
    } catch {
      return undefined
    }
  }
}
