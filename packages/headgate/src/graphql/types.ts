import type { GraphQLField, GraphQLNamedType, GraphQLType } from 'graphql'

// Types are told apart by their tags, so it does not matter which copy of `graphql` they are of.

/** A type whose objects have fields. */
export type Fielded = Extract<GraphQLNamedType, { getFields(): Record<string, GraphQLField<unknown, unknown>> }>

export function unwrap(type: GraphQLType): { type: GraphQLNamedType; dimensions: number } {
  let inner = type as GraphQLType & { readonly ofType?: GraphQLType }
  let dimensions = 0
  while (inner.ofType !== undefined) {
    if (tagOf(inner) === 'List') dimensions++
    inner = inner.ofType
  }
  return { type: inner as GraphQLNamedType, dimensions }
}

/** `Object` of `GraphQLObjectType`. */
export function tagOf(type: GraphQLType): string {
  return type[Symbol.toStringTag].replace(/^GraphQL|Type$/g, '')
}

export function isAbstract(type: GraphQLNamedType): type is Extract<GraphQLNamedType, { resolveType?: unknown }> {
  return tagOf(type) === 'Interface' || tagOf(type) === 'Union'
}

export function isComposite(type: GraphQLNamedType): type is Fielded {
  return tagOf(type) === 'Object' || isAbstract(type)
}
