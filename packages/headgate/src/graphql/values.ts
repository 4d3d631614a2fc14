import type { DirectiveNode, FieldNode, OperationDefinitionNode, ValueNode } from 'graphql'

export type Variables = Readonly<Record<string, unknown>>

/** In place of a value that nobody has told. */
export const UNKNOWN = Symbol('unknown')
/** Variables of which nothing is known, not even that they are left out. */
export const unknownVariables: Variables = {}

/** Variables as an operation sees them: those that were sent, else its defaults. */
export function variablesOf(operation: OperationDefinitionNode, sent: Variables | null | undefined): Variables {
  const definitions = operation.variableDefinitions
  if (definitions === undefined || definitions.length === 0) return {}
  const values: Record<string, unknown> = {}
  for (const { variable, defaultValue } of definitions) {
    const name = variable.name.value
    if (sent === unknownVariables) values[name] = UNKNOWN
    else if (sent != null && Object.hasOwn(sent, name)) values[name] = sent[name]
    else if (defaultValue !== undefined) values[name] = readValue(defaultValue, {})
  }
  return values
}

/** What a value in a document stands for; undefined for a variable that has none. */
export function readValue(node: ValueNode, variables: Variables): unknown {
  switch (node.kind) {
    case 'Variable':
      return Object.hasOwn(variables, node.name.value) ? variables[node.name.value] : undefined
    case 'IntValue':
    case 'FloatValue':
      return Number(node.value)
    case 'NullValue':
      return null
    case 'ListValue':
      return node.values.map((each) => readValue(each, variables))
    case 'ObjectValue':
      return Object.fromEntries(node.fields.map(({ name, value }) => [name.value, readValue(value, variables)]))
    default:
      return node.value
  }
}

export function argumentOf(node: FieldNode | DirectiveNode, name: string, variables: Variables): unknown {
  const given = node.arguments?.find((each) => each.name.value === name)
  return given === undefined ? undefined : readValue(given.value, variables)
}

/** Whether `@skip` or `@include` takes a selection out. */
export function isLeftOut(directives: readonly DirectiveNode[] | undefined, variables: Variables): boolean {
  if (directives === undefined || directives.length === 0) return false
  return directives.some(({ name }, i) => {
    if (name.value !== 'skip' && name.value !== 'include') return false
    const condition = argumentOf(directives[i] as DirectiveNode, 'if', variables)
    return name.value === 'skip' ? condition === true : condition === false
  })
}
