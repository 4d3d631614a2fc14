import type { LlmUnit } from '../headers/llm.ts'
import type { PriceList } from './prices.ts'
import type { Usage } from './usage.ts'

/** What limits of a budget count. */
export const units = ['requests', 'input', 'output', 'tokens', 'money'] as const satisfies readonly LlmUnit[]
export type { LlmUnit }

/** So many of each limit, by name. */
export type Amounts = Readonly<Record<string, number>>

/** Turns tokens into what each limit counts. The one place that knows how. */
export class Meter {
  readonly #units: ReadonlyMap<string, LlmUnit>
  readonly #prices: PriceList | undefined

  constructor(unitsByLimit: ReadonlyMap<string, LlmUnit>, prices: PriceList | undefined) {
    this.#units = unitsByLimit
    this.#prices = prices
  }

  readonly unitOf = (limit: string): LlmUnit | undefined => this.#units.get(limit)

  /** What a call that used this costs of a limit. A call is a request however it ends. */
  amount(limit: string, model: string, used: Pick<Usage, 'input' | 'output'> & Partial<Usage>): number {
    const unit = this.#units.get(limit) as LlmUnit
    if (unit === 'requests') return 1
    if (unit === 'tokens') return used.input + used.output
    return unit === 'money' ? (this.#prices as PriceList).costOf(model, used) : used[unit]
  }
}
