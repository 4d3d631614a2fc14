import { after, type Clock } from '../clock.ts'
import { type DialectName, type ReadAnswer, readAnswer, routeOf, routingDialect } from './dialects.ts'
import { type Attempt, ClientError, type ClientEvent } from './events.ts'
import { type Call, type Host, LONGEST_QUEUE, type Pass } from './host.ts'
import type { Fetch, Weight } from './options.ts'
import { peekJson } from './peek.ts'
import { type Outgoing, originOf } from './request.ts'
import { backoffMs, isTransient } from './retry.ts'
import { type Answer, isFromInstant, type Told } from './told.ts'

/** What all calls of a client have in common. */
export interface CallSetup {
  readonly fetch: Fetch
  readonly retries: number
  readonly maxWaitMs: number
  readonly dialect: DialectName | ReadAnswer | undefined
  readonly clock: Clock | undefined
  readonly random: () => number
  emit(event: ClientEvent): void
  /** Other tabs may want to know. */
  tell(host: Host, route: string, told: Told, pauseMs: number): void
}

type Field = (name: string) => string | null | undefined

/** What came of one attempt. */
interface Result {
  readonly response?: Response
  readonly error?: unknown
  readonly told?: Told
  readonly pauseMs: number
}

/** Waits for the turn of a call that is to be repeated. */
export type NextTurn = () => Promise<Turn>

/** It is a call's turn. The first of these to be told counts; what it returns says that the call is to be repeated, and when. */
export interface Turn {
  /** To be sent along: the Idempotency-Key, if one was made. */
  readonly headers: Readonly<Record<string, string>>
  /** The header fields are asked for by their names in lower case; the body matters if it is JSON and of a refusal or of GraphQL. */
  answered(status: number, header: (name: string) => string | null | undefined, body?: unknown): NextTurn | undefined
  failed(error?: unknown): NextTurn | undefined
  /** The caller has left, or nobody will know. */
  left(): void
}

/** One call from its arrival to its answer, over all its attempts. */
export class PoliteCall {
  readonly #setup: CallSetup
  readonly #host: Host
  readonly #outgoing: Outgoing
  readonly #weight: Weight | undefined
  readonly #arrival: number
  readonly #deadlineAtMs: number
  readonly #attempts: Attempt[] = []
  #response: Response | undefined
  #notBeforeMs = -Infinity
  #patienceMs: number
  #waitedMs = 0

  constructor(
    setup: CallSetup,
    host: Host,
    outgoing: Outgoing,
    { weight, deadlineMs = Infinity, arrival }: { weight?: Weight; deadlineMs?: number; arrival: number },
  ) {
    this.#setup = setup
    this.#host = host
    this.#outgoing = outgoing
    this.#weight = weight
    this.#arrival = arrival
    this.#patienceMs = setup.maxWaitMs
    this.#deadlineAtMs = host.nowMs() + deadlineMs
  }

  async run(): Promise<Response> {
    this.#host.retryBudget.deposit()
    try {
      for (;;) {
        const response = await this.#attempt()
        if (response !== undefined) return response
      }
    } catch (error) {
      // Ours has the last answer, which whoever gets it may read.
      if (!(error instanceof ClientError)) this.#discard()
      throw error
    } finally {
      this.#outgoing.done()
    }
  }

  /** The answer, or nothing if there is to be another attempt. */
  async #attempt(): Promise<Response | undefined> {
    const pass = await this.#pass()
    this.#discard()
    const { response, error, told, pauseMs } = await this.#send(pass)
    this.#response = response
    const attempt = { ...(response ? { status: response.status } : { error }), waitedMs: this.#waitedMs }
    if (this.#isRepeated(attempt, pauseMs, told)) return undefined
    if (response === undefined) throw error
    return response
  }

  /** Nobody will read the last answer: its connection is free again. */
  #discard(): void {
    void this.#response?.body?.cancel().catch(() => {})
  }

  /** Prepares another attempt if there is to be one, throws if there should be and cannot. */
  #isRepeated(attempt: Omit<Attempt, 'outcome'>, pauseMs: number, told?: Told): boolean {
    const { isSafe } = this.#outgoing
    const isUndone = told?.refused === true && (told.done === undefined || (told.done === 'perhaps' && isSafe))
    if (isUndone) this.#again({ ...attempt, outcome: 'refused' }, pauseMs, told)
    else if (this.#isFirstAtWork(attempt, told)) this.#again({ ...attempt, outcome: 'failed' }, 0, told)
    else if (!isTransient(attempt.status) || !isSafe || this.#setup.retries === 0) return false
    else this.#again({ ...attempt, outcome: 'failed' }, 0)
    return true
  }

  /** A repeat came while the server is still at work on the attempt before, of which there was no answer: that will be the answer. */
  #isFirstAtWork({ status }: Omit<Attempt, 'outcome'>, told?: Told): boolean {
    const isRepeat = this.#attempts.some(({ outcome }) => outcome !== 'held back')
    return status === 409 && isRepeat && this.#outgoing.hasKey && told?.retryAfterMs !== undefined
  }

