import { type Connection, isError } from './connection.ts'

type Arguments = readonly (string | number)[]

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

  run(keys: readonly string[], args: Arguments): Promise<unknown> {
    return this.begin(keys, args).catch((reason: unknown) => {
      const again = this.again(reason, keys, args)
      if (again === undefined) throw reason
      return again
    })
  }

  /** As `run`, but whoever is told of a failure has to try it `again`. */
  begin(keys: readonly string[], args: Arguments): Promise<unknown> {
    const connection = this.#connection
    return this.#sha === undefined ? connection.eval(this.#text, keys, args) : connection.evalsha(this.#sha, keys, args)
  }

  /** Where nothing was done as the server does not know the script: this call brings it along, and the server keeps it. */
  again(reason: unknown, keys: readonly string[], args: Arguments): Promise<unknown> | undefined {
    return isError(reason, 'NOSCRIPT') ? this.#connection.eval(this.#text, keys, args) : undefined
  }
}

async function sha1(text: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-1', new TextEncoder().encode(text))
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}
