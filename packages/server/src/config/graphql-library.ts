import {
  buildASTSchema,
  type DocumentNode,
  type GraphQLError,
  parse,
  specifiedScalarTypes,
  validateSchema,
  visit,
} from 'graphql'
import { type GraphqlCost, graphqlCost } from 'headgate/graphql'
import type { GraphqlRules } from './graphql-schema.ts'

/** What is wrong with a schema, and where in its text. */
export class SchemaFault extends Error {
  readonly line: number
  readonly column: number

  constructor(reason: string, { line, column }: { readonly line: number; readonly column: number }) {
    super(reason.replace(/^Syntax Error: /, '').replace(/\.$/, ''))
    this.line = line
    this.column = column
  }
}

const START = { line: 1, column: 1 }
/** Rules are compiled anew when somebody changes a mode; their schema is the same then. */
const MOST_KNOWN = 4
const known = new Map<string, GraphqlCost>()

/** What operations cost by a schema. Throws a SchemaFault, or an error of the library. */
export function compileGraphql(rules: GraphqlRules): GraphqlCost {
  const name = JSON.stringify(rules)
  const cost = known.get(name) ?? compile(rules)
  known.delete(name)
  known.set(name, cost)
  const [oldest] = known.keys()
  if (known.size > MOST_KNOWN && oldest !== undefined) known.delete(oldest)
  return cost
}

function compile({ schema: text, ...options }: GraphqlRules): GraphqlCost {
  const document = parsed(text)
  checkNames(document)
  // Directives of other tools need not be declared for us.
  const schema = buildASTSchema(document, { assumeValidSDL: true })
  const [error] = validateSchema(schema)
  if (error !== undefined) throw new SchemaFault(error.message, placeOf(error))
  const given = Object.entries(options).filter(([, value]) => value !== undefined)
  return graphqlCost(schema, Object.fromEntries(given))
}

function parsed(text: string): DocumentNode {
  try {
    return parse(text)
  } catch (error) {
    throw new SchemaFault((error as Error).message, placeOf(error as GraphQLError))
  }
}

/** What would fail without a word on where. */
function checkNames(document: DocumentNode): void {
  const names = new Set(specifiedScalarTypes.map(({ name }) => name))
  for (const definition of document.definitions) {
    const { kind, loc } = definition
    const at = loc === undefined ? START : { line: loc.startToken.line, column: loc.startToken.column }
    if (kind === 'OperationDefinition' || kind === 'FragmentDefinition')
      throw new SchemaFault('this is a query, and no schema', at)
    if (!kind.endsWith('TypeDefinition') || !('name' in definition)) continue
    const { value: name } = definition.name as { readonly value: string }
    if (names.has(name) && kind !== 'ScalarTypeDefinition') throw new SchemaFault(`type "${name}" is there twice`, at)
    names.add(name)
  }
  visit(document, {
    NamedType({ name, loc }) {
      if (names.has(name.value)) return
      const at = loc === undefined ? START : { line: loc.startToken.line, column: loc.startToken.column }
      throw new SchemaFault(`there is no type "${name.value}"`, at)
    },
  })
}

function placeOf({ locations, nodes }: GraphQLError): { line: number; column: number } {
  const [location] = locations ?? []
  if (location !== undefined) return location
  const token = nodes?.[0]?.loc?.startToken
  return token === undefined ? START : { line: token.line, column: token.column }
}
