import { buildSchema, getIntrospectionQuery, parse } from 'graphql'
import { HeadgateError } from 'headgate'
import { type CostOptions, graphqlCost } from 'headgate/graphql'
import { describe, expect, test } from 'vitest'

const schema = buildSchema(`
  directive @cost(weight: String!) on ARGUMENT_DEFINITION | FIELD_DEFINITION | INPUT_FIELD_DEFINITION | OBJECT | SCALAR
  directive @listSize(
    assumedSize: Int, slicingArguments: [String!], sizedFields: [String!], requireOneSlicingArgument: Boolean = true
  ) on FIELD_DEFINITION

  type Query {
    hello: String
    me: User
    users(first: Int, last: Int): [User!]!
    tagged: [User!]!
    page(limit: Int = 4): [User]
    node(id: ID): Node
    found(first: Int): [Found!]
    people(first: Int, after: String): People
    search(text: String @cost(weight: "3"), filter: Filter): [User] @cost(weight: "20") @listSize(assumedSize: 5)
    must(first: Int, last: Int): [User] @listSize(slicingArguments: ["first", "last"])
    may(first: Int, last: Int): [User] @listSize(slicingArguments: ["first", "last"], requireOneSlicingArgument: false, assumedSize: 7)
    deep(input: Paging): [User] @listSize(slicingArguments: ["input.size"])
    grid: [[User]]
    pick(by: [Pick!], also: Pick @cost(weight: "2")): User
    box(size: Int): Box @listSize(slicingArguments: ["size"], sizedFields: ["things"])
  }
  type Mutation { rename(name: String): User }
  input Paging { size: Int }
  input Filter { a: Int }
  input Pick { fuzzy: Boolean @cost(weight: "5")  name: String  either: [Pick!]  within: Place }
  input Place { near: String @cost(weight: "7") }
  interface Node { id: ID }
  type User implements Node { id: ID  name: String  friends(first: Int): [User]  best: User }
  type Film implements Node { id: ID  title: String  cast(first: Int): [User] }
  type Heavy @cost(weight: "9.5") { id: ID }
  union Found = User | Film | Heavy
  type People { edges: [Edge]  nodes: [User]  total: Int }
  type Edge { node: User }
  type Box { things: [User]  others: [User] }
`)
const cost = graphqlCost(schema)

/** Code and value of what is thrown. */
function refusalOf(run: () => unknown): string | undefined {
  try {
    run()
    return undefined
  } catch (error) {
    expect(error).toBeInstanceOf(HeadgateError)
    return (error as HeadgateError).code
  }
}

