import fc from 'fast-check'
import { buildSchema, type ExecutionResult, execute, GraphQLError, parse, validate } from 'graphql'
import { createGate, HeadgateError } from 'headgate'
import { graphqlCost } from 'headgate/graphql'
import { expect, test } from 'vitest'
import { DEFAULT_SIZE, resolvers, type World, worlds } from '../../test/graphql-world.ts'
import { runs } from '../properties/support.ts'
import { Meter } from './meter.ts'

const bounds = { defaultListSize: DEFAULT_SIZE, maxAliases: 10_000, maxFields: 100_000, maxTokens: 100_000 }

async function run(world: World) {
  const { schema, query, variables } = world
  const document = parse(query)
  expect(validate(schema, document)).toEqual([])
  const { resolve, count } = resolvers(world)
  const result = await execute({ schema, document, variableValues: variables, fieldResolver: resolve })
  expect(result.errors).toBeUndefined()
  return { document, result, nodes: count() }
}

test('the cost before is never below what is resolved, and the cost after is exactly that', async () => {
  let dear = 0
  await fc.assert(
    fc.asyncProperty(worlds, async (world) => {
      const { document, result, nodes } = await run(world)
      const before = graphqlCost(world.schema, bounds)(document, world.variables)
      expect(before).toBeGreaterThanOrEqual(nodes + 1)
      const meter = new Meter({ gate: createGate({ limit: '1_000_000_000/s' }), caller: () => 'anybody', ...bounds })
      const { schema, variables } = world
      const visit = await meter.take({ schema, document, variables, operationName: undefined, context: {} })
      expect(visit.requested).toBe(before)
      expect(visit.finish(result).extensions?.cost).toMatchObject({ requested: before, actual: nodes + 1 })
      // If it had failed in part: what is null counts in full, and still not for more than was reserved.
      const failing = await meter.take({ schema, document, variables, operationName: undefined, context: {} })
      const failed = failing.finish<ExecutionResult>({ ...result, errors: [new GraphQLError('no')] })
      const { actual } = (failed.extensions as { cost: { actual: number } }).cost
      expect(actual).toBeGreaterThanOrEqual(nodes + 1)
      expect(actual).toBeLessThanOrEqual(before)
      if (nodes > 20) dear++
    }),
    runs(400),
  )
  // The worlds are not all empty.
  expect(dear).toBeGreaterThan(10)
})

const words = [
  '{',
  '}',
  '(',
  ')',
  '[',
  ']',
  '...',
  ':',
  '!',
  '$',
  '@',
  '"',
  '"""',
  '#',
  '\n',
  ',',
  '|',
  '&',
  '=',
  '-1',
  '7',
  '1e9',
  'on',
  'query',
  'fragment',
  'mutation',
  'me',
  'best',
  'friends',
  'first',
  'id',
  'F',
  'G',
  'User',
  'true',
  'null',
  '\uFEFF',
  '\u0000',
  '\\',
  '😀',
]
const small = buildSchema(`
  type Query { me: User  users(first: Int): [User] }
  type User { id: ID  best: User  friends(first: Int): [User] }
`)
const ofSmall = graphqlCost(small)
const valid = `query Q($n: Int = 3) { me { ...F best { friends(first: $n) { id } } } users(first: 2) { ... on User { id } } } fragment F on User { id best { id } }`

/** A number, or an error with a code: nothing else, whatever is asked. */
function holds(query: string, variables?: Record<string, unknown>): void {
  try {
    const cost = ofSmall(query, variables)
    expect(Number.isSafeInteger(cost) && cost >= 1).toBe(true)
  } catch (error) {
    expect(error).toBeInstanceOf(HeadgateError)
    expect((error as HeadgateError).code).toMatch(/^HG_QUERY_/)
  }
}

test('whatever a document says, there is a cost or an error with a code', () => {
  const tokens = fc.array(fc.constantFrom(...words), { maxLength: 300 }).map((each) => each.join(' '))
  fc.assert(
    fc.property(fc.oneof(tokens, fc.string({ unit: 'binary', maxLength: 300 })), (query) => holds(query)),
    runs(2_000),
  )
})

test('a valid document with pieces taken out, doubled and swapped is told apart too', () => {
  const edit = fc.record({
    at: fc.nat({ max: valid.length }),
    length: fc.nat({ max: 40 }),
    to: fc.nat({ max: valid.length }),
  })
  fc.assert(
    fc.property(fc.array(edit, { minLength: 1, maxLength: 4 }), (edits) => {
      const query = edits.reduce(
        (text, { at, length, to }) => text.slice(0, to) + text.slice(at, at + length) + text.slice(to + (at % 7)),
        valid,
      )
      holds(query)
    }),
    runs(2_000),
  )
})

test('whatever variables are', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom('n', '__proto__', 'constructor', 'm'), fc.anything()), (variables) =>
      holds(valid, variables),
    ),
    runs(500),
  )
})
