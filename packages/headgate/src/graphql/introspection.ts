import type { GraphQLNamedType } from 'graphql'

/**
 * How long lists get that tell of the schema: no caller says, and the schema knows. Each is as long as the longest of its kind, so what
 * is worked out from them is never too little.
 */
export function introspectionSizes(types: readonly GraphQLNamedType[]): ReadonlyMap<string, number> {
  let [fields, args, values] = [0, 3, 0]
  for (const type of types) {
    if ('getValues' in type) values = Math.max(values, type.getValues().length)
    if (!('getFields' in type)) continue
    const own = Object.values(type.getFields())
    fields = Math.max(fields, own.length)
    for (const field of own) if ('args' in field) args = Math.max(args, field.args.length)
  }
  const all = types.length
  return new Map([
    ['__Schema.types', all],
    ['__Schema.directives', 20],
    ['__Directive.args', args],
    ['__Directive.locations', 20],
    ['__Type.fields', fields],
    ['__Type.inputFields', fields],
    ['__Type.interfaces', all],
    ['__Type.possibleTypes', all],
    ['__Type.enumValues', values],
    ['__Field.args', args],
  ])
}
