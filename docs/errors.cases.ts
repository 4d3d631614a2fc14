import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buildSchema, execute } from 'graphql'
import { createHandler } from 'graphql-http'
import { createGate, type ErrorCode, memory, type Store } from 'headgate'
import { type PoliteOptions, politeFetch } from 'headgate/client'
import { headgate as headgateFetch } from 'headgate/fetch'
import { graphqlCost, graphqlHttpHeadgate } from 'headgate/graphql'
import { llmBudget, usd } from 'headgate/llm'
import { headgate } from 'headgate/node'
import { redis } from 'headgate/redis'
import { remote, serveStore } from 'headgate/remote'
import { Redis } from 'ioredis'
import { startRedis } from '../packages/headgate/test/redis-server.ts'

/** One way to get each error; docs/errors.md shows them with the message that really comes. */
export const cases: Record<ErrorCode, () => Promise<unknown>> = {
  HG_ADDRESS_INVALID: async () => {
    // #region HG_ADDRESS_INVALID
    headgate({ limit: '100/min', trustProxy: ['127.0.0.1', '10.1.2.3/8'] })
    // #endregion
  },

  HG_ADDRESS_UNKNOWN: async () => {
    const handler = async () => new Response('hello')
    const respond = (_response: Response) => {}
    return warningOf(async () => {
      // #region HG_ADDRESS_UNKNOWN
      const limited = headgateFetch({ limit: '100/min' })(handler)
      respond(await limited(new Request('http://localhost/'))) // 400: a platform that tells no address
      // #endregion
    })
  },

  HG_BODY_ONCE: async () =>
    callTo(tooMany(), async (politeFetch) => {
      const file = new Blob(['a large file'])
      // #region HG_BODY_ONCE
      const polite = politeFetch()
      await polite('https://api.example/files', { method: 'POST', body: file.stream() })
      // #endregion
    }),

  HG_CALL_INVALID: async () => {
    // #region HG_CALL_INVALID
    const budget = llmBudget({ limits: { tokens: '100000/min' } })
    const body = '{ "model": "gpt-4o", "messages": [] }'
    await budget.reserve('team-a', body)
    // #endregion
  },

  HG_COST_INVALID: async () => {
    // #region HG_COST_INVALID
    const gate = createGate({ limit: '100/min' })
    gate.take('user-1', { cost: -5 })
    // #endregion
  },

  HG_COUNTED_TWICE: async () =>
    warningOf(async () => {
      // #region HG_COUNTED_TWICE
      const limit = headgate({ limit: '100/min' })
      const handler: RequestListener = (req, res) => {
        if (limit(req, res) && limit(req, res)) res.end('hello')
      }
      // #endregion
      await requestTo(handler)
    }),

  HG_DEADLINE_PASSED: async () =>
    callTo(tooMany(), async (politeFetch) => {
      // #region HG_DEADLINE_PASSED
      const polite = politeFetch()
      await polite('https://api.example/orders', { deadlineMs: 500 })
      // #endregion
    }),

  HG_GATE_IN_HANDLER: async () =>
    warningOf(async () => {
      // #region HG_GATE_IN_HANDLER
      function handler(req: IncomingMessage, res: ServerResponse) {
        const limit = headgate({ limit: '100/min' })
        if (limit(req, res)) res.end('hello')
      }
      // #endregion
      await requestTo(handler)
    }),

  HG_HEADERS_FAILED: async () =>
    warningOf(async () => {
      // #region HG_HEADERS_FAILED
      const limit = headgate({ limit: '100/min', headers: ({ remaining }) => ({ 'X-Left': `${remaining} → 0` }) })
      const handler: RequestListener = (req, res) => {
        if (limit(req, res)) res.end('hello') // without X-Left
      }
      // #endregion
      await requestTo(handler)
    }),

  HG_KEY_MISSING: async () => {
    // #region HG_KEY_MISSING
    const gate = createGate({ limit: '100/min', by: (request: { apiKey?: string }) => request.apiKey })
    gate.take({})
    // #endregion
  },

  HG_LIMIT_MISSING: async () => {
    // #region HG_LIMIT_MISSING
    createGate({ limits: { ip: { by: (ip: string) => ip } } })
    // #endregion
  },

  HG_LIMIT_NAME: async () => {
    // #region HG_LIMIT_NAME
    createGate({ limits: { 'Per IP': { limit: '10/s', by: (ip: string) => ip } } })
    // #endregion
  },

  HG_LIMIT_RANGE: async () => {
    // #region HG_LIMIT_RANGE
    createGate({ limit: { limit: 0.5, per: 'second' } })
    // #endregion
  },

  HG_LIMIT_TEXT: async () => {
    // #region HG_LIMIT_TEXT
    // @ts-expect-error TypeScript sees it too
    createGate({ limit: '100/minn' })
    // #endregion
  },

  HG_LIMIT_UNKNOWN: async () => {
    // #region HG_LIMIT_UNKNOWN
    const gate = createGate({ limits: { address: { limit: '10/s', by: (ip: string) => ip } } })
    // @ts-expect-error TypeScript sees it too
    gate.reset('adress', '192.0.2.1')
    // #endregion
  },

  HG_MESSAGE_INVALID: async () => {
    // #region HG_MESSAGE_INVALID
    const answer = serveStore(memory())
    await answer('GET / HTTP/1.1')
    // #endregion
  },

  HG_MODEL_UNKNOWN: async () => {
    // #region HG_MODEL_UNKNOWN
    const prices = { 'gpt-4o': { input: 2.5, output: 10 } }
    const budget = llmBudget({ limits: { money: usd('200/month calendar') }, prices })
    await budget.reserve('team-a', { model: 'gpt-4o-mini', messages: [] })
    // #endregion
  },

  HG_OPTION_CONFLICT: async () => {
    // #region HG_OPTION_CONFLICT
    createGate({ limit: '1000/day', zone: 'Europe/Berlin' })
    // #endregion
  },

  HG_OPTION_INVALID: async () => {
    // #region HG_OPTION_INVALID
    // @ts-expect-error TypeScript sees it too
    createGate({ limit: '10/s', mode: 'observed' })
    // #endregion
  },

  HG_OPTION_UNKNOWN: async () => {
    // #region HG_OPTION_UNKNOWN
    // @ts-expect-error TypeScript sees it too
    createGate({ limit: '10/s', algoritm: 'sliding-log' })
    // #endregion
  },

  HG_OVERRIDES_FULL: async () => {
    // #region HG_OVERRIDES_FULL
    const gate = createGate({ limit: '100/min' })
    for (let n = 0; n <= 100_000; n++) gate.override(`customer-${n}`, '200/min', 86_400_000)
    // #endregion
  },

  HG_PREFIX_SHARED: async () =>
    warningOf(async () => {
      // #region HG_PREFIX_SHARED
      const store = memory()
      const api = headgate({ limit: '100/min', store })
      const login = headgate({ limit: '5/min', store })
      // #endregion
      return [api, login]
    }),

  HG_PROTOCOL_VERSION: async () => {
    // #region HG_PROTOCOL_VERSION
    const answer = serveStore(memory())
    await answer('{ "v": 2, "counters": [], "groups": [] }')
    // #endregion
  },

  HG_PROXY_UNTRUSTED: async () =>
    warningOf(async () => {
      // #region HG_PROXY_UNTRUSTED
      const limit = headgate({ limit: '100/min' })
      const handler: RequestListener = (req, res) => {
        if (limit(req, res)) res.end('hello')
      }
      // #endregion
      await requestTo(handler, { 'X-Forwarded-For': '203.0.113.7' })
    }),

  HG_QUERY_INVALID: async () => {
    // #region HG_QUERY_INVALID
    const cost = graphqlCost(buildSchema('type Query { me: User } type User { id: ID, best: User }'))
    cost('{ me { ...F } } fragment F on User { best { ...F } }')
    // #endregion
  },

  HG_QUERY_TOO_DEEP: async () => {
    // #region HG_QUERY_TOO_DEEP
    const schema = buildSchema('type Query { me: User } type User { id: ID, best: User }')
    const cost = graphqlCost(schema, { maxDepth: 3 })
    cost('{ me { best { best { id } } } }')
    // #endregion
  },

  HG_QUERY_TOO_LARGE: async () => {
    // #region HG_QUERY_TOO_LARGE
    const cost = graphqlCost(buildSchema('type Query { hello: String }'), { maxAliases: 2 })
    cost('{ a: hello b: hello c: hello }')
    // #endregion
  },

  HG_QUERY_UNKNOWN: async () => {
    const schema = buildSchema('type Query { hello: String }')
    // #region HG_QUERY_UNKNOWN
    const gate = createGate({ limit: '5000/h' })
    const persisted = ['f2ca1bb6c7e907d06dafe4687e579fce76b37e4e93b7605022da52e6ccc26fd2']
    const limited = graphqlHttpHeadgate({ gate, persisted, execute })
    const handler = createHandler({ schema, ...limited })
    // #endregion
    void handler
    try {
      limited.parse('{ hello }')
    } catch (error) {
      throw (error as Error).cause
    }
  },

  HG_QUEUE_FULL: async () => {
    const end = new AbortController()
    const { signal } = end
    return callTo(
      () => {},
      async (politeFetch) => {
        // #region HG_QUEUE_FULL
        const polite = politeFetch({ concurrency: 1 })
        for (let page = 0; page <= 10_000; page++)
          void polite(`https://api.example/orders?page=${page}`, { signal }).catch(() => {})
        await polite('https://api.example/orders')
        // #endregion
      },
    ).finally(() => end.abort())
  },

  HG_REDIS_SETUP: async () => {
    const server = await startRedis()
    await server.call('ACL', 'SETUSER', 'app', 'on', '>secret', '~*', '+@all', '-@scripting')
    const { port } = server
    // #region HG_REDIS_SETUP
    const client = new Redis({ port, username: 'app', password: 'secret' })
    const [problem] = await redis(client).selfTest()
    // #endregion
    client.disconnect()
    await server.stop()
    throw problem
  },

  HG_REMOTE_REFUSED: async () => {
    const fetch = async () => new Response('{ "detail": "The token is missing or wrong." }', { status: 401 })
    // #region HG_REMOTE_REFUSED
    const store = remote('http://10.0.0.5:8080', { token: 'yesterday', fetch })
    await store.ready()
    // #endregion
  },

  HG_RETRIES_EXHAUSTED: async () =>
    callTo(
      (_req, res) => void res.writeHead(429).end(),
      async (politeFetch) => {
        // #region HG_RETRIES_EXHAUSTED
        const polite = politeFetch({ retries: 1 })
        await polite('https://api.example/orders')
        // #endregion
      },
    ),

  HG_SETTLE_FAILED: async () =>
    warningOf(async () => {
      // #region HG_SETTLE_FAILED
      const limit = headgate({ limit: '100/min', settle: ({ header }) => Number(header('x-cost')) })
      const handler: RequestListener = (req, res) => {
        if (limit(req, res)) res.end('hello') // without x-cost
      }
      // #endregion
      await requestTo(handler)
    }),

  HG_STORE_FAILED: async () => {
    // #region HG_STORE_FAILED
    const unreachable: Store = { run: () => Promise.reject(new Error('connection refused')) }
    const gate = createGate({ limit: '10/s', store: unreachable })
    await gate.reset('user-1')
    // #endregion
  },

  HG_TIER_UNKNOWN: async () => {
    // #region HG_TIER_UNKNOWN
    const gate = createGate({
      limit: { free: '60/min', pro: '600/min' },
      tier: (user: { plan: string; id: string }) => user.plan,
      by: (user) => user.id,
    })
    gate.take({ id: 'u1', plan: 'trial' })
    // #endregion
  },

  HG_TRUST_EVERYTHING: async () => {
    // #region HG_TRUST_EVERYTHING
    headgate({ limit: '100/min', trustProxy: ['0.0.0.0/0'] })
    // #endregion
  },

  HG_WAIT_TOO_LONG: async () =>
    callTo(tooMany('3600'), async (politeFetch) => {
      // #region HG_WAIT_TOO_LONG
      const polite = politeFetch({ maxWaitMs: 10_000 })
      await polite('https://api.example/orders')
      // #endregion
    }),

  HG_ZONE_UNKNOWN: async () => {
    // #region HG_ZONE_UNKNOWN
    createGate({ limit: '1000/day calendar Europe/Berlyn' })
    // #endregion
  },
}

