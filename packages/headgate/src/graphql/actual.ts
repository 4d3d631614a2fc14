import type { FieldNode, SelectionSetNode } from 'graphql'
import { bounded, type Handed, type StaticCost, whole } from './cost.ts'
import type { Price, Prices } from './prices.ts'
import { isLeftOut } from './values.ts'

type Json = Readonly<Record<string, unknown>>

/** Fields asked for of objects that may be of this type. */
interface Part {
  readonly set: SelectionSetNode
  readonly type: string
  readonly handed: Handed | undefined
}

interface Asked {
  readonly node: FieldNode
  readonly price: Price
  readonly handed: Handed | undefined
}

/**
 * What an operation cost, by what it returned. All objects of one field are looked at together, so it takes as long as the answer is.
 * Which type an object is of is not told reliably (a caller may give any field the name `__typename`), but its fields are: where
 * several were asked for under one name, the dearest counts. `hasErrors`: what is null may have been worked on before it failed,
 * and counts as if it had been returned in full.
 */
export class ActualCost {
  readonly #prices: Prices
  readonly #cost: StaticCost
  readonly #hasErrors: boolean

  constructor(prices: Prices, cost: StaticCost, hasErrors: boolean) {
    this.#prices = prices
    this.#cost = cost
    this.#hasErrors = hasErrors
  }

  total(data: unknown): number {
    const type = this.#cost.root
    const root = this.#prices.weightOf(type)
    // Nothing was run, or all of it failed.
    if (typeof data !== 'object' || data === null)
      return data === null && this.#hasErrors ? this.#cost.total() : whole(root)
    return whole(root + this.#objects([data as Json], [{ set: this.#cost.selectionSet, type, handed: undefined }]))
  }

  #objects(values: readonly Json[], parts: readonly Part[]): number {
    if (values.length === 0) return 0
    let sum = 0
    for (const [name, asked] of this.#collect(parts)) {
      const found: unknown[] = []
      for (const value of values) if (value[name] !== undefined) found.push(value[name])
      if (found.length > 0) sum += this.#field(found, asked)
    }
    return bounded(sum)
  }

  #field(found: readonly unknown[], asked: readonly Asked[]): number {
    const most = (of: (each: Asked) => number) => Math.max(...asked.map(of))
    const asking = found.length * most(({ node, price }) => this.#cost.asking(node, price))
    const parts = this.#partsOf(asked)
    const weight = most(({ price }) => price.itemWeight)
    // Leaves that weigh nothing need not be looked at, however many there are.
    if (parts.length === 0 && weight === 0) return asking
    const items: unknown[] = []
    for (const value of found) if (value !== null) flatten(value, items)
    const there = items.filter((each) => each !== null)
    const whole = this.#hasErrors ? found.filter((each) => each === null).length : 0
    const single = this.#hasErrors ? items.length - there.length : 0
    const failed =
      (whole === 0 ? 0 : whole * most(({ node, price, handed }) => this.#cost.returned(node, price, handed))) +
      (single === 0 ? 0 : single * most(({ node, price }) => this.#cost.item(node, price)))
    const objects = parts.length === 0 ? [] : there.filter((each): each is Json => typeof each === 'object')
    return asking + there.length * weight + failed + this.#objects(objects, parts)
  }

  #partsOf(asked: readonly Asked[]): Part[] {
    return asked.flatMap(({ node, price }) =>
      node.selectionSet === undefined || price.type === undefined
        ? []
        : [{ set: node.selectionSet, type: price.type, handed: this.#cost.handedBy(node, price) }],
    )
  }

  /** By the name under which they are returned. */
  #collect(parts: readonly Part[]): ReadonlyMap<string, Asked[]> {
    const byName = new Map<string, Asked[]>()
    for (const part of parts) this.#gather(part, byName, new Set())
    return byName
  }

  #gather({ set, type, handed }: Part, byName: Map<string, Asked[]>, seen: Set<string>): void {
    for (const selection of set.selections) {
      if (isLeftOut(selection.directives, this.#cost.variables)) continue
      if (selection.kind === 'Field') {
        const name = (selection.alias ?? selection.name).value
        const asked = { node: selection, price: this.#prices.of(type, selection.name.value), handed }
        const known = byName.get(name)
        if (known === undefined) byName.set(name, [asked])
        else known.push(asked)
        continue
      }
      const condition = this.#cost.conditionOf(selection, type)
      if (condition !== type && this.#prices.shared(type, condition).length === 0) continue
      const inner = selection.kind === 'InlineFragment' ? selection : this.#once(selection.name.value, seen)
      if (inner !== undefined) this.#gather({ set: inner.selectionSet, type: condition, handed }, byName, seen)
    }
  }

  /** As when it is executed: what a set spreads twice counts once. */
  #once(name: string, seen: Set<string>): { readonly selectionSet: SelectionSetNode } | undefined {
    if (seen.has(name)) return undefined
    seen.add(name)
    return this.#cost.fragments.get(name)
  }
}

function flatten(value: unknown, into: unknown[]): void {
  if (Array.isArray(value)) for (const each of value) flatten(each, into)
  else into.push(value)
}
