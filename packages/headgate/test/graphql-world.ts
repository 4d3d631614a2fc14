// For tests: schemas and queries made by chance, with resolvers that return lists exactly as long as the schema declares.
import fc from 'fast-check'
import { buildSchema, type GraphQLFieldResolver, type GraphQLSchema } from 'graphql'

export const DEFAULT_SIZE = 2
type Kind = 'one' | 'plain' | 'first' | 'assumed' | 'connection' | 'node' | 'nodes' | 'either' | 'grid' | 'leaves'
const kinds: readonly Kind[] = [
  'one',
  'plain',
  'first',
  'assumed',
  'connection',
  'node',
  'nodes',
  'either',
  'grid',
  'leaves',
]

interface Field {
  readonly name: string
  readonly kind: Kind
  readonly type: string
  readonly size: number
}
export interface World {
  readonly schema: GraphQLSchema
  readonly query: string
  readonly variables: Readonly<Record<string, number>>
  readonly picks: readonly number[]
}
type Gen = fc.GeneratorValue

const whole = (g: Gen, max: number) => g(fc.integer, { min: 0, max })
const pick = <T>(g: Gen, from: readonly T[]): T => from[whole(g, from.length - 1)] as T

/** A schema, a valid query on it, its variables, and chances for resolvers to use. */
export const worlds: fc.Arbitrary<World> = fc.gen().map((g) => {
  const types = Array.from({ length: 1 + whole(g, 3) }, (_, i) => `T${i}`)
  const fieldsOf = new Map<string, readonly Field[]>()
  for (const owner of ['Query', ...types]) {
    const fields = Array.from({ length: 1 + whole(g, 4) }, (_, i) => {
      return { name: `f${i}${owner}`, kind: pick(g, kinds), type: pick(g, types), size: whole(g, 3) }
    })
    fieldsOf.set(owner, fields)
  }
  const schema = buildSchema(sdlOf(types, fieldsOf), { assumeValidSDL: true })
  const { query, variables } = new Writer(g, types, fieldsOf).operation()
  return { schema, query, variables, picks: g(fc.array, fc.nat({ max: 1000 }), { minLength: 1, maxLength: 20 }) }
})

function sdlOf(types: readonly string[], fieldsOf: ReadonlyMap<string, readonly Field[]>): string {
  const lines = ['union Either = T0 | T1', 'interface Node { id: ID  next(first: Int): [Node] }']
  if (types.length === 1) lines[0] = 'union Either = T0'
  for (const [owner, fields] of fieldsOf) {
    const own = fields.map((field) => `${field.name}${typeOf(field)}`).join('\n  ')
    const base = owner === 'Query' ? '' : 'id: ID  next(first: Int): [Node]'
    lines.push(`type ${owner}${owner === 'Query' ? '' : ' implements Node'} { ${base}\n  ${own} }`)
  }
  for (const type of types) {
    lines.push(`type ${type}Connection { edges: [${type}Edge]  nodes: [${type}]  count: Int }`)
    lines.push(`type ${type}Edge { node: ${type} }`)
  }
  return lines.join('\n')
}

function typeOf({ kind, type, size }: Field): string {
  return {
    one: `: ${type}`,
    plain: `: [${type}!]!`,
    first: `(first: Int): [${type}]`,
    assumed: `: [${type}] @listSize(assumedSize: ${size})`,
    connection: `(first: Int): ${type}Connection`,
    node: ': Node',
    nodes: `(limit: Int = ${size}): [Node]`,
    either: ': Either',
    grid: `: [[${type}]]`,
    leaves: ': [Int]',
  }[kind]
}

/** Writes queries: at most so deep, with fragments, aliases, variables and repeated fields. */
class Writer {
  readonly #g: Gen
  readonly #types: readonly string[]
  readonly #fieldsOf: ReadonlyMap<string, readonly Field[]>
  readonly #fragments: string[] = []
  readonly variables: Record<string, number> = {}
  #names = 0

  constructor(g: Gen, types: readonly string[], fieldsOf: ReadonlyMap<string, readonly Field[]>) {
    this.#g = g
    this.#types = types
    this.#fieldsOf = fieldsOf
  }

  operation(): { query: string; variables: Record<string, number> } {
    const set = this.#set('Query', 4)
    const declared = Object.keys(this.variables).map((name) => `$${name}: Int`)
    const head = declared.length === 0 ? 'query' : `query (${declared.join(', ')})`
    return { query: `${head} ${set}\n${this.#fragments.join('\n')}`, variables: this.variables }
  }