/** What a case ends with: the error it throws, or undefined. */
export async function errorOf(code: ErrorCode): Promise<unknown> {
  try {
    await cases[code]()
    return undefined
  } catch (error) {
    return error
  }
}

/** Throws the first of our warnings that come of something. */
async function warningOf(work: () => Promise<unknown>): Promise<never> {
  const told = new Promise((resolve) => {
    process.on('warning', function listen(warning) {
      if (warning.name !== 'HeadgateWarning') return
      process.off('warning', listen)
      resolve(warning)
    })
  })
  await work()
  throw await told
}

const tooMany =
  (seconds = '1'): RequestListener =>
  (_req, res) =>
    void res.writeHead(429, { 'retry-after': seconds }).end()

/** What becomes of calls to a server like this, whatever address they have. */
async function callTo(
  handler: RequestListener,
  work: (polite: (options?: PoliteOptions) => ReturnType<typeof politeFetch>) => Promise<void>,
): Promise<void> {
  const server = createServer(handler).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const send = (_input: unknown, init?: RequestInit) =>
    fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, init)
  try {
    await work((options) => politeFetch({ ...options, fetch: send }))
  } finally {
    server.close()
    server.closeAllConnections()
  }
}

async function requestTo(handler: RequestListener, headers: Record<string, string> = {}): Promise<void> {
  const server = createServer(handler).listen(0, '127.0.0.1')
  await once(server, 'listening')
  await (await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { headers })).text()
  server.close()
}