test.each([
  ['an operation costs at least 1', '{ hello }', 1],
  ['an object costs 1, a leaf nothing', '{ me { id name } }', 2],
  ['a list costs as many objects as its argument says', '{ users(first: 3) { id } }', 4],
  ['of two such arguments the larger counts', '{ users(first: 3, last: 5) { id } }', 6],
  ['a list that says nothing is taken to be 10 long', '{ tagged { id } }', 11],
  ["the schema's default of an argument counts", '{ page { id } }', 5],
  ['lists within lists multiply', '{ users(first: 3) { friends(first: 4) { id } } }', 1 + 3 * (1 + 4)],
  ['what stands in an input costs what its fields weigh', '{ pick(by: { fuzzy: true, name: "a" }) { id } }', 2 + 5],
  ['a field of an input that is null was given', '{ pick(by: { fuzzy: null }) { id } }', 2 + 5],
  [
    'inputs within inputs cost as often as they stand there',
    '{ pick(by: [{ either: [{ fuzzy: true }, { within: { near: "x" } }] }, { fuzzy: false }]) { id } }',
    2 + 5 + 7 + 5,
  ],
  ['an input costs beside its argument', '{ pick(also: { fuzzy: true }) { id } }', 2 + 2 + 5],
  ['an input without weights costs nothing', '{ search(filter: { a: 1 }) { id } }', 1 + 20 + 5],
  ['a length of -1 says nothing', '{ users(first: -1) { id } }', 11],
  ['an empty list costs nothing', '{ users(first: 0) { friends { id } } }', 1],
  ['a field asked for by two names costs twice', '{ a: users(first: 3) { id } b: users(first: 3) { id } }', 7],
  [
    'a fragment costs wherever it is spread',
    '{ me { ...F } users(first: 2) { ...F } } fragment F on User { best { id } }',
    1 + 2 + 4,
  ],
  [
    'of several types the dearest counts',
    '{ node { ... on User { best { id } } ... on Film { cast(first: 5) { id } } } }',
    2 + 5,
  ],
  [
    'what all types have is added to the dearest',
    '{ node { id ... on Node { ... on User { best { id } } } ... on Film { id } } }',
    3,
  ],
  ['a union weighs what its dearest type does', '{ found(first: 2) { ... on User { id } } }', 20],
  ['a fragment on a type that cannot be is not counted', '{ me { ... on User { id } } }', 2],
  [
    'the argument of a connection is the length of its lists',
    '{ people(first: 5) { edges { node { id } } } }',
    1 + 1 + 5 * 2,
  ],
  ['both lists of a connection count', '{ people(first: 5) { edges { node { id } } nodes { id } } }', 2 + 10 + 5],
  [
    'a fragment in a connection knows its length',
    '{ people(first: 5) { ...P } } fragment P on People { nodes { id } }',
    7,
  ],
  [
    'a fragment in two connections knows the length of each',
    '{ a: people(first: 5) { ...P } b: people(first: 7) { ...P } } fragment P on People { nodes { id } }',
    1 + 6 + 8,
  ],
  ['@cost of a field is paid once, of an argument if it is given', '{ search(text: "x") { id } }', 1 + 20 + 3 + 5],
  ['an argument without @cost is free', '{ search(filter: { a: 1 }) { id } }', 26],
  ['@listSize names the argument', '{ must(first: 6) { id } }', 7],
  ['@listSize assumes a size', '{ may { id } }', 8],
  ['@listSize looks into input objects', '{ deep(input: { size: 12 }) { id } }', 13],
  ['@listSize sizes fields of what is returned', '{ box(size: 3) { things { id } others { id } } }', 2 + 3 + 10],
  ['a list of lists is long both ways', '{ grid { id } }', 101],
  ['a mutation costs as a query does', 'mutation { rename(name: "x") { id } }', 2],
  ['what is skipped costs nothing', '{ me { id } users(first: 9) @skip(if: true) { id } }', 2],
  ['what is not included costs nothing', '{ me { id } ... @include(if: false) { users(first: 9) { id } } }', 2],
  ['the name of a type is free', '{ __typename me { __typename } }', 2],
  ['a fraction counts as a whole', '{ found(first: 1) { __typename } }', 11],
])('%s', (_promise, query, expected) => {
  expect(cost(query)).toBe(expected)
  expect(cost(parse(query))).toBe(expected)
})

describe('variables', () => {
  test('cost what stands in them, and are refused when they are nested without end', () => {
    const picks = 'query Q($by: [Pick!]) { pick(by: $by) { id } }'
    expect(cost(picks, { by: [{ fuzzy: true }, { within: { near: 'x' } }] })).toBe(2 + 5 + 7)
    expect(cost(picks, { by: JSON.parse(`${'{"either":['.repeat(20)}${']}'.repeat(20)}`) })).toBe(2)
    const endless = JSON.parse(`${'{"either":['.repeat(100_000)}${']}'.repeat(100_000)}`)
    expect(refusalOf(() => cost(picks, { by: endless }))).toBe('HG_QUERY_TOO_DEEP')
  })

  test('cost by a weight that is given for a field of an input', () => {
    const weighed = graphqlCost(schema, { weights: { 'Filter.a': 4 } })
    expect(weighed('{ search(filter: { a: 1 }) { id } }')).toBe(1 + 20 + 5 + 4)
  })

  const query =
    'query Q($n: Int = 6, $skip: Boolean = false) { users(first: $n) @skip(if: $skip) { id } } query R { hello }'
  test.each([
    [{ n: 2 }, 3],
    [{}, 7],
    [undefined, 7],
    [null, 7],
    [{ n: null }, 11],
    [{ skip: true }, 1],
    [{ other: 5 }, 7],
    [{ n: 1e300 }, Number.MAX_SAFE_INTEGER],
  ])('%j are read as the server will', (variables, expected) => {
    expect(cost(query, variables as Record<string, unknown>, 'Q')).toBe(expected)
  })

  test('the operation that is named counts, and no other', () => {
    expect(cost(query, {}, 'R')).toBe(1)
    expect(refusalOf(() => cost(query))).toBe('HG_QUERY_INVALID')
    expect(refusalOf(() => cost(query, {}, 'S'))).toBe('HG_QUERY_INVALID')
  })
})

test('weights of types and fields are told by option, stronger than directives', () => {
  const options: CostOptions = { weights: { User: 2, 'Query.search': 0, 'Query.me': 5 }, defaultListSize: 3 }
  const weighed = graphqlCost(schema, options)
  expect(weighed('{ me { id } }')).toBe(1 + 5 + 2)
  expect(weighed('{ search { id } }')).toBe(1 + 10)
  expect(weighed('{ tagged { id } }')).toBe(1 + 6)
})

