// The contract of Shopify's GraphQL API: what a query asks for is reserved in points, what it did not use is given back.
import { buildSchema, graphql } from 'graphql'
import { createGate, type GateOptions, HeadgateError } from 'headgate'
import { graphqlCost } from 'headgate/graphql'

const schema = buildSchema(`
  type Query { products(first: Int!): [Product!]! }
  type Product { title: String  variants(first: Int!): [Variant!]! }
  type Variant { sku: String }
`)

const POINTS = { maximumAvailable: 2000, restoreRate: 100 }
const MOST = 1000 // of one query
const costOf = graphqlCost(schema, { maxDepth: 10 })

export function graphqlApi(rootValue: object, counting: GateOptions = {}) {
  const gate = createGate({
    limit: { limit: POINTS.restoreRate, per: '1s', burst: POINTS.maximumAvailable, algorithm: 'leaky-bucket' },
    ...counting,
  })

  return async function answer(token: string, source: string): Promise<object> {
    const requestedQueryCost = costFor(source)
    if (typeof requestedQueryCost === 'object') return refusal(requestedQueryCost.message, 'BAD_REQUEST')
    if (requestedQueryCost > MOST) return refusal(`A query may cost ${MOST} points`, 'MAX_COST_EXCEEDED')
    const decision = await gate.take(token, { cost: requestedQueryCost })
    const told = async (actualQueryCost: number | null) => {
      const throttleStatus = { ...POINTS, currentlyAvailable: (await gate.peek(token)).remaining }
      return { cost: { requestedQueryCost, actualQueryCost, throttleStatus } }
    }
    if (!decision.ok) return { ...refusal('Throttled', 'THROTTLED'), extensions: await told(null) }
    const { data, errors } = await graphql({ schema, source, rootValue })
    const actual = Math.min(requestedQueryCost, objectsIn(data))
    await decision.settle(actual)
    return { data, ...(errors && { errors }), extensions: await told(actual) }
  }
}

function costFor(source: string): number | HeadgateError {
  try {
    return costOf(source)
  } catch (error) {
    if (error instanceof HeadgateError) return error
    throw error
  }
}

/** As it is reserved: each object is a point, the whole too. */
function objectsIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const inside = Object.values(value).reduce((sum: number, each) => sum + objectsIn(each), 0)
  return Array.isArray(value) ? inside : inside + 1
}

function refusal(message: string, code: string): object {
  return { errors: [{ message, extensions: { code } }] }
}
