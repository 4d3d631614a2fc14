import { HeadgateError, rejectUnknown, show } from '../errors.ts'
import { checkMs, checkType } from '../named-limit.ts'
import type { LeaseOptions } from '../stores/leases.ts'
import type { Transport } from './batches.ts'
import { RemoteFailed, refused } from './failures.ts'
import type { Message } from './protocol.ts'
import { LeasedRemoteStore, RemoteStore } from './store.ts'

export interface RemoteOptions {
  /** Sent as `Authorization: Bearer`. */
  readonly token?: string
  /** How long a call may take at most, whatever gates are willing to wait: 1,000 unless said otherwise. */
  readonly timeoutMs?: number
  /** In place of the global one. */
  readonly fetch?: Fetch
}

/** With leases this process borrows units of hot keys, and gives them back by `close()`. */
export type LeasedRemoteOptions = RemoteOptions & { readonly lease: true | LeaseOptions }

/** As much of `fetch` as is needed. */
export type Fetch = (url: string, init: FetchInit) => Promise<FetchResponse>
export interface FetchInit {
  readonly method: 'POST'
  readonly headers: Record<string, string>
  readonly body: string
  readonly redirect: 'manual'
  readonly signal: AbortSignal
}
export interface FetchResponse {
  readonly status: number
  text(): Promise<string>
}

const TIMEOUT_MS = 1_000

/** Lets a Headgate server keep the counts, for all processes that ask it: `remote('http://10.0.0.5:8080', { token })`. */
export function remote(url: string, options: LeasedRemoteOptions): LeasedRemoteStore
export function remote(url: string, options?: RemoteOptions & { readonly lease?: false }): RemoteStore
export function remote(
  url: string,
  { lease = false, ...options }: RemoteOptions & { readonly lease?: boolean | LeaseOptions } = {},
): RemoteStore | LeasedRemoteStore {
  const store = storeAt(url, options)
  return lease === false ? store : new LeasedRemoteStore(store, lease)
}

function storeAt(url: string, options: RemoteOptions): RemoteStore {
  rejectUnknown(options, ['token', 'timeoutMs', 'fetch'], 'remote()')
  const { token, timeoutMs = TIMEOUT_MS, fetch: ask = (to, init) => fetch(to, init) } = options
  if (typeof url !== 'string' || !/^https?:\/\/[^\s/?#@]+(\/[^\s?#]*)?$/.test(url))
    throw misuse('the address of remote()', url, "give one such as 'http://10.0.0.5:8080', without a query or a user")
  checkType(token, 'string', '"token" of remote()')
  checkType(options.fetch, 'function', '"fetch" of remote()')
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token))
    throw misuse('"token" of remote()', '…', 'give characters that can stand in a header field, or leave it out')
  if (!(checkMs(timeoutMs, '"timeoutMs" of remote()') >= 1))
    throw misuse('"timeoutMs" of remote()', timeoutMs, 'give at least 1')
  return new RemoteStore(new Http(`${url.replace(/\/+$/, '')}/v1/run`, token, ask), timeoutMs)
}

function misuse(what: string, value: unknown, fix: string): HeadgateError {
  return new HeadgateError('HG_OPTION_INVALID', `${what} is ${show(value)}: ${fix}`, value)
}

class Http implements Transport {
  readonly #url: string
  readonly #headers: Record<string, string>
  readonly #fetch: Fetch

  constructor(url: string, token: string | undefined, ask: Fetch) {
    this.#url = url
    this.#headers = { 'content-type': 'application/json' }
    if (token !== undefined) this.#headers.authorization = `Bearer ${token}`
    this.#fetch = ask
  }

  async ask(message: Message, signal: AbortSignal): Promise<unknown> {
    const { status, text } = await this.#post(JSON.stringify(message), signal)
    if (status !== 200) throw this.#failure(status, text)
    try {
      return JSON.parse(text)
    } catch (cause) {
      throw new RemoteFailed('protocol', `${this.#url} answers with what is no JSON`, { cause })
    }
  }

  async #post(body: string, signal: AbortSignal): Promise<{ readonly status: number; readonly text: string }> {
    try {
      // A redirect would hand the token to somebody else.
      const init = { method: 'POST', headers: this.#headers, body, redirect: 'manual', signal } as const
      const response = await this.#fetch(this.#url, init)
      return { status: response.status, text: await response.text() }
    } catch (cause) {
      throw new RemoteFailed(undefined, `${this.#url} cannot be reached: ${reasonOf(cause)}`, { cause })
    }
  }

  #failure(status: number, text: string): Error {
    const { code, detail } = problemOf(text)
    const says = detail === undefined ? '' : `: ${detail.replace(/\.$/, '')}`
    if (status === 401 || status === 403) return refused('unauthorized', `${this.#url} refuses the token${says}`)
    if (code === 'HG_PROTOCOL_VERSION') return refused('version', `${this.#url} speaks another version${says}`)
    if (status === 404) return refused('http_404', `there is no Headgate server at ${this.#url}`)
    if (status === 408 || status === 429 || status >= 500)
      return new RemoteFailed(`http_${status}`, `${this.#url} answers with status ${status}${says}`)
    return refused(`http_${status}`, `${this.#url} answers with status ${status}${says}`)
  }
}

/** fetch says only that it failed; why stands in the cause. */
function reasonOf(error: unknown): string {
  const { cause, message } = error as { readonly cause?: unknown; readonly message?: unknown }
  return cause instanceof Error && cause.message !== '' ? cause.message : String(message)
}

function problemOf(text: string): { readonly code?: unknown; readonly detail?: string } {
  try {
    const { code, detail } = JSON.parse(text) as { readonly code?: unknown; readonly detail?: unknown }
    return typeof detail === 'string' ? { code, detail } : { code }
  } catch {
    return {}
  }
}
