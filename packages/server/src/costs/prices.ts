import type { GraphqlCost } from 'headgate/graphql'
import { type CostWord, costWord } from '../config/cost-words.ts'
import { compileGraphql } from '../config/graphql-library.ts'
import type { GraphqlRules } from '../config/graphql-schema.ts'
import type { LlmRules } from '../config/llm-schema.ts'
import type { Caller } from '../rules/caller.ts'
import { decoded, mustBeJson } from './content.ts'
import { BodyFault } from './fault.ts'
import { graphqlCostOf } from './graphql.ts'
import { countItems } from './json.ts'
import { llmRequestOf, tokensOf } from './llm.ts'

/** A limit whose cost stands in the request. */
export interface Priced {
  readonly name: string
  /** As it stands in the rules. */
  readonly cost: string
  /** Whether it refuses what it cannot read: one that only watches refuses nobody. */
  readonly isStrict: boolean
  concerns(caller: Caller): boolean
}

/** The body of a request. */
export interface BodySource {
  /** How long it may be, unpacked: said when the service starts, as is how much is read, whatever rules say since. */
  readonly maxBytes: number
  /** All of it; undefined if there is none, or, unless it `isNeeded`, if it is too large. */
  read(isNeeded: boolean): Promise<Buffer | undefined>
}

interface Price extends Priced {
  readonly word: CostWord
}

/** What of the rules costs depend on. */
export interface PriceRules {
  readonly graphql?: GraphqlRules | undefined
  readonly llm: LlmRules
}

/** What requests cost by limits that look into them. */
export class Prices {
  readonly #prices: readonly Price[]
  readonly #graphql: GraphqlCost | undefined
  readonly #llm: LlmRules

  constructor(limits: readonly Priced[], { graphql, llm }: PriceRules) {
    this.#llm = llm
    this.#graphql = graphql && compileGraphql(graphql)
    this.#prices = limits.map((limit) => ({ ...limit, word: costWord(limit.cost) }))
  }

  /** Until it is known what a request costs. Undefined: none of these limits concerns it, and nothing of its body is touched. */
  of(caller: Caller, source: BodySource): Promise<void> | undefined {
    const prices = this.#prices.filter((each) => each.concerns(caller))
    return prices.length === 0 ? undefined : this.#work(prices, caller, source)
  }

  async #work(prices: readonly Price[], caller: Caller, source: BodySource): Promise<void> {
    const body = await source.read(prices.some(({ isStrict }) => isStrict))
    const costs = new Map<string, number>()
    caller.costs = costs
    let decoding: Promise<Buffer | undefined> | undefined
    const text = () => (decoding ??= Promise.resolve(body && decoded(body, caller, source.maxBytes)))
    for (const { name, word, isStrict } of prices) {
      try {
        costs.set(name, this.#cost(word, caller, await text()))
      } catch (error) {
        if (isStrict || !(error instanceof BodyFault)) throw error
      }
    }
  }

  #cost(word: CostWord, caller: Caller, text: Buffer | undefined): number {
    if (word.kind === 'graphql') return graphqlCostOf(caller, text, this.#graphql as GraphqlCost)
    if (word.kind === 'llm') {
      caller.llm ??= llmRequestOf(caller, text, this.#llm)
      return Math.max(1, caller.llm === undefined ? 1 : tokensOf(caller.llm, word.unit))
    }
    if (text === undefined || text.length === 0) return 1
    mustBeJson(caller)
    return Math.max(1, countItems(text, word.path))
  }
}
