import { createGate, type Gate, HeadgateError, type LimitOptions, type Store } from 'headgate'
import type { Rules } from '../config/schema.ts'
import type { Service } from '../service.ts'
import { pointerOf, refusalOf } from './problem.ts'
import type { InlineLimit } from './schemas.ts'

export type InlineLimits = Readonly<Record<string, InlineLimit>>
export type InlineGate = Gate<InlineLimits, string, Store>

const MOST_GATES = 1000
/** No limit of the rules can have a name that starts like this. */
const PREFIX = '~inline'

/** What limits are, without whom they count: calls with the same definition share a gate. */
export function definitionOf(limits: InlineLimits): string {
  return JSON.stringify(
    Object.entries(limits).map(([name, { key: _, cost, ...rest }]) => [name, rest, cost !== undefined]),
  )
}

type Definition = readonly [name: string, options: Omit<InlineLimit, 'key' | 'cost'>, ownCost: boolean][]

/** Gates for limits that calls bring along, those used last. A gate is no more than its definition: counts are in the store. */
export class InlineGates {
  readonly #service: Service
  readonly #gates = new Map<string, InlineGate>()
  #rules: Rules | undefined

  constructor(service: Service) {
    this.#service = service
  }

  gateOf(definition: string): InlineGate {
    const { rules } = this.#service.rules
    // How long a store may take, and what then, is in the rules.
    if (rules !== this.#rules) this.#gates.clear()
    this.#rules = rules
    const gate = this.#gates.get(definition) ?? this.#make(JSON.parse(definition) as Definition, rules)
    this.#gates.delete(definition)
    this.#gates.set(definition, gate)
    const [oldest] = this.#gates.keys()
    if (this.#gates.size > MOST_GATES && oldest !== undefined) this.#gates.delete(oldest)
    return gate
  }

  #make(definition: Definition, { timeoutMs, onStoreError, nodes }: Rules): InlineGate {
    const { store } = this.#service
    const make = (part: Definition): InlineGate =>
      createGate<InlineLimits, Record<string, LimitOptions<InlineLimits>>, Store>({
        store,
        prefix: `${store.prefix ?? 'hg'}:${PREFIX}`,
        timeoutMs,
        onStoreError,
        nodes,
        limits: Object.fromEntries(part.map(optionsOf)) as never,
      })
    try {
      return make(definition)
    } catch (error) {
      if (!(error instanceof HeadgateError)) throw error
      throw faultOf(definition, make) ?? error
    }
  }
}

function optionsOf([name, options, ownCost]: Definition[number]): [string, LimitOptions<InlineLimits>] {
  const by = (limits: InlineLimits) => limits[name]?.key
  const cost = (limits: InlineLimits) => limits[name]?.cost ?? 1
  return [name, { ...(options as LimitOptions<InlineLimits>), by, ...(ownCost && { cost }) }]
}

/** Which of the limits is wrong. */
function faultOf(definition: Definition, make: (part: Definition) => unknown): unknown {
  for (const each of definition) {
    try {
      make([each])
    } catch (error) {
      return refusalOf(error, pointerOf(['limits', each[0]]))
    }
  }
  return undefined
}
