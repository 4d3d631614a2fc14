import { priorities as order, type Priority } from 'headgate/overload'
import type { OverloadRules } from '../config/overload-schema.ts'
import type { Caller } from './caller.ts'
import { type Condition, conditionsOf } from './match.ts'

/** How much a request matters, and who said so. */
export interface Ranked {
  readonly priority: Priority
  /** `header x-headgate-priority`, `overload.priorities.2`, `limit search`; `default`: nobody. */
  readonly because: string
}

/** A limit that says how much the requests matter that it concerns. */
export interface RankingLimit {
  readonly name: string
  readonly priority: Priority
  readonly conditions: readonly Condition[]
}

const DEFAULT: Ranked = { priority: 'normal', because: 'default' }

/**
 * How much requests matter: what a trusted proxy says in the header, where rules name one, else the first entry of `overload.priorities` that matches,
 * else the least that a limit which concerns them says. The least, as matching one more limit should raise nobody.
 */
export class Priorities {
  /** Absent: nobody is believed. Proxies pass on what they do not know, so who trusts them with addresses has not said that they set this. */
  readonly #header: string | undefined
  readonly #said: ReadonlyMap<string, Ranked>
  readonly #entries: readonly { readonly ranked: Ranked; readonly conditions: readonly Condition[] }[]
  /** Least important first. */
  readonly #limits: readonly { readonly ranked: Ranked; readonly conditions: readonly Condition[] }[]

  constructor({ header, priorities }: OverloadRules, limits: readonly RankingLimit[], caseSensitive: boolean) {
    this.#header = header
    this.#said = new Map(order.map((priority) => [priority, { priority, because: `header ${header}` }]))
    this.#entries = priorities.map(({ when, priority }, i) => ({
      ranked: { priority, because: `overload.priorities.${i}` },
      conditions: conditionsOf(when, caseSensitive),
    }))
    this.#limits = [...limits]
      .sort((a, b) => order.indexOf(b.priority) - order.indexOf(a.priority))
      .map(({ name, priority, conditions }) => ({ ranked: { priority, because: `limit ${name}` }, conditions }))
  }

  of(caller: Caller): Ranked {
    return this.#told(caller) ?? first(this.#entries, caller) ?? first(this.#limits, caller) ?? DEFAULT
  }

  #told({ incoming, identity }: Caller): Ranked | undefined {
    if (this.#header === undefined || incoming.isRelayed) return undefined
    const said = incoming.header(this.#header)
    return said !== undefined && identity.trusts(incoming.peer) ? this.#said.get(said.toLowerCase()) : undefined
  }
}

function first(
  ranks: readonly { readonly ranked: Ranked; readonly conditions: readonly Condition[] }[],
  caller: Caller,
): Ranked | undefined {
  return ranks.find(({ conditions }) => conditions.every((each) => each.holds(caller)))?.ranked
}
