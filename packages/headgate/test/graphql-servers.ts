import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ApolloServer } from '@apollo/server'
import { startStandaloneServer } from '@apollo/server/standalone'
import fastify from 'fastify'
import { buildSchema, execute, type GraphQLSchema } from 'graphql'
import { createHandler } from 'graphql-http/lib/use/http'
import { createYoga } from 'graphql-yoga'
import {
  apolloHeadgate,
  type GraphqlOptions,
  graphqlHttpHeadgate,
  mercuriusHeadgate,
  rateLimitOf,
  rateLimitTypeDefs,
  useHeadgate,
} from 'headgate/graphql'
import mercurius from 'mercurius'

export type Context = { readonly user: string }
export interface Running {
  readonly url: string
  close(): Promise<unknown>
}

/** How many resolvers of users were called, and what they wait for. */
export const shop = { calls: 0, hold: undefined as Promise<void> | undefined }

/** Users come in the number that is asked for, or as many as `really` says. */
export function shopSchema(): GraphQLSchema {
  const schema = buildSchema(`
    ${rateLimitTypeDefs}
    type Query {
      hello: String
      users(first: Int, really: Int): [User]
      fails: User!
      slow: User
      rateLimit: RateLimit
    }
    type User { id: ID  friends(first: Int): [User]  fails: User }
  `)
  const people = async (_source: unknown, { first, really }: { first?: number; really?: number }) => {
    shop.calls++
    await shop.hold
    return Array.from({ length: really ?? first ?? 1 }, (_, id) => ({ id }))
  }
  const fails = () => {
    throw new Error('no such user')
  }
  const resolvers = {
    Query: {
      hello: () => 'world',
      users: people,
      fails,
      rateLimit: (_s: unknown, _a: unknown, c: unknown) => rateLimitOf(c),
    },
    User: { friends: people, fails },
  }
  for (const [type, fields] of Object.entries(resolvers))
    for (const [name, resolve] of Object.entries(fields)) {
      const { [name]: field } = (
        schema.getType(type) as unknown as { getFields(): Record<string, { resolve?: unknown }> }
      ).getFields()
      if (field !== undefined) field.resolve = resolve
    }
  return schema
}

type Options = GraphqlOptions<Context>
const userOf = (req: IncomingMessage): Context => ({ user: String(req.headers['x-user'] ?? '') })

/** The same small API on each server. */
export const servers: Readonly<Record<string, (options: Options) => Promise<Running>>> = {
  'GraphQL Yoga': async (options) => {
    const yoga = createYoga<{ req: IncomingMessage }>({
      schema: shopSchema(),
      context: ({ req }) => userOf(req),
      plugins: [useHeadgate(options)],
      batching: true,
      logging: false,
    })
    return listen(yoga)
  },
  'Apollo Server': async (options) => {
    const server = new ApolloServer<Context>({
      schema: shopSchema(),
      plugins: [apolloHeadgate(options)],
      allowBatchedHttpRequests: true,
    })
    const { url } = await startStandaloneServer(server, {
      listen: { port: 0, host: '127.0.0.1' },
      context: async ({ req }) => userOf(req),
    })
    return { url, close: () => server.stop() }
  },
  'graphql-http': async (options) => {
    const limited = graphqlHttpHeadgate({ ...options, execute })
    return listen(createHandler<Context>({ schema: shopSchema(), context: ({ raw }) => userOf(raw), ...limited }))
  },
  Mercurius: async (options) => {
    const app = fastify()
    app.register(mercurius, {
      schema: shopSchema(),
      context: (request) => userOf(request.raw),
      allowBatchedQueries: true,
    })
    await app.ready()
    mercuriusHeadgate(app, options)
    await app.listen({ port: 0, host: '127.0.0.1' })
    return { url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}/graphql`, close: () => app.close() }
  },
}

async function listen(handler: RequestListener): Promise<Running> {
  const server = createServer(handler).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`
  return {
    url,
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export interface Answer {
  readonly status: number
  readonly retryAfter: string | null
  readonly body: {
    readonly data?: Record<string, unknown> | null
    readonly errors?: { message: string; extensions?: Record<string, unknown> }[]
    readonly extensions?: { readonly cost?: Record<string, unknown> }
  }
}

export async function ask(url: string, body: unknown, user = 'ann', signal?: AbortSignal): Promise<Answer> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-user': user },
    body: JSON.stringify(typeof body === 'string' ? { query: body } : body),
    ...(signal && { signal }),
  })
  return {
    status: response.status,
    retryAfter: response.headers.get('retry-after'),
    body: (await response.json()) as Answer['body'],
  }
}
