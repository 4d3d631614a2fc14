import { ApolloServer } from '@apollo/server'
import fastify from 'fastify'
import { buildSchema, execute } from 'graphql'
import { createHandler } from 'graphql-http'
import { createGate, HeadgateError } from 'headgate'
import { apolloHeadgate, graphqlCost, graphqlHttpHeadgate, mercuriusHeadgate } from 'headgate/graphql'
import mercurius from 'mercurius'

const text = 'type Query { books(first: Int): [Book] }  type Book { title: String  sequel: Book }'
const schema = buildSchema(text)
type Context = { key: string }
const gate = createGate({ limit: '5000/h' })
const caller = ({ key }: Context) => key

// #region apollo
export const apollo = new ApolloServer<Context>({ schema, plugins: [apolloHeadgate<Context>({ gate, caller })] })
// #endregion

// #region graphql-http
export const onGraphqlHttp = createHandler({
  schema,
  context: ({ headers }) => ({ key: new Headers(headers as Record<string, string>).get('x-api-key') ?? '' }),
  ...graphqlHttpHeadgate<Context>({ gate, caller, execute }),
})
// #endregion

async function startMercurius() {
  // #region mercurius
  const app = fastify()
  await app.register(mercurius, { schema, context: ({ headers }) => ({ key: String(headers['x-api-key']) }) })
  mercuriusHeadgate<Context>(app, { gate, caller })
  // #endregion
  await app.ready()
  return app
}
export const mercuriusApp = startMercurius()

// #region cost
const cost = graphqlCost(schema, { defaultListSize: 30, maxDepth: 3 })

export const costs = [
  cost('{ books { title } }'), // 31: the root, and 30 books
  codeOf(() => cost('{ books { sequel { sequel { title } } } }')), // HG_QUERY_TOO_DEEP
]
// #endregion

function codeOf(run: () => unknown): unknown {
  try {
    return run()
  } catch (error) {
    return error instanceof HeadgateError ? error.code : error
  }
}
