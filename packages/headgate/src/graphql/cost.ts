import type { DocumentNode, FieldNode, OperationDefinitionNode, SelectionNode, SelectionSetNode } from 'graphql'
import { HeadgateError, show } from '../errors.ts'
import { type Fragments, noFragment } from './measure.ts'
import type { Bounds } from './options.ts'
import type { Price, Prices } from './prices.ts'
import { tooLarge } from './scan.ts'
import { sizeOf } from './sizes.ts'
import { isLeftOut, readValue, type Variables, variablesOf } from './values.ts'

/** A list's length that the field above knows: `users(first: 5) { edges { … } }`. */
export interface Handed {
  readonly size: number
  readonly names: readonly string[]
}

/** How often fragments are looked into, for all the lengths they are handed. A document that needs more was made to. */
const MOST_STEPS = 20_000

/**
 * What one operation costs before it is run: each field its weight, each object the weight of its type, as often as the lists
 * around it are long, and of objects that may be of several types the dearest. Fields that are asked for twice count twice, though
 * they are resolved once, so it is never too little; what it really was is known afterwards.
 */
export class StaticCost {
  readonly #prices: Prices
  readonly #bounds: Bounds
  readonly #fragments: Fragments
  readonly #operation: OperationDefinitionNode
  readonly variables: Variables
  /** By fragment and what it is handed. */
  readonly #known = new Map<string, number>()
  #steps = 0

  constructor(
    prices: Prices,
    bounds: Bounds,
    fragments: Fragments,
    operation: OperationDefinitionNode,
    variables: Variables | null | undefined,
  ) {
    this.#prices = prices
    this.#bounds = bounds
    this.#fragments = fragments
    this.#operation = operation
    this.variables = variablesOf(operation, variables)
  }

  get fragments(): Fragments {
    return this.#fragments
  }

  get root(): string {
    return this.#prices.rootOf(this.#operation.operation)
  }

  get selectionSet(): SelectionSetNode {
    return this.#operation.selectionSet
  }

  /** Also for a caller who asks for next to nothing: the root counts as an object. */
  total(): number {
    const type = this.root
    return whole(this.#prices.weightOf(type) + this.#set(this.#operation.selectionSet, type, undefined))
  }

  #field(node: FieldNode, type: string, handed: Handed | undefined): number {
    const price = this.#prices.of(type, node.name.value)
    return bounded(this.asking(node, price) + this.returned(node, price, handed))
  }

  /** What it costs that a field is returned, beside asking for it. */
  returned(node: FieldNode, price: Price, handed: Handed | undefined): number {
    return bounded(this.#items(node, price, handed) * this.item(node, price))
  }

  /** The same of one object of a list. */
  item(node: FieldNode, price: Price): number {
    const { type, itemWeight } = price
    if (type === undefined || node.selectionSet === undefined) return itemWeight
    return itemWeight + this.#set(node.selectionSet, type, this.handedBy(node, price))
  }

  /** What it costs to ask for a field, whatever it returns. */
  asking(node: FieldNode, price: Price): number {
    let sum = price.weight
    for (const [name, { weight, type }] of price.arguments) {
      const given = node.arguments?.find((each) => each.name.value === name)
      if (given === undefined) continue
      sum += weight
      if (type !== undefined) sum += this.#prices.inputs.costOf(type, readValue(given.value, this.variables))
    }
    return sum
  }

  #items(node: FieldNode, price: Price, handed: Handed | undefined): number {
    const { dimensions, size } = price
    if (dimensions === 0) return 1
    const { defaultListSize } = this.#bounds
    const outer =
      handed?.names.includes(node.name.value) === true
        ? handed.size
        : sizeOf(
            node,
            size.sized === undefined ? size : { ...size, slicing: [], requireOne: false },
            defaultListSize,
            this.variables,
          )
    return dimensions === 1 ? outer : outer * defaultListSize ** (dimensions - 1)
  }

  handedBy(node: FieldNode, { size }: Price): Handed | undefined {
    if (size.sized === undefined) return undefined
    return { size: sizeOf(node, size, this.#bounds.defaultListSize, this.variables), names: size.sized }
  }

  #set({ selections }: SelectionSetNode, type: string, handed: Handed | undefined): number {
    let sum = 0
    let branches: Map<string, number> | undefined
    for (const selection of selections) {
      if (isLeftOut(selection.directives, this.variables)) continue
      if (selection.kind === 'Field') {
        sum += this.#field(selection, type, handed)
        continue
      }
      const condition = this.conditionOf(selection, type)
      const shared = condition === type ? 'all' : this.#prices.shared(type, condition)
      if (shared.length === 0) continue
      const cost = this.#fragment(selection, condition, handed)
      if (shared === 'all') sum += cost
      else {
        branches ??= new Map()
        for (const each of shared) branches.set(each, (branches.get(each) ?? 0) + cost)
      }
    }
    return bounded(branches === undefined ? sum : sum + Math.max(0, ...branches.values()))
  }

  conditionOf(selection: Exclude<SelectionNode, FieldNode>, type: string): string {
    if (selection.kind === 'InlineFragment') return selection.typeCondition?.name.value ?? type
    const fragment = this.#fragments.get(selection.name.value)
    if (fragment === undefined) throw noFragment(selection.name.value)
    return fragment.typeCondition.name.value
  }

  #fragment(selection: Exclude<SelectionNode, FieldNode>, condition: string, handed: Handed | undefined): number {
    if (++this.#steps > MOST_STEPS) throw tooLarge('fragments', `more than ${MOST_STEPS}`, MOST_STEPS, 'maxFields')
    if (selection.kind === 'InlineFragment') return this.#set(selection.selectionSet, condition, handed)
    const name = selection.name.value
    const key = handed === undefined ? name : `${name} ${handed.size} ${handed.names.join()}`
    const known = this.#known.get(key)
    if (known !== undefined) return known
    const cost = this.#set(
      (this.#fragments.get(name) as { selectionSet: SelectionSetNode }).selectionSet,
      condition,
      handed,
    )
    this.#known.set(key, cost)
    return cost
  }
}

/** Which operation of a document is run. */
export function operationOf(document: DocumentNode, name: string | null | undefined): OperationDefinitionNode {
  const all = document.definitions.filter((each) => each.kind === 'OperationDefinition')
  const chosen = name == null ? (all.length === 1 ? all[0] : undefined) : all.find((each) => each.name?.value === name)
  if (chosen !== undefined) return chosen
  throw new HeadgateError(
    'HG_QUERY_INVALID',
    name == null
      ? `the query has ${all.length} operations and none is named: say which one by its name`
      : `the query has no operation ${show(name)}: name one that it has`,
    name,
  )
}

/** What is dearer than numbers are exact for fits no limit, whatever it is exactly. */
export function bounded(cost: number): number {
  return Math.min(cost, Number.MAX_SAFE_INTEGER)
}

/** Units are whole; a fraction counts as one. */
export function whole(cost: number): number {
  return Math.ceil(bounded(cost))
}