  async #pass(): Promise<Pass> {
    for (;;) {
      this.#outgoing.signal?.throwIfAborted()
      const pass = await this.#turn()
      if (!this.#host.holdsBack(this.#outgoing.priority)) return pass
      this.#host.answered(pass, this.#outgoing.url, undefined)
      this.#again({ outcome: 'held back', waitedMs: this.#waitedMs }, 0)
    }
  }

  /** Waits until the call may go. */
  #turn(): Promise<Pass> {
    const host = this.#host
    const sinceMs = host.nowMs()
    return new Promise((resolve, reject) => {
      const { signal } = this.#outgoing
      const settle = () => {
        signal?.removeEventListener('abort', onAbort)
        this.#waitedMs = host.nowMs() - sinceMs
        this.#patienceMs -= this.#waitedMs
      }
      const call: Call = {
        url: this.#outgoing.url,
        route: this.#route(),
        weight: this.#weight,
        priority: this.#outgoing.priority,
        arrival: this.#arrival,
        notBeforeMs: this.#notBeforeMs,
        giveUpAtMs: Math.min(sinceMs + this.#patienceMs, this.#deadlineAtMs),
        go: (pass) => {
          settle()
          if (this.#waitedMs > 0)
            this.#setup.emit({ type: 'go', host: host.name, url: call.url, waitedMs: this.#waitedMs })
          resolve(pass)
        },
        giveUp: (waitMs) => {
          settle()
          reject(this.#tooLate(waitMs))
        },
      }
      const onAbort = () => {
        settle()
        host.leave(call)
        reject(signal?.reason)
      }
      signal?.addEventListener('abort', onAbort, { once: true })
      if (host.enter(call)) return
      settle()
      reject(
        this.#error(
          'HG_QUEUE_FULL',
          `${LONGEST_QUEUE} calls to ${host.name} are waiting already: send fewer at a time`,
        ),
      )
    })
  }

  #route(): string {
    const { dialect } = this.#setup
    const { method, url } = this.#outgoing
    const route = routeOf(method, url, typeof dialect === 'string' ? dialect : this.#host.dialect)
    return this.#host.isPartitioned ? `${this.#outgoing.caller()}${route}` : route
  }

  async #send(pass: Pass): Promise<Result> {
    const { response, error, body } = await this.#fetch(pass)
    if (response === undefined) return { error, pauseMs: 0 }
    const isElsewhere = response.redirected && originOf(response.url) !== this.#outgoing.origin
    const field = (name: string) => response.headers.get(name)
    return { response, ...this.#learn(pass, response.status, field, body, isElsewhere) }
  }

  async #fetch(
    pass: Pass,
  ): Promise<{ readonly response?: Response; readonly error?: unknown; readonly body?: unknown }> {
    const { url, signal } = this.#outgoing
    const deadline = this.#deadline()
    try {
      const signals = [signal, deadline?.signal].filter((each) => each !== undefined)
      const joined = signals.length > 1 ? AbortSignal.any(signals) : signals[0]
      const response = await this.#setup.fetch(...this.#outgoing.next(joined))
      const body = await peekJson(response, url, this.#setup.clock)
      return { response, body }
    } catch (error) {
      this.#host.answered(pass, url, signal?.aborted ? undefined : 'failed')
      if (signal?.aborted) throw signal.reason
      if (deadline?.signal.aborted) throw this.#tooLate(0)
      return { error }
    } finally {
      deadline?.cancel()
    }
  }

  #learn(pass: Pass, status: number, field: Field, body: unknown, isElsewhere = false) {
    const { dialect, clock, tell } = this.#setup
    const { method, url } = this.#outgoing
    const header = (name: string) => field(name) ?? undefined
    const answer: Answer = { method, url, status, header, body, nowMs: clock?.now() ?? Date.now() }
    const told = this.#read(answer, pass, isElsewhere)
    if (typeof dialect !== 'string' && !isElsewhere) this.#host.dialect = routingDialect(answer) ?? this.#host.dialect
    const isFailure = isTransient(status) && told.refused !== true && !isElsewhere
    const outcome = isFailure ? (status === 503 ? 'busy' : 'failed') : told
    const pauseMs = this.#host.answered(pass, url, outcome, (policy) => isFromInstant(answer, policy))
    tell(this.#host, pass.route, told, pauseMs)
    return { told, pauseMs }
  }

  /** What another host says, to which the call was sent on, concerns this call alone. */
  #read(answer: Answer, pass: Pass, isElsewhere: boolean): Told {
    try {
      const { policies = [], ...told } = readAnswer(answer, this.#setup.dialect)
      return isElsewhere ? { ...told, scope: 'call' } : { ...told, policies }
    } catch (error) {
      this.#host.answered(pass, answer.url, undefined)
      throw error
    }
  }

  /** For clients that send by themselves: when it is their turn, and what comes of what they were answered. */
  async turn(): Promise<Turn> {
    this.#host.retryBudget.deposit()
    return this.#nextTurn()
  }

  async #nextTurn(): Promise<Turn> {
    const pass = await this.#pass()
    const { url, ownFields } = this.#outgoing
    this.#outgoing.sent()
    let isOver = false
    const once = <T>(end: () => T): T | undefined => {
      if (isOver) return undefined
      isOver = true
      return end()
    }
    return {
      headers: ownFields,
      answered: (status, header, body) =>
        once(() => {
          const { told, pauseMs } = this.#learn(pass, status, header, body)
          return this.#next({ status, waitedMs: this.#waitedMs }, pauseMs, told)
        }),
      failed: (error) =>
        once(() => {
          this.#host.answered(pass, url, 'failed')
          return this.#next({ error, waitedMs: this.#waitedMs }, 0)
        }),
      left: () => once(() => void this.#host.answered(pass, url, undefined)),
    }
  }

  /** Whoever sends by itself gets what it was answered where there is no other attempt. */
  #next(attempt: Omit<Attempt, 'outcome'>, pauseMs: number, told?: Told): NextTurn | undefined {
    try {
      return this.#isRepeated(attempt, pauseMs, told) ? () => this.#nextTurn() : undefined
    } catch {
      return undefined
    }
  }

