import type { Clock } from '../clock.ts'
import type { Decision } from '../decision.ts'
import { createGate } from '../gate.ts'
import { compileLimit } from '../limit.ts'
import type { Limit } from '../named-limit.ts'
import type { Store } from '../stores/store.ts'
import type { Budget } from './budget.ts'
import type { Weight } from './options.ts'
import { LONGEST_WAIT_MS } from './told.ts'

export interface Taken {
  /** 0: it may go; Infinity: it never may. */
  readonly waitMs: number
  /** It does not go after all. */
  giveBack(): void
}

interface AnyGate {
  take(key: string, options?: { readonly cost?: number }): Decision<unknown> | Promise<Decision<unknown>>
  block(key: string, ms: number): void | Promise<void>
}

/** So much of a limit may go at once when several processes use it: a tenth, or they would all go when it is full again. */
const BURST = 10
const MOST_GATES = 1_000
/** No gate counts further. */
const MOST_COUNTED = 1e15

/** Limits that were given, or that several processes share: gates count them. Pauses are blocks, which all of them see. */
export class Gates {
  readonly #given: AnyGate | undefined
  /** What fits at once under it. */
  readonly #most: number
  readonly #pauses: AnyGate | undefined
  readonly #learnt = new Map<string, AnyGate>()
  readonly #store: Store | undefined
  readonly #common: object

  constructor(limit: Limit | undefined, store: Store | undefined, clock: Clock | undefined) {
    this.#store = store
    const prefix = `${store?.prefix ?? 'hg'}:client`
    this.#common = { prefix, ...(store !== undefined && { store }), ...(clock !== undefined && { clock }) }
    this.#given = limit === undefined ? undefined : this.#gate(limit)
    this.#most = limit === undefined ? Infinity : Math.max(1, compileLimit(limit).limit)
    // Holds nobody back by itself: a block needs a gate to stand in.
    this.#pauses = store === undefined ? undefined : this.#gate({ limit: 1_000_000, per: '1s' })
  }

  /** Undefined where there is nothing to ask. */
  static of(limit: Limit | undefined, store: Store | undefined, clock: Clock | undefined): Gates | undefined {
    return limit === undefined && store === undefined ? undefined : new Gates(limit, store, clock)
  }

  /** Whether others count here as well, so that a wait may become longer. */
  get isShared(): boolean {
    return this.#store !== undefined
  }

  #gate(limit: unknown): AnyGate {
    return createGate({ ...this.#common, limit } as never) as unknown as AnyGate
  }

  /** All of it or nothing, at once or when the store has answered. */
  take(host: string, weight: Weight | undefined, budgets: readonly Budget[]): Taken | Promise<Taken> {
    // A call that is larger than the limit goes when all of it is there.
    const cost = Math.min(this.#most, Math.ceil(typeof weight === 'object' ? (weight.requests ?? 1) : (weight ?? 1)))
    const asked = [
      ...(this.#given === undefined ? [] : [this.#given.take(`given ${host}`, { cost })]),
      ...pauseKeys(host, budgets).flatMap((key) => this.#pauses?.take(key) ?? []),
      ...(this.#store === undefined ? [] : budgets.flatMap((budget) => this.#takeShare(host, budget, weight))),
    ]
    return asked.some((answer) => answer instanceof Promise)
      ? Promise.all(asked).then(together)
      : together(asked as Decision<unknown>[])
  }

  #takeShare(host: string, budget: Budget, weight: Weight | undefined) {
    const { limit = 0, windowMs = 0 } = budget
    // What no gate could count is obeyed as it is told, by each for itself.
    if (!(limit >= 1 && limit <= MOST_COUNTED && windowMs >= 1 && windowMs <= LONGEST_WAIT_MS)) return []
    const rate = {
      limit: Math.floor(limit),
      per: `${Math.ceil(windowMs)}ms`,
      burst: Math.max(1, Math.ceil(limit / BURST)),
    }
    const name = `${rate.limit}/${rate.per}`
    const gate = this.#learnt.get(name) ?? this.#gate(rate)
    if (this.#learnt.size < MOST_GATES) this.#learnt.set(name, gate)
    return [gate.take(`${name} ${host} ${budget.id}`, { cost: Math.min(rate.burst, Math.ceil(budget.weigh(weight))) })]
  }

  /** Nobody who shares the store sends anything under these budgets, or to the host if there are none. */
  pause(host: string, budgets: readonly Budget[], ms: number): void {
    const keys = budgets.length === 0 ? pauseKeys(host, []) : pauseKeys(host, budgets).slice(1)
    for (const key of keys) void Promise.resolve(this.#pauses?.block(key, ms)).catch(() => {})
  }
}

/** That of the host, then those of the budgets. */
function pauseKeys(host: string, budgets: readonly Budget[]): string[] {
  return [`pause ${host}`, ...budgets.map(({ id }) => `pause ${host} ${id}`)]
}

function together(decisions: readonly Decision<unknown>[]): Taken {
  const waitMs = Math.max(0, ...decisions.map(({ retryAfterMs }) => retryAfterMs))
  const giveBack = () => {
    for (const decision of decisions) if (decision.ok) void Promise.resolve(decision.refund()).catch(() => {})
  }
  if (waitMs > 0) giveBack()
  return { waitMs, giveBack: waitMs > 0 ? () => {} : giveBack }
}
