import { type Connection, isError } from './connection.ts'

/** A script that the server is asked for by its hash, and told in full when it does not know it. */
export class Script {
  readonly #connection: Connection
  readonly #text: string
  #sha: string | undefined

  constructor(connection: Connection, text: string) {
    this.#connection = connection
    this.#text = text
    void sha1(text).then((sha) => {
      this.#sha = sha
    })
  }

  run(keys: readonly string[], args: readonly (string | number)[]): Promise<unknown> {
    const connection = this.#connection
    if (this.#sha === undefined) return connection.eval(this.#text, keys, args)
    return connection.evalsha(this.#sha, keys, args).catch((reason: unknown) => {
      if (!isError(reason, 'NOSCRIPT')) throw reason
      // Nothing was done: this call brings the script along, and the server keeps it.
      return connection.eval(this.#text, keys, args)
    })
  }
}

async function sha1(text: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-1', new TextEncoder().encode(text))
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}
