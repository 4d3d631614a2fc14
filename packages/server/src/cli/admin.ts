import type { Terminal } from './index.ts'
import { Misuse } from './misuse.ts'

const PATIENCE_MS = 10_000

/** The admin port of a service. */
export class AdminClient {
  readonly #base: string
  readonly #env: Terminal['env']

  constructor(admin: string, env: Terminal['env']) {
    if (!/^https?:\/\//i.test(admin) || !URL.canParse(admin))
      throw new Misuse(`--admin is "${admin}": give a URL such as http://127.0.0.1:8082.`)
    this.#base = admin.replace(/\/+$/, '')
    this.#env = env
  }

  /** What it answers; throws in words for the user. */
  async ask(method: 'GET' | 'DELETE', path: string): Promise<unknown> {
    const response = await this.#fetch(method, path)
    const text = await response.text()
    const body = parsed(text)
    if (response.ok && (body !== undefined || text === '')) return body
    throw new Error(`${this.#base} says ${response.status}: ${detailOf(body)}${hintOf(response.status)}`)
  }

  async #fetch(method: string, path: string): Promise<Response> {
    const token = this.#token()
    const headers = new Headers(token === undefined ? [] : [['authorization', `Bearer ${token}`]])
    // The token is meant for this server and no other.
    const options = { method, headers, redirect: 'manual', signal: AbortSignal.timeout(PATIENCE_MS) } as const
    try {
      return await fetch(this.#base + path, options)
    } catch (error) {
      throw new Error(`${this.#base} does not answer: ${reasonOf(error)}`)
    }
  }

  #token(): string | undefined {
    const token = this.#env.HEADGATE_ADMIN_TOKEN || this.#env.HEADGATE_ADMIN_READ_TOKEN || undefined
    // Told here, as whoever else complains would quote it.
    if (token !== undefined && !/^[\x21-\x7e]+$/.test(token))
      throw new Misuse('the token has characters that no header can have: copy it again.')
    return token
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function detailOf(body: unknown): string {
  const { detail } = (body ?? {}) as { detail?: unknown }
  return typeof detail === 'string' ? detail : 'this is no answer of an admin port.'
}

function hintOf(status: number): string {
  if (status === 401)
    return ' Set HEADGATE_ADMIN_TOKEN to the token of the service, printed at its start if it made one.'
  return status === 403 ? ' Set HEADGATE_ADMIN_TOKEN.' : ''
}

/** `fetch failed` says nothing; its cause does. */
function reasonOf(error: unknown): string {
  const { cause, message } = error as Error
  const { code, message: why } = (cause ?? {}) as { code?: string; message?: string }
  return code ?? why ?? message
}