test('what tells of the schema is priced by its size, and can be free', () => {
  expect(cost('{ __schema { types { name } } }')).toBe(2 + Object.keys(schema.getTypeMap()).length)
  expect(cost(getIntrospectionQuery())).toBeGreaterThan(1_000)
  const kinds = ['__Schema', '__Type', '__Field', '__InputValue', '__EnumValue', '__Directive']
  const free = graphqlCost(schema, { weights: Object.fromEntries(kinds.map((kind) => [kind, 0])) })
  expect(free(getIntrospectionQuery())).toBe(1)
})

test.each([
  ['a fragment that spreads itself', '{ me { ...F } } fragment F on User { best { ...F } }', 'HG_QUERY_INVALID'],
  [
    'fragments that spread each other',
    '{ me { ...F } } fragment F on User { ...G } fragment G on User { ...F }',
    'HG_QUERY_INVALID',
  ],
  ['a cycle that nobody spreads', '{ hello } fragment F on User { ...F }', 'HG_QUERY_INVALID'],
  ['a fragment that is not there', '{ me { ...F } }', 'HG_QUERY_INVALID'],
  ['a field that is not there', '{ nothing }', 'HG_QUERY_INVALID'],
  ['a fragment on what is no type', '{ me { ... on Nobody { id } } }', 'HG_QUERY_INVALID'],
  ['what is no GraphQL', '{ me { id ', 'HG_QUERY_INVALID'],
  ['nothing at all', '', 'HG_QUERY_INVALID'],
  ['a subscription where there is none', 'subscription { x }', 'HG_QUERY_INVALID'],
  ['a list without the one argument that it must have', '{ must { id } }', 'HG_QUERY_INVALID'],
  ['a list with two of them', '{ must(first: 1, last: 1) { id } }', 'HG_QUERY_INVALID'],
  ['more depth than is let in', `{ me { ${'best { '.repeat(15)} id ${'}'.repeat(15)} } }`, 'HG_QUERY_TOO_DEEP'],
  ['depth by fragments', `{ me { ...A } } ${chain(16)}`, 'HG_QUERY_TOO_DEEP'],
  ['brackets without end', '['.repeat(300), 'HG_QUERY_TOO_DEEP'],
  ['inline fragments without end', `{ ${'... { '.repeat(260)} hello ${'}'.repeat(261)}`, 'HG_QUERY_TOO_DEEP'],
  ['more fields than are let in', `{ ${'hello '.repeat(1001)} }`, 'HG_QUERY_TOO_LARGE'],
  ['fields multiplied by fragments', `{ me { ...A } } ${doubling(14)}`, 'HG_QUERY_TOO_LARGE'],
  [
    'aliases doubled by fragments',
    `{ ...F ... { ...F } } fragment F on Query { ${aliases(30)} }`,
    'HG_QUERY_TOO_LARGE',
  ],
  ['more aliases than are let in', `{ ${aliases(51)} }`, 'HG_QUERY_TOO_LARGE'],
  ['more tokens than are let in', `{ ${'hello '.repeat(5001)} }`, 'HG_QUERY_TOO_LARGE'],
  ['more text than is let in', `{ hello } #${'x'.repeat(100_000)}`, 'HG_QUERY_TOO_LARGE'],
])('%s is refused', (_what, query, code) => {
  expect(refusalOf(() => cost(query))).toBe(code)
})

test('bounds are let in up to the last', () => {
  expect(cost(`{ ${aliases(50)} }`)).toBe(1)
  expect(cost(`{ ${'hello '.repeat(1000)} }`)).toBe(1)
  expect(cost(`{ me { ${'best { '.repeat(13)} id ${'}'.repeat(13)} } }`)).toBe(15)
  expect(graphqlCost(schema, { maxAliases: 0, maxFields: 1, maxDepth: 1, maxTokens: 3 })('{ hello }')).toBe(1)
})

test('what looks like a token in a text or a remark is none', () => {
  const eleven = graphqlCost(schema, { maxTokens: 11 })
  expect(eleven('{ search(text: "{ [ ( \\" x y z") { # a b c d e f {\n id } }')).toBe(29)
  expect(eleven('{ search(text: """a " \\""" b {{{{ c""") { id } }')).toBe(29)
  expect(refusalOf(() => eleven('{ search(text: "x") { id name } }'))).toBe('HG_QUERY_TOO_LARGE')
})

