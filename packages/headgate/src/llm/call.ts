import { checkCost } from '../charge.ts'
import { bookMore, type Decision, isOverload, toldOf } from '../decision.ts'
import { type LlmHeaderStyle, writeLlmHeaders } from '../headers/llm.ts'
import { Listener } from './listener.ts'
import type { Amounts, Meter } from './meter.ts'
import { passOn } from './pass-on.ts'
import { refusalOf } from './refusal.ts'
import type { LlmRequest } from './request.ts'
import type { CountTokens } from './tokens.ts'
import type { Usage } from './usage.ts'

/** What became of a call, by limit: what was taken when it began, and what it is worth in the end. */
export interface Settled<C> {
  readonly caller: C
  readonly request: LlmRequest
  /** What is counted as used, told by the provider or estimated. */
  readonly usage: Pick<Usage, 'input' | 'output'> & Partial<Usage>
  readonly reserved: Amounts
  readonly charged: Amounts
}

/** What a call needs of its budget. */
export interface Ledger<C> {
  readonly meter: Meter
  readonly count: CountTokens | undefined
  readonly caller: C
  /** By which whoever asked gives up. */
  readonly signal: AbortSignal | undefined
  onSettled?(settled: Settled<C>): unknown
}

/**
 * A call to a language model, with what it may use reserved, if `ok`. It ends once, by `settle`, `fail` or `refund`; one that never
 * ends stays charged as reserved.
 */
export class LlmCall<C = unknown> {
  readonly ok: boolean
  readonly decision: Decision<unknown>
  readonly request: LlmRequest
  /** By limit. */
  readonly reserved: Amounts
  readonly #ledger: Ledger<C>
  /** The limits that concern this call. */
  readonly #names: readonly string[]
  /** What is booked by now, and for which tokens. */
  #booked: Amounts
  #known: Pick<Usage, 'input' | 'output'>
  /** Done when what was booked meanwhile is known to the store. */
  #grown: Promise<void> | undefined
  /** Done when what ended it is. */
  #ended: Promise<void> | undefined

  /** @internal */
  constructor(decision: Decision<unknown>, request: LlmRequest, ledger: Ledger<C>) {
    this.ok = decision.ok
    this.decision = decision
    this.request = request
    this.#ledger = ledger
    this.#names = decision.limits.map(({ name }) => name)
    this.#known = request
    this.reserved = this.#amounts({})
    this.#booked = this.reserved
    this.#ended = decision.ok ? undefined : Promise.resolve()
  }

  /** Corrects the reservation to what was used, more or less; what is not known stays as it was estimated. Done when the store
   *  knows, whoever was first to end the call. */
  async settle(usage: Partial<Usage>): Promise<void> {
    for (const [name, tokens] of Object.entries(usage)) if (tokens !== undefined) checkCost(tokens, name)
    await this.#end(() => this.#settle(usage))
  }

  async #settle(usage: Partial<Usage>): Promise<void> {
    const { request, reserved } = this
    const charged = this.#amounts(usage)
    await this.#afterGrowth(() => this.decision.settle(charged))
    const { caller } = this.#ledger
    try {
      const told = this.#ledger.onSettled?.({ caller, request, usage: this.#filled(usage), reserved, charged })
      void Promise.resolve(told).catch(() => {})
    } catch {
      // A hook that fails must not break the answer that it is told of.
    }
  }

  /** The provider made nothing: tokens and money come back. The request was one all the same: else one that fails could be
   *  repeated without end. */
  fail(): Promise<void> {
    return this.settle({ input: 0, output: 0 })
  }

  /** Nothing was sent: all comes back, as if nobody had asked. */
  refund(): Promise<void> {
    return this.#end(() => this.#afterGrowth(() => this.decision.refund()))
  }

  /** Nothing can be given back that is not booked yet. */
  async #afterGrowth(close: () => unknown): Promise<void> {
    if (this.#grown !== undefined) await this.#grown
    await close()
  }

  #end(how: () => Promise<void>): Promise<void> {
    this.#ended ??= how()
    return this.#ended
  }

  /** For answers that do not come as a `Response`: tell it the chunks as they pass by, and how it ended. */
  listen(contentType: string | null | undefined): Listener {
    const { count, signal } = this.#ledger
    return new Listener(this, { contentType, model: this.request.model, count }, signal)
  }

  /** The same response, whose body is looked at while it is read; settles when it has been, is given up or breaks off. */
  watch(response: Response): Response {
    if (this.#ended !== undefined) return response
    if (response.status >= 400) {
      void this.fail()
      return response
    }
    if (response.body === null) {
      void this.settle({})
      return response
    }
    return new Response(passOn(response.body, this.listen(response.headers.get('content-type'))), response)
  }

  /** Fields of a response to the caller: in the provider's own style unless said otherwise. */
  headers(style: LlmHeaderStyle | readonly LlmHeaderStyle[] = this.#style): Record<string, string> {
    const headers: Record<string, string> = {}
    writeLlmHeaders(toldOf(this.decision), this.#ledger.meter.unitOf, style, (name, value) => {
      headers[name] = value
    })
    return headers
  }

  /** What to answer a call that was refused, in the words of the provider that its caller thinks it talks to. */
  refusal(): Response {
    return refusalOf(this.decision, this.#style, isOverload(this.decision), this.headers())
  }

  get #style(): LlmHeaderStyle {
    return this.request.endpoint === 'messages' ? 'anthropic' : 'openai'
  }

  /** @internal Books what is used beyond what is booked, if it is so much more that the store need know. */
  grow(usage: Partial<Usage>, leastTokens: number): void {
    const { input, output } = this.#filled(usage)
    const more = Math.max(input - this.#known.input, output - this.#known.output)
    if (this.#ended !== undefined || more < leastTokens) return
    this.#known = { input: Math.max(input, this.#known.input), output: Math.max(output, this.#known.output) }
    const now = this.#amounts({ ...usage, ...this.#known })
    const due = this.#names.map((name) => [name, Math.max(0, (now[name] ?? 0) - (this.#booked[name] ?? 0))] as const)
    this.#booked = Object.fromEntries(due.map(([name, units]) => [name, (this.#booked[name] ?? 0) + units]))
    this.#grown = Promise.all([this.#grown, bookMore(this.decision, Object.fromEntries(due))]).then(() => {})
  }

  #filled(usage: Partial<Usage>): Settled<C>['usage'] {
    const { input, output } = this.request
    return { ...usage, input: usage.input ?? input, output: usage.output ?? output }
  }

  #amounts(usage: Partial<Usage>): Amounts {
    const used = this.#filled(usage)
    const { meter } = this.#ledger
    return Object.fromEntries(this.#names.map((name) => [name, meter.amount(name, this.request.model, used)]))
  }
}