  /** Ends the attempt when the call's time is up; nothing remains of it once there is an answer. */
  #deadline(): { signal: AbortSignal; cancel: () => void } | undefined {
    if (this.#deadlineAtMs === Infinity) return undefined
    const controller = new AbortController()
    const ms = Math.max(0, this.#deadlineAtMs - this.#host.nowMs())
    return { signal: controller.signal, cancel: after(this.#setup.clock, ms, () => controller.abort()) }
  }

  /** Prepares another attempt, or throws if there is to be none. */
  #again(attempt: Attempt, pauseMs: number, told?: Told): void {
    const { retries, random, emit } = this.#setup
    this.#attempts.push(attempt)
    const isTold = told !== undefined && (told.retryAfterMs !== undefined || pauseMs > 0)
    if (this.#attempts.length > retries) throw this.#exhausted(`after ${this.#attempts.length} attempts`, attempt)
    if (!this.#outgoing.canRepeat) throw this.#bodyOnce(attempt)
    // A repeat that the server asked for goes through its budget like any other call. One that it did not is on top of them.
    if (!isTold && attempt.outcome !== 'held back' && !this.#host.retryBudget.withdraw())
      throw this.#exhausted('as too many calls to the host fail to repeat each', attempt)
    const afterMs = Math.max(told?.retryAfterMs ?? 0, isTold ? 0 : backoffMs(this.#attempts.length, attempt, random))
    this.#notBeforeMs = this.#host.nowMs() + afterMs
    emit({
      type: 'retry',
      host: this.#host.name,
      url: this.#outgoing.url,
      attempt,
      afterMs: Math.max(afterMs, pauseMs),
    })
  }

  #exhausted(why: string, { status, error }: Attempt): ClientError {
    const what = status === undefined ? 'got no answer' : `was answered ${status}`
    return this.#error('HG_RETRIES_EXHAUSTED', `${this.#what()} ${what} and is given up ${why}`, status, error)
  }

  #bodyOnce({ status, error }: Attempt): ClientError {
    const message = `${this.#what()} would have to be repeated, and its body is a stream that has been sent: give a function that makes one`
    return this.#error('HG_BODY_ONCE', message, status, error)
  }

  #tooLate(waitMs: number): ClientError {
    if (this.#deadlineAtMs < this.#host.nowMs() + Math.max(1, this.#patienceMs))
      return this.#error('HG_DEADLINE_PASSED', `${this.#what()} cannot be answered by its deadline`, waitMs)
    const message = `${this.#what()} would wait for longer than maxWaitMs (${this.#setup.maxWaitMs})`
    return this.#error('HG_WAIT_TOO_LONG', message, waitMs)
  }

  #what(): string {
    return `${this.#outgoing.method} ${this.#outgoing.url}`
  }

  #error(
    code: ConstructorParameters<typeof ClientError>[0],
    message: string,
    value?: unknown,
    cause?: unknown,
  ): ClientError {
    return new ClientError(code, message, { value, response: this.#response, attempts: this.#attempts, cause })
  }
}