test('texts of a batch are let in by their tokens in all, whether or not they can be parsed', () => {
  const { check } = graphqlCost(schema, { maxTokens: 11 })
  check(['{ me { id } }', '{ me {', '"""'])
  expect(refusalOf(() => check(['{ me { id } }', '{ me { id } }']))).toBe('HG_QUERY_TOO_LARGE')
  expect(refusalOf(() => check([`{ ${'a'.repeat(100_000)} }`]))).toBe('HG_QUERY_TOO_LARGE')
})

describe.each([
  ['10,000 aliases', `{ ${aliases(10_000)} }`],
  ['10,000 aliases of a list', `{ ${'x: users(first: 100) { id } '.repeat(10_000)} }`],
  [
    'a cycle of 500 fragments',
    `{ me { ...F0 } } ${Array.from({ length: 500 }, (_, i) => `fragment F${i} on User { ...F${(i + 1) % 500} }`).join(' ')}`,
  ],
  ['fragments doubled 60 times', `{ me { ...A } } ${doubling(60)}`],
  ['a megabyte of brackets', '{'.repeat(1_000_000)],
  ['a megabyte of quotes', '"'.repeat(1_000_000)],
])('%s', (_what, query) => {
  test('are refused in under 5 ms', () => {
    // The best of several: whether the code is warm and the machine idle is not what is promised.
    let leastMs = Number.POSITIVE_INFINITY
    for (let i = 0; i < 20 && leastMs >= 5; i++) {
      const startMs = performance.now()
      expect(refusalOf(() => cost(query))).toMatch(/^HG_QUERY_/)
      leastMs = Math.min(leastMs, performance.now() - startMs)
    }
    expect(leastMs).toBeLessThan(5)
  })
})

test('a document that was parsed elsewhere is held to the same bounds', () => {
  expect(refusalOf(() => cost(parse(`{ ${aliases(10_000)} }`)))).toBe('HG_QUERY_TOO_LARGE')
  expect(refusalOf(() => cost(parse(`{ me { ...F0 } } ${links(5_000)}`)))).toBe('HG_QUERY_TOO_DEEP')
  expect(refusalOf(() => cost({} as never))).toBe('HG_QUERY_INVALID')
})

test.each([
  ['a weight of a type that is not there', { weights: { Usr: 2 } }],
  ['a weight of a field that is not there', { weights: { 'User.nam': 2 } }],
  ['a weight below 0', { weights: { User: -1 } }],
  ['weights that are none', { weights: 5 as never }],
  ['a depth of 0', { maxDepth: 0 }],
  ['half a field', { maxFields: 0.5 }],
  ['lists of no length', { defaultListSize: 0 }],
])('%s is refused at once', (_what, options: CostOptions) => {
  expect(refusalOf(() => graphqlCost(schema, options))).toBe('HG_OPTION_INVALID')
})

test('an option that nobody reads, a schema that is none and directives that say nonsense are refused at once', () => {
  expect(refusalOf(() => graphqlCost(schema, { maxDept: 5 } as never))).toBe('HG_OPTION_UNKNOWN')
  expect(refusalOf(() => graphqlCost({} as never))).toBe('HG_OPTION_INVALID')
  for (const field of ['x: Int @cost(weight: "much")', 'x: [Int] @listSize(slicingArguments: ["first"])'])
    expect(refusalOf(() => graphqlCost(buildSchema(`type Query { ${field} }`, { assumeValidSDL: true })))).toBe(
      'HG_OPTION_INVALID',
    )
})

function aliases(count: number): string {
  return Array.from({ length: count }, (_, i) => `a${i}: hello`).join(' ')
}
/** A chain of fragments, each one field deeper. */
function chain(length: number): string {
  return names(
    length,
    (name, next) => `fragment ${name} on User { best { ${next === undefined ? 'id' : `...${next}`} } }`,
  )
}
/** Each spreads the next twice. */
function doubling(length: number): string {
  return names(length, (name, next) =>
    next === undefined
      ? `fragment ${name} on User { id }`
      : `fragment ${name} on User { ...${next} x: name ...${next} }`,
  )
}
function links(length: number): string {
  return Array.from(
    { length },
    (_, i) => `fragment F${i} on User { ${i === length - 1 ? 'id' : `...F${i + 1}`} }`,
  ).join(' ')
}
function names(length: number, write: (name: string, next: string | undefined) => string): string {
  const all = Array.from({ length }, (_, i) => (i === 0 ? 'A' : `A${i}`))
  return all.map((name, i) => write(name, all[i + 1])).join(' ')
}
