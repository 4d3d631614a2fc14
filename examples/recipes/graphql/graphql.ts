// A GraphQL API by points: what an operation may return is reserved, what it did return is charged, and the caller can ask.
import { createServer, type Server } from 'node:http'
import { buildSchema, execute, type GraphQLSchema } from 'graphql'
import { createHandler } from 'graphql-http/lib/use/http'
import { createGate, type GateOptions } from 'headgate'
import { graphqlHttpHeadgate, rateLimitOf, rateLimitTypeDefs } from 'headgate/graphql'

type Context = { token: string }

const schema: GraphQLSchema = buildSchema(`
  directive @cost(weight: Int!) on FIELD_DEFINITION
  directive @listSize(assumedSize: Int, slicingArguments: [String!]) on FIELD_DEFINITION
  ${rateLimitTypeDefs}

  type Query {
    repositories(first: Int!): [Repository!]!
    search(text: String!): [Repository!]! @cost(weight: 50) @listSize(assumedSize: 20)
    rateLimit: RateLimit
  }
  type Repository { name: String  issues(first: Int!): [Issue!]! }
  type Issue { title: String }
`)

export function api(
  data: { repositories: () => object[]; search: () => object[] },
  counting: GateOptions = {},
): Server {
  const gate = createGate({
    limits: {
      points: { limit: '5000/h', algorithm: 'fixed-window', align: 'first-hit', by: ({ token }: Context) => token },
      speed: { limit: '2000/min', by: ({ token }) => token },
      'in-flight': { atOnce: 10, by: ({ token }) => token, cost: () => 1 },
    },
    ...counting,
  })
  const rateLimit = (_args: object, context: Context) => rateLimitOf(context, 'points')
  return createServer(
    createHandler({
      schema,
      rootValue: { ...data, rateLimit },
      context: ({ raw }) => ({ token: String(raw.headers['x-api-key']) }), // which your authentication has checked before
      ...graphqlHttpHeadgate<Context>({ gate, execute, maxDepth: 6, maxAliases: 10 }),
    }),
  )
}