  #set(type: string, depth: number): string {
    const parts = ['__typename', ...Array.from({ length: whole(this.#g, 3) }, () => this.#selection(type, depth))]
    return `{ ${parts.join(' ')} }`
  }

  #selection(type: string, depth: number): string {
    if (depth === 0) return type === 'Query' || type === 'Either' ? '__typename' : 'id'
    const abstract = type === 'Node' || type === 'Either'
    const chance = whole(this.#g, abstract ? 3 : 5)
    if (chance > 1 && !abstract) return this.#field(type, depth)
    const possible = type === 'Either' ? this.#types.slice(0, 2) : this.#types
    const on = abstract ? pick(this.#g, [...possible, ...(type === 'Either' ? ['Node'] : [])]) : type
    if (chance === 1) {
      const name = `F${this.#names++}`
      this.#fragments.push(`fragment ${name} on ${on} ${this.#set(on, depth - 1)}`)
      return `...${name} ...${name}`
    }
    if (type === 'Node' && chance === 3)
      return `a${this.#names++}: next(first: ${this.#size()}) ${this.#set('Node', depth - 1)}`
    return `... on ${on} ${this.#set(on, depth - 1)}`
  }

  #field(owner: string, depth: number): string {
    const { name, kind, type } = pick(this.#g, this.#fieldsOf.get(owner) as readonly Field[])
    const inner =
      kind === 'node' || kind === 'nodes' ? 'Node' : kind === 'either' ? 'Either' : kind === 'leaves' ? '' : type
    const argument = { first: 'first', connection: 'first', nodes: 'limit' }[kind as string]
    const given = argument !== undefined && whole(this.#g, 3) > 0 ? `(${argument}: ${this.#size()})` : ''
    const set = inner === '' ? '' : this.#set(inner, depth - 1)
    const asked = `a${this.#names++}: ${name}${given}`
    if (kind !== 'connection') return `${asked} ${set}`
    return `${asked} { count edges { node ${set} } ${whole(this.#g, 1) === 0 ? '' : `nodes ${this.#set(type, depth - 1)}`} }`
  }

  #size(): string {
    const size = whole(this.#g, 3)
    if (whole(this.#g, 2) > 0) return String(size)
    const name = `v${this.#names++}`
    this.variables[name] = size
    return `$${name}`
  }
}

/** Resolves every field to as much as is declared, now and then to null, and counts the objects. */
export function resolvers({ picks }: World): { resolve: GraphQLFieldResolver<unknown, unknown>; count(): number } {
  let [objects, at] = [0, 0]
  const chance = () => picks[at++ % picks.length] as number
  const make = (type: string, more = {}) => {
    objects++
    return { __typename: type, ...more }
  }
  const resolve: GraphQLFieldResolver<unknown, unknown> = (
    source,
    args,
    _context,
    { returnType, schema, fieldName, parentType },
  ) => {
    const text = String(returnType)
    const type = schema.getType(text.replace(/[[\]!]/g, ''))
    if (type === undefined || !/^(T\d|Node|Either)/.test(type.name)) return text.startsWith('[') ? [1, 2, 3] : 1
    if (!text.endsWith('!') && chance() % 13 === 0) return null
    const concrete = () => {
      const possible = 'getFields' in type && type.name !== 'Node' ? [type] : schema.getPossibleTypes(type as never)
      return possible[chance() % possible.length]?.name as string
    }
    const size = sizeOf(source as { size?: number }, args, schema, parentType.name, fieldName)
    if (text.startsWith('[[')) return list(size, () => list(DEFAULT_SIZE, () => make(concrete())))
    if (text.startsWith('[')) return list(size, () => make(concrete()))
    return make(concrete(), type.name.endsWith('Connection') ? { size: args.first ?? DEFAULT_SIZE } : {})
  }
  return { resolve, count: () => objects }
}

/** Read from the schema's text anew, not by the code under test. */
function sizeOf(
  source: { size?: number } | undefined,
  args: Record<string, unknown>,
  schema: GraphQLSchema,
  type: string,
  field: string,
): number {
  if (source?.size !== undefined) return source.size
  if (typeof args.first === 'number') return args.first
  if (typeof args.limit === 'number') return args.limit
  const owner = schema.getType(type) as {
    getFields(): Record<string, { astNode?: { directives?: readonly unknown[] } }>
  }
  const written = JSON.stringify(owner.getFields()[field]?.astNode?.directives ?? [])
  const assumed = /"IntValue","value":"(\d+)"/.exec(written)?.[1]
  return assumed === undefined ? DEFAULT_SIZE : Number(assumed)
}

function list<T>(size: number, each: () => T): T[] {
  return Array.from({ length: size }, each)
}
