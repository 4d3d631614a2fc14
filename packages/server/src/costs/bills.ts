import type { LlmUnit } from '../config/cost-words.ts'
import type { Outcome, RawHeaders } from '../gateway/index.ts'
import type { Caller } from '../rules/caller.ts'
import type { Decided } from '../rules/rule-set.ts'
import { LlmMeter, tokensOf } from './llm.ts'

/** A limit that is told by responses what they cost. */
export interface Settled {
  readonly name: string
  /** Of the field that says so, in small letters. */
  readonly header?: string
  /** Which tokens, where the body of the response says so. */
  readonly llm?: LlmUnit
}

/** What responses say that requests really cost. */
export class Bills {
  readonly limits: readonly Settled[]
  readonly #fields: ReadonlySet<string>
  readonly #onIgnored: (limit: string) => void

  /** @param onIgnored told of a response whose cost was no number */
  constructor(limits: readonly Settled[], onIgnored: (limit: string) => void) {
    this.limits = limits
    this.#fields = new Set(limits.flatMap(({ header }) => header ?? []))
    this.#onIgnored = onIgnored
  }

  /** Of one request that was let in. */
  open(decision: Decided, caller: Caller): Bill {
    const names = new Set(decision.limits.map(({ name }) => name))
    const concerned = this.limits.filter(({ name }) => names.has(name))
    return new Bill(this, decision, concerned, caller)
  }

  /** Takes what the head of a response says out of it: costs are between the upstream and us. What is told twice says nothing
   *  that could be believed. */
  take(headers: RawHeaders): ReadonlyMap<string, string> {
    const said = new Map<string, string>()
    for (let i = headers.length - 2; i >= 0; i -= 2) {
      const name = (headers[i] as string).toLowerCase()
      if (!this.#fields.has(name)) continue
      said.set(name, said.has(name) ? '' : (headers[i + 1] as string))
      headers.splice(i, 2)
    }
    return said
  }

  unitsOf(name: string, text: string): number | undefined {
    // A part of a unit is a unit.
    if (/^\d{1,15}(?:\.\d{1,15})?$/.test(text)) return Math.ceil(Number(text))
    this.#onIgnored(name)
    return undefined
  }
}

/** What one request really cost, by the limits that want to know. A decision is settled once, so it is when all is known. */
export class Bill {
  /** Undefined: what the body of the response says is of no interest. */
  readonly meter: LlmMeter | undefined
  readonly #bills: Bills
  readonly #decision: Decided
  readonly #limits: readonly Settled[]
  readonly #actual: Record<string, number> = {}

  constructor(bills: Bills, decision: Decided, limits: readonly Settled[], { llm }: Caller) {
    this.#bills = bills
    this.#decision = decision
    this.#limits = limits
    this.meter = llm !== undefined && limits.some((each) => each.llm) ? new LlmMeter(llm) : undefined
  }

  /** The final head of a response, ours included. */
  head(status: number, headers: RawHeaders): void {
    const said = this.#bills.take(headers)
    for (const { name, header } of this.#limits) {
      const text = header && said.get(header)
      const units = text === undefined ? undefined : this.#bills.unitsOf(name, text)
      if (units !== undefined) this.#actual[name] = units
    }
    if (this.meter === undefined) this.#settle()
    else this.meter.head(status, headers)
  }

  /** Nothing follows. What the head said of a limit is stronger than what is counted. */
  done(outcome: Outcome): void {
    const { meter } = this
    if (meter === undefined) return
    const used = meter.used(outcome)
    for (const { name, llm } of this.#limits) if (llm) this.#actual[name] ??= tokensOf(used, llm)
    this.#settle()
  }

  #settle(): void {
    if (Object.keys(this.#actual).length > 0) void this.#decision.settle(this.#actual)
  }
}
