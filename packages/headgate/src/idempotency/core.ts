import { HeadgateError, show } from '../errors.ts'
import { parseKey } from './key.ts'
import type { Checked, IdempotencyEvent } from './options.ts'
import { problem } from './problem.ts'
import { type Begun, NotAsked } from './replies.ts'
import { type Answer, type Collected, type Fields, isSame, lasting, type Payload, type Reply } from './reply.ts'
import { hashOf } from './sha256.ts'

/** A request as all frameworks have it. */
export interface Asked<R> {
  /** What the framework hands on. */
  readonly request: R
  readonly method: string
  /** Path and query, as the client sent them. */
  readonly target: string
  header(name: string): string | undefined
}

/** The body of a request, hashed while it passes. */
export interface Body {
  /** Its hash once it has come in full, reading what nobody has read. Empty if that takes too long or cannot be known. */
  hash(maxMs: number): string | Promise<string>
}

/** What to do with a request: let it run, and tell what came of it, or answer it. */
export type Opening = Run | Answer

/** A client that has an answer and still sends its body is waited for no longer than this. */
const BODY_MS = 250

/** Decides about requests; knows no framework. */
export class Core<R> {
  readonly options: Checked<R>

  constructor(options: Checked<R>) {
    this.options = options
  }

  /** The name of a request's key in the store; undefined if it needs no protection, an answer if it is refused. */
  nameOf(asked: Asked<R>): string | Answer | undefined {
    const { methods, required } = this.options
    if (!methods.includes(asked.method.toUpperCase())) return undefined
    const field = asked.header('idempotency-key')
    if (field === undefined) {
      const isRequired = typeof required === 'function' ? required(asked.request) : required
      return isRequired ? problem('idempotency_key_missing') : undefined
    }
    const key = parseKey(field)
    return key === undefined ? problem('idempotency_key_invalid') : hashOf(this.#scopeOf(asked), key)
  }

  #scopeOf({ request, header }: Asked<R>): string {
    const { by } = this.options
    if (by === undefined) return header('authorization') ?? ''
    const scope: unknown = by(request)
    if (typeof scope === 'string' && scope !== '') return scope
    throw new HeadgateError(
      'HG_KEY_MISSING',
      `"by" of idempotency() got ${show(scope)}: give a text that differs between callers`,
      scope,
    )
  }

  /** At once, if the store answers at once and there is nothing to compare. */
  open(name: string, asked: Asked<R>, body: Body): Opening | Promise<Opening> {
    const run = new Run(this.options, name, hashOf(asked.method.toUpperCase(), asked.target), body)
    const { store, lockMs } = this.options
    try {
      const begun = store.begin(name, run.token, lockMs)
      if (!(begun instanceof Promise)) return this.#judge(begun, run)
      return begun.then(
        (answer) => this.#judge(answer, run),
        (reason) => this.#without(run, reason),
      )
    } catch (reason) {
      return this.#without(run, reason)
    }
  }

  #judge(begun: Begun, run: Run): Opening | Promise<Opening> {
    if (begun === 'first') return run
    return begun === 'running' ? problem('idempotency_in_progress') : this.#repeat(begun, run)
  }

  async #repeat(first: Reply, run: Run): Promise<Answer> {
    const payload = await run.payload(Infinity)
    if (!isSame(first.payload, payload)) return problem('idempotency_payload_mismatch')
    return { ...first, headers: [...first.headers, ['idempotency-replayed', 'true']] }
  }

  /** Nobody knows whether it is the first. */
  #without(run: Run, error: unknown): Opening {
    tell(this.options.onEvent, { kind: 'store-failed', error })
    run.lose(error instanceof NotAsked)
    if (this.options.onStoreError === 'run') return run
    // The key may have been taken all the same.
    void run.drop()
    return problem('idempotency_store_unavailable')
  }
}

/** A first request at work. */
export class Run {
  readonly token = tokenOf()
  readonly #options: Checked<never>
  readonly #name: string
  readonly #target: string
  readonly #body: Body
  #over = false
  /** Its response need not wait until the store has it. */
  #lost = false

  constructor(options: Checked<never>, name: string, target: string, body: Body) {
    this.#options = options
    this.#name = name
    this.#target = target
    this.#body = body
  }

  payload(maxMs: number): Payload | Promise<Payload> {
    const target = this.#target
    const body = this.#body.hash(maxMs)
    return body instanceof Promise ? body.then((hash) => ({ target, body: hash })) : { target, body }
  }

  /** The store did not say that this is the first. If it was asked it may have been, and is told how the request ends. */
  lose(forGood: boolean): void {
    this.#lost = true
    this.#over = forGood
  }

  /** Whether a response with this status is worth collecting. */
  keeps(status: number): boolean {
    return !this.#over && status >= 200 && this.#options.storeStatus(status)
  }

  /** The response is complete. It should end when the promise does: who has it then gets it again from every process. */
  finish(status: number, headers: Iterable<readonly [string, unknown]>, body: Collected): void | Promise<void> {
    if (!this.keeps(status)) return this.drop()
    if (body.isTooLarge) {
      tell(this.#options.onEvent, { kind: 'reply-too-large' })
      return this.drop()
    }
    const fields = lasting(headers)
    const payload = this.payload(BODY_MS)
    const whole = body.whole()
    if (payload instanceof Promise) return payload.then((known) => this.#keep(status, fields, whole, known))
    return this.#keep(status, fields, whole, payload)
  }

  #keep(status: number, headers: Fields, body: Uint8Array, payload: Payload): void | Promise<void> {
    return this.#end({ status, headers, body, payload })
  }

  /** There is no response to replay: the key is free for a retry. */
  drop(): void | Promise<void> {
    return this.#end(undefined)
  }

  #end(reply: Reply | undefined): void | Promise<void> {
    if (this.#over) return
    this.#over = true
    const { store, ttlMs, onEvent } = this.#options
    const failed = (error: unknown) => tell(onEvent, { kind: 'store-failed', error })
    const heard = (isMine: boolean) => isMine || this.#lost || tell(onEvent, { kind: 'lock-lost' })
    try {
      const done = store.finish(this.#name, this.token, reply, ttlMs)
      if (!(done instanceof Promise)) return void heard(done)
      const told = done.then(heard, failed) as Promise<void>
      return this.#lost ? undefined : told
    } catch (error) {
      failed(error)
    }
  }
}

function tell(onEvent: (event: IdempotencyEvent) => void, event: IdempotencyEvent): void {
  try {
    onEvent(event)
  } catch {
    // A hook that throws must not decide about requests.
  }
}

function tokenOf(): string {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}
