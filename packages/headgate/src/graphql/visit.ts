import type { Decision } from '../decision.ts'
import { ActualCost } from './actual.ts'
import type { StaticCost } from './cost.ts'
import type { Prices } from './prices.ts'

/** What came of an operation, as all servers have it. */
export interface Result {
  readonly data?: unknown
  readonly errors?: readonly unknown[] | undefined
  readonly extensions?: Readonly<Record<string, unknown>> | undefined
}

/** What an answer tells under `extensions.cost`. */
export interface CostReport {
  /** What was charged before it was run. */
  readonly requested: number
  /** What it was corrected to. */
  readonly actual: number
  /** The limit that is closest to its end, and what of it was left when this was charged. */
  readonly limit: string
  readonly remaining: number
  readonly resetAfterMs: number
}

/** One operation from its charge to its end. */
export class Visit {
  readonly decision: Decision<unknown>
  readonly requested: number
  readonly #prices: Prices
  readonly #cost: StaticCost
  #isOver = false
  /** Until the correction has reached the store. */
  settled: unknown

  constructor(decision: Decision<unknown>, prices: Prices, cost: StaticCost) {
    this.decision = decision
    this.requested = decision.cost
    this.#prices = prices
    this.#cost = cost
  }

  /** Corrects the charge to what was returned, and says so in the answer. */
  finish<T extends Result>(result: T): T {
    if (!this.decision.ok || this.#isOver) return result
    const actual = new ActualCost(this.#prices, this.#cost, (result.errors?.length ?? 0) > 0).total(result.data)
    this.end()
    this.settled = this.decision.settle(actual)
    return { ...result, extensions: { ...result.extensions, cost: this.#report(actual) } }
  }

  /** It ended in another way: it failed, nobody waited for it, or its answer comes piece by piece. What was charged stays charged. */
  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    if (this.decision.ok) void this.decision.release()
  }

  #report(actual: number): CostReport {
    const { limit, limits } = this.decision
    // Not those of the decision, which are about all limits together.
    const { remaining, resetAfterMs } = limits.find(({ name }) => name === limit) ?? this.decision
    return { requested: this.requested, actual, limit, remaining, resetAfterMs }
  }
}
