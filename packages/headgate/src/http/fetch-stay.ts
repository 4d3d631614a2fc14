import type { Decision } from '../decision.ts'
import type { Verdict } from '../metering.ts'
import type { Core } from './core.ts'
import { type Bodies, counted, meterFetch } from './fetch-meter.ts'
import { nobodyThere, respond, withHeaders } from './fetch-response.ts'
import type { Ended } from './options.ts'

type Answered = Response | Promise<Response>

/** Bodies that nobody will ever read: a response that somebody put another in place of is neither read nor cancelled. Absent on
 *  some edge runtimes. */
const unread =
  typeof FinalizationRegistry === 'undefined'
    ? undefined
    : new FinalizationRegistry<Stay<object>>((stay) => stay.over(GONE))

const GONE = 499

/** Answers of ours cost nobody anything. */
const refusals = new WeakSet<Response>()

/** One request that was let in, on platforms that make a Response of a Request, and what it holds: until its body has been sent,
 *  its caller left, or something broke. In the end it knows nothing of that body: what is known from here is never thrown away. */
export class Stay<R extends object> {
  readonly #core: Core<R>
  readonly #decision: Decision<unknown>
  /** Until it is known what becomes of it: that of Hono knows its response. */
  #request: R | undefined
  readonly #raw: Request
  /** Tells that the caller has gone, if that matters. */
  readonly #signal: AbortSignal | undefined
  #bodies: Bodies | undefined
  readonly #left = () => this.#core.release(this.#decision, GONE)

  /** @param request what the framework calls it */
  constructor(core: Core<R>, decision: Decision<unknown>, request: R, raw: Request) {
    this.#core = core
    this.#decision = decision
    this.#request = request
    this.#raw = raw
    this.#signal = core.hasSlots ? raw.signal : undefined
    if (this.#signal?.aborted) this.#left()
    else this.#signal?.addEventListener('abort', this.#left, { once: true })
  }

  /** Whatever breaks, now or later, gives back what is held. */
  during(answer: (given: Request) => Answered): Answered {
    const answered = () => after(answer(this.given()), (response) => this.finish(response))
    const cutOff = (error: unknown) => {
      if (this.#bodies?.refusal === undefined) throw error
      return this.finish(nobodyThere())
    }
    return trying(
      () => trying(answered, cutOff),
      (error) => this.lost(error),
    )
  }

  /** What the handler is given. */
  given(): Request {
    if (this.#core.meters) this.#bodies = meterFetch(this.#core, this.#decision, this.#request as R, this.#raw.method)
    return this.#bodies?.request(this.#raw) ?? this.#raw
  }

  /** Settles what a response cost, and returns what is sent. */
  finish(response: Response): Answered {
    const goOn = (refusal: Verdict) => this.#end(refusal === undefined ? response : this.#cutOff(refusal, response))
    return after(this.#bodies?.refuses(response), goOn)
  }

  #end(response: Response): Response {
    const { status, headers } = response
    const isSent = response.body !== null && this.#raw.method !== 'HEAD' && !refusals.has(response)
    const holds = this.#core.hasSlots || this.#bodies !== undefined
    const sent = isSent && holds ? new Response(this.#watched(response.body, status), response) : response
    this.#settle({ status, header: (name) => headers.get(name) ?? undefined })
    if (!isSent) this.over(status)
    return sent
  }

  #watched(body: ReadableStream<Uint8Array>, status: number): ReadableStream<Uint8Array> {
    const bodies = this.#bodies
    const pass = bodies && ((bytes: number) => bodies.pass(bytes))
    const watched = counted(body, pass, { over: (left) => this.over(left ? GONE : status) })
    unread?.register(watched, this, this)
    return watched
  }

  /** In place of a response that there is not enough left for. */
  #cutOff(refusal: Decision<unknown>, response: Response): Response {
    response.body?.cancel().catch(() => {})
    const addedMs = this.#core.jitterMs(refusal)
    const answer = withHeaders(this.#core, refusal, respond(this.#core.denial(refusal, addedMs)), addedMs)
    refusals.add(answer)
    return answer
  }

  /** There is no response, as this was thrown. */
  lost(error: unknown): never {
    this.#settle({ status: 500, header: () => undefined })
    this.over(500)
    throw error
  }

  #settle(ended: Ended): void {
    if (this.#request !== undefined) this.#core.finish(this.#decision, this.#request, ended)
    this.#request = undefined
  }

  over(status: number): void {
    unread?.unregister(this)
    this.#signal?.removeEventListener('abort', this.#left)
    this.#core.release(this.#decision, status)
    this.#bodies?.over()
  }
}

/** At once where the value is there. */
export function after<T, U>(value: T | Promise<T>, go: (value: T) => U | Promise<U>): U | Promise<U> {
  return value instanceof Promise ? value.then(go) : go(value)
}

function trying<T>(go: () => T | Promise<T>, otherwise: (error: unknown) => T | Promise<T>): T | Promise<T> {
  try {
    const made = go()
    return made instanceof Promise ? made.catch(otherwise) : made
  } catch (error) {
    return otherwise(error)
  }
}
