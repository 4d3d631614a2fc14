import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createSchema, createYoga } from 'graphql-yoga'
import { createGate } from 'headgate'
import { rateLimitOf, rateLimitTypeDefs, useHeadgate } from 'headgate/graphql'

// #region server
const schema = createSchema({
  typeDefs: `
    ${rateLimitTypeDefs}
    type Query {
      books(first: Int = 10): [Book!]!
      rateLimit: RateLimit
    }
    type Book { title: String  authors(first: Int = 2): [Author!]! }
    type Author { name: String }
  `,
  resolvers: {
    Query: {
      books: (_root, { first }: { first: number }) => shelf.slice(0, first),
      rateLimit: (_root, _args, context) => rateLimitOf(context),
    },
  },
})

interface Context {
  request: Request
}
const by = ({ request }: Context) => request.headers.get('x-api-key')

const gate = createGate({
  limits: {
    points: { limit: '300/day', by }, // charges what an operation costs
    operations: { limit: '60/day', by, cost: () => 1 },
  },
})

const yoga = createYoga({ schema, plugins: [useHeadgate<Context>({ gate, maxDepth: 8, weights: { Author: 2 } })] })
// #endregion

const shelf = ['Emma', 'Persuasion', 'Evelina'].map((title) => ({ title, authors: [{ name: 'somebody' }] }))
const server = createServer(yoga)
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
const { port } = server.address() as AddressInfo

interface Answer {
  readonly data?: unknown
  readonly errors?: { message: string; extensions: { code: string; retryAfterMs?: number | null } }[]
  readonly extensions?: { cost: { requested: number; actual: number } }
}

async function ask(query: string): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${port}/graphql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': 'ann' },
    body: JSON.stringify({ query }),
  })
  const { errors, extensions } = (await response.json()) as Answer
  const [error] = errors ?? []
  console.log(query.length > 60 ? `${query.slice(0, 57)}...` : query)
  if (error !== undefined) console.log(`  ${response.status} ${error.extensions.code}: ${error.message}`)
  else console.log(`  ${response.status} reserved ${extensions?.cost.requested}, cost ${extensions?.cost.actual}`)
}

await ask('{ books(first: 2) { title } }')
await ask('{ books(first: 40) { title authors { name } } }')
await ask('{ books(first: 40) { authors(first: 40) { name } } }')
await ask(`{ ${Array.from({ length: 10_000 }, (_, i) => `b${i}: books { title }`).join(' ')} }`)
await ask('{ books { ...B } } fragment B on Book { ...B }')
console.log(
  `left: ${gate.peekKey('points', 'ann').remaining} points, ${gate.peekKey('operations', 'ann').remaining} operations`,
)
server.close()
server.closeAllConnections()
