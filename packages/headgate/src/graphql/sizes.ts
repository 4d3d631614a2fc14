import type { FieldNode } from 'graphql'
import { HeadgateError } from '../errors.ts'
import { readValue, UNKNOWN, type Variables } from './values.ts'

/** What a schema says of how long a list gets. */
export interface ListSize {
  /** Arguments that say it; a dot leads into an input object. */
  readonly slicing: readonly string[]
  /** What these are if the caller leaves them out. */
  readonly defaults: Readonly<Record<string, unknown>>
  readonly assumed: number | undefined
  /** The caller has to give exactly one of them. */
  readonly requireOne: boolean
  /** The lists are these fields of what is returned, and not what is returned itself: `edges` of a connection. */
  readonly sized: readonly string[] | undefined
}

/** What arguments are called that say how long a list gets, where no `@listSize` names them. */
export const usualSlicing = ['first', 'last', 'limit']
/** What the lists of a connection are called. */
export const usualSized = ['edges', 'nodes']

export function sizeOf(node: FieldNode, size: ListSize, otherwise: number, variables: Variables): number {
  const given = size.slicing.map((path) => numberAt(node, path, variables)).filter((each) => each !== undefined)
  const said = given.length > 0 ? given : defaultsOf(size)
  if (size.requireOne && said.length !== 1) throw notOne(node.name.value, size.slicing, said.length)
  return said.length > 0 ? Math.max(...said) : (size.assumed ?? otherwise)
}

function defaultsOf({ slicing, defaults }: ListSize): number[] {
  return slicing.map((path) => toSize(at(defaults, path.split('.')))).filter((each) => each !== undefined)
}

function numberAt(node: FieldNode, path: string, variables: Variables): number | undefined {
  const [name, ...rest] = path.split('.')
  const given = node.arguments?.find((each) => each.name.value === name)
  if (given === undefined) return undefined
  const value = at(readValue(given.value, variables), rest)
  if (value === UNKNOWN) throw unknown(node.name.value, path)
  return toSize(value)
}

function at(value: unknown, path: readonly string[]): unknown {
  let inner = value
  for (const name of path) {
    if (inner === UNKNOWN) return inner
    if (typeof inner !== 'object' || inner === null || !Object.hasOwn(inner, name)) return undefined
    inner = (inner as Record<string, unknown>)[name]
  }
  return inner
}

/** What is no length, such as -1 for "all", says nothing. */
function toSize(value: unknown): number | undefined {
  const size = typeof value === 'string' ? Number.parseInt(value, 10) : value
  return typeof size === 'number' && size >= 0 ? Math.min(Math.ceil(size), Number.MAX_SAFE_INTEGER) : undefined
}

function unknown(field: string, path: string): HeadgateError {
  const message = `how long field "${field}" gets stands in a variable, which is not known here: write "${path}" into the query`
  return new HeadgateError('HG_QUERY_INVALID', message, path)
}

function notOne(field: string, slicing: readonly string[], count: number): HeadgateError {
  return new HeadgateError(
    'HG_QUERY_INVALID',
    `field "${field}" is asked for with ${count === 0 ? 'none' : count} of ${slicing.join(', ')}: give exactly one`,
    count,
  )
}
