import type { DocumentNode, FragmentDefinitionNode, OperationDefinitionNode, SelectionSetNode } from 'graphql'
import { HeadgateError, show } from '../errors.ts'
import { type Bounds, MOST_NESTED } from './options.ts'
import { tooLarge, tooNested } from './scan.ts'

export type Fragments = ReadonlyMap<string, FragmentDefinitionNode>

interface Measure {
  depth: number
  fields: number
  aliases: number
}

/**
 * Refuses documents that are too deep or too large, before anybody validates them: to validate takes the square of their fields.
 * Needs no schema. Each fragment is measured once, whoever spreads it.
 */
export function measure(document: DocumentNode, bounds: Bounds): Fragments {
  const fragments = fragmentsOf(document)
  const walk = new Walk(fragments, bounds)
  for (const definition of document.definitions)
    if (definition.kind === 'OperationDefinition') walk.operation(definition)
  // Also those that nobody spreads: a validator looks at all of them.
  for (const name of fragments.keys()) walk.fragment(name, 0)
  return fragments
}

export function fragmentsOf(document: DocumentNode): Fragments {
  const definitions = document?.definitions
  if (!Array.isArray(definitions)) {
    throw new HeadgateError(
      'HG_QUERY_INVALID',
      `the query is ${show(document)}: give its text, or what parse() returned`,
      document,
    )
  }
  const fragments = new Map<string, FragmentDefinitionNode>()
  for (const each of definitions) if (each.kind === 'FragmentDefinition') fragments.set(each.name.value, each)
  return fragments
}

class Walk {
  readonly #fragments: Fragments
  readonly #bounds: Bounds
  readonly #known = new Map<string, Measure | 'underway'>()

  constructor(fragments: Fragments, bounds: Bounds) {
    this.#fragments = fragments
    this.#bounds = bounds
  }

  operation({ selectionSet }: OperationDefinitionNode): void {
    this.#set(selectionSet, 0)
  }

  fragment(name: string, level: number): Measure {
    const known = this.#known.get(name)
    if (known === 'underway') throw cycle(name)
    if (known !== undefined) return known
    const fragment = this.#fragments.get(name)
    if (fragment === undefined) throw noFragment(name)
    this.#known.set(name, 'underway')
    const measured = this.#set(fragment.selectionSet, level + 1)
    this.#known.set(name, measured)
    return measured
  }

  #set({ selections }: SelectionSetNode, level: number): Measure {
    if (level > MOST_NESTED) throw tooNested()
    const sum: Measure = { depth: 0, fields: 0, aliases: 0 }
    for (const selection of selections) {
      if (selection.kind === 'Field') {
        const { selectionSet: inner, alias } = selection
        const within = inner === undefined ? undefined : this.#set(inner, level + 1)
        add(sum, 1 + (within?.depth ?? 0), 1 + (within?.fields ?? 0), (alias ? 1 : 0) + (within?.aliases ?? 0))
      } else {
        const { depth, fields, aliases } =
          selection.kind === 'FragmentSpread'
            ? this.fragment(selection.name.value, level)
            : this.#set(selection.selectionSet, level + 1)
        add(sum, depth, fields, aliases)
      }
      this.#check(sum)
    }
    return sum
  }

  #check({ depth, fields, aliases }: Measure): void {
    const { maxDepth, maxFields, maxAliases } = this.#bounds
    if (aliases > maxAliases) throw tooLarge('aliases', `more than ${maxAliases}`, maxAliases, 'maxAliases')
    if (fields > maxFields) throw tooLarge('fields', `more than ${maxFields}`, maxFields, 'maxFields')
    if (depth <= maxDepth) return
    throw new HeadgateError(
      'HG_QUERY_TOO_DEEP',
      `the query is ${depth} fields deep, and at most ${maxDepth} are let in: ask for less at a time, or raise "maxDepth"`,
      depth,
    )
  }
}

function add(sum: Measure, depth: number, fields: number, aliases: number): void {
  sum.depth = Math.max(sum.depth, depth)
  sum.fields += fields
  sum.aliases += aliases
}

function cycle(name: string): HeadgateError {
  return new HeadgateError(
    'HG_QUERY_INVALID',
    `fragment "${name}" spreads itself, directly or by others: take it out`,
    name,
  )
}

export function noFragment(name: string): HeadgateError {
  return new HeadgateError('HG_QUERY_INVALID', `the query has no fragment ${show(name)}: send it along`, name)
}
