import { pathOfKey } from './key-path.ts'
import type { Exception, KeyState, LimitsAnswer, RulesCheck, RulesProblem, Scope, Top } from './types.ts'

/** What the service said no with. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly status: number
  readonly code: string
  readonly problems: readonly RulesProblem[]
  readonly generation: number | undefined

  constructor(status: number, body: Readonly<Record<string, unknown>>) {
    super(typeof body.detail === 'string' ? body.detail : `The service answered ${status}.`)
    this.status = status
    this.code = typeof body.code === 'string' ? body.code : ''
    this.problems = Array.isArray(body.problems) ? body.problems : []
    this.generation = typeof body.generation === 'number' ? body.generation : undefined
  }
}

export interface Rules {
  readonly text: string
  /** What If-Match wants to be told. */
  readonly tag: string
}

export interface Exceptions {
  readonly total: number
  /** The last of them. */
  readonly list: readonly Exception[]
}

/** The admin port, asked with one token. */
export class Api {
  readonly #token: string
  readonly #onRefused: () => void

  /** `onRefused` is told that the token is not good any more. */
  constructor(token: string, onRefused: () => void) {
    this.#token = token
    this.#onRefused = onRefused
  }

  async ask(method: string, path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { ...(init.headers as Record<string, string>), Authorization: `Bearer ${this.#token}` }
    const response = await fetch(`/admin/v1/${path}`, {
      ...init,
      method,
      headers,
      cache: 'no-store',
      credentials: 'omit',
    })
    if (response.ok) return response
    if (response.status === 401) this.#onRefused()
    throw new ApiError(response.status, await response.json().catch(() => ({})))
  }

  async #get<T>(path: string, signal?: AbortSignal): Promise<T> {
    const response = await this.ask('GET', path, signal === undefined ? {} : { signal })
    return (await response.json()) as T
  }

  async #send(method: string, path: string, body: unknown): Promise<void> {
    await this.ask(method, path, { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } })
  }

  async scope(): Promise<Scope> {
    return (await this.#get<{ scope: Scope }>('whoami')).scope
  }

  limits(signal?: AbortSignal): Promise<LimitsAnswer> {
    return this.#get('limits', signal)
  }

  top(limit: string | undefined, n: number, reveal: boolean, signal?: AbortSignal): Promise<Top> {
    const query = new URLSearchParams({ n: String(n), ...(limit && { limit }), ...(reveal && { reveal: 'true' }) })
    return this.#get(`top?${query}`, signal)
  }

  key(limit: string, parts: readonly string[], signal?: AbortSignal): Promise<KeyState> {
    return this.#get(pathOfKey(limit, parts), signal)
  }

  async reset(limit: string, parts: readonly string[]): Promise<void> {
    await this.ask('DELETE', pathOfKey(limit, parts))
  }

  async exceptions(kind: 'overrides' | 'blocks', reveal: boolean, signal?: AbortSignal): Promise<Exceptions> {
    const answer = await this.#get<Readonly<Record<string, readonly Exception[]>> & { readonly total: number }>(
      `${kind}?n=200${reveal ? '&reveal=true' : ''}`,
      signal,
    )
    return { total: answer.total, list: answer[kind] ?? [] }
  }

  async lift(kind: 'overrides' | 'blocks', id: string): Promise<void> {
    await this.ask('DELETE', `${kind}/${encodeURIComponent(id)}`)
  }

  block(body: object): Promise<void> {
    return this.#send('POST', 'blocks', body)
  }

  override(body: object): Promise<void> {
    return this.#send('POST', 'overrides', body)
  }

  setMode(limit: string, mode: string, enforcePercent: number): Promise<void> {
    return this.#send('PUT', `limits/${encodeURIComponent(limit)}/mode`, { mode, enforcePercent })
  }

  async rules(reveal: boolean, signal?: AbortSignal): Promise<Rules> {
    const init = { headers: { Accept: 'application/yaml' }, ...(signal && { signal }) }
    const response = await this.ask('GET', `rules${reveal ? '?reveal=true' : ''}`, init)
    return { text: await response.text(), tag: response.headers.get('ETag') ?? '' }
  }

  async reload(): Promise<void> {
    await this.ask('POST', 'reload')
  }

  async checkRules(text: string, signal?: AbortSignal): Promise<RulesCheck> {
    const headers = { 'Content-Type': 'application/yaml' }
    const response = await this.ask('POST', 'rules/check', { body: text, headers, ...(signal && { signal }) })
    return (await response.json()) as RulesCheck
  }

  /** Throws `generation_conflict` where others came first. */
  async putRules(
    text: string,
    tag: string,
  ): Promise<{ readonly tag: string; readonly needsRestart: readonly string[] }> {
    const headers = { 'Content-Type': 'application/yaml', 'If-Match': tag }
    const response = await this.ask('PUT', 'rules', { body: text, headers })
    const { needsRestart } = (await response.json()) as { needsRestart: string[] }
    return { tag: response.headers.get('ETag') ?? '', needsRestart }
  }
}
