import type { LimitState } from '../charge.ts'
import type { Decision } from '../decision.ts'
import { HeadgateError, show } from '../errors.ts'
import { createGate, gateKeys } from '../gate.ts'
import type { Gate } from '../gate-types.ts'
import { isLlmField } from '../headers/llm.ts'
import type { MemoryStore } from '../stores/memory.ts'
import type { Store } from '../stores/store.ts'
import { LlmCall } from './call.ts'
import { isAbort } from './listener.ts'
import { type LlmUnit, Meter } from './meter.ts'
import { type Asked, checkBudget, gateLimit, type LlmBudgetOptions } from './options.ts'
import { PriceList } from './prices.ts'
import { type LlmRequest, type ReadOptions, readRequest } from './request.ts'
import { MOST_TOKENS, wholeTokens } from './tokens.ts'

export interface ReserveOptions extends ReadOptions {
  /** Tokens of the input, if somebody has counted them already. */
  readonly input?: number
  /** By which the call is given up, if that may have a reason of its own: what `AbortController` makes is known without. */
  readonly signal?: AbortSignal
}

/** Limits on calls to language models, all decided as one: an estimate is reserved before, and settled to what was used. */
export function llmBudget<C = unknown, S extends Store = MemoryStore>(options: LlmBudgetOptions<C, S>): LlmBudget<C> {
  return new LlmBudget(options as LlmBudgetOptions<C, Store>)
}

export class LlmBudget<C> {
  readonly #options: LlmBudgetOptions<C, Store>
  readonly #meter: Meter
  readonly #gate: Gate<Asked<C>, string, Store>

  /** @internal */
  constructor(options: LlmBudgetOptions<C, Store>) {
    const limits = checkBudget(options)
    const prices = options.prices === undefined ? undefined : new PriceList(options.prices)
    this.#options = options
    this.#meter = new Meter(new Map([...limits].map(([name, { of }]) => [name, of as LlmUnit])), prices)
    const own = Object.entries(options).filter(([name]) => gateKeys.includes(name))
    const asked = [...limits].map(([name, limit]) => [name, gateLimit(name, limit, options)])
    this.#gate = createGate({ ...Object.fromEntries(own), limits: Object.fromEntries(asked) }) as never
  }

  /** Reserves what a call with this parsed body may use. A refusal is an answer: see `ok`. */
  async reserve(caller: C, body: unknown, options: ReserveOptions = {}): Promise<LlmCall<C>> {
    const request = this.#read(body, options)
    const cost = (limit: string) => this.#meter.amount(limit, request.model, request)
    const decision = (await this.#gate.take({ caller, request, cost })) as Decision<unknown>
    const { count, onSettled } = this.#options
    const ledger = { meter: this.#meter, count, caller, signal: options.signal }
    return new LlmCall(decision, request, { ...ledger, ...(onSettled && { onSettled }) })
  }

  /**
   * A call from beginning to end: refused in the provider's words, or sent and handed on as it flows, with the caller's limits in
   * place of the provider's; settled however it ends.
   */
  async call(
    caller: C,
    body: unknown,
    send: (call: LlmCall<C>) => Response | Promise<Response>,
    options: ReserveOptions = {},
  ): Promise<Response> {
    const call = await this.reserve(caller, body, options)
    if (!call.ok) return call.refusal()
    try {
      const response = await send(call)
      // Told to the store before it is told to the caller, who may ask again right away.
      if (response.status >= 400) await call.fail()
      return withFields(call.watch(response), call.headers(), isUnpacked(response))
    } catch (error) {
      await (isAbort(error, options.signal) ? call.settle(call.request.stream ? { output: 0 } : {}) : call.fail())
      throw error
    }
  }

  /** What is left of each limit. */
  async left(caller: C, request?: LlmRequest): Promise<LimitState[]> {
    const asked = request ?? { endpoint: 'chat', model: '', input: 0, output: 0, stream: false }
    const decision = (await this.#gate.peek({ caller, request: asked, cost: () => 0 })) as Decision<unknown>
    return decision.limits
  }

  #read(body: unknown, options: ReserveOptions): LlmRequest {
    const { input, signal: _, ...rest } = options
    const request = readRequest(body, { ...this.#options, ...rest })
    if (request === undefined) {
      throw new HeadgateError(
        'HG_CALL_INVALID',
        `${show(body)} is no call to a language model: give the parsed body of one, with messages, input or prompt`,
        body,
      )
    }
    if (input === undefined) return request
    const counted = wholeTokens(input)
    if (counted !== undefined && counted < MOST_TOKENS) return { ...request, input: counted }
    throw new HeadgateError('HG_COST_INVALID', `"input" is ${show(input)}: give tokens, from 0 on`, input)
  }
}

/** Of a body as it was sent. */
const PACKED: ReadonlySet<string> = new Set(['content-encoding', 'content-length'])

/** A response of `fetch`, which has unpacked its body and says so nowhere. */
function isUnpacked({ url, headers }: Response): boolean {
  return url !== '' && headers.has('content-encoding')
}

/** A provider tells of its own limits, which are nobody's business but ours. */
function withFields(response: Response, fields: Readonly<Record<string, string>>, unpacked: boolean): Response {
  const theirs = [...response.headers].filter(([name]) => !isLlmField(name) && !(unpacked && PACKED.has(name)))
  const headers = [...theirs, ...Object.entries(fields)]
  return new Response(response.body, { status: response.status, headers })
}
