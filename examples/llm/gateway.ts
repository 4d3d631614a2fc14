// A gateway in front of language models: each team has a key, a plan, and a budget of its own.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { json } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { HeadgateError, type MemoryStore } from 'headgate'
import { type LlmBudgetOptions, llmBudget, readRequest, usd } from 'headgate/llm'

// #region budget
interface Team {
  readonly name: string
  readonly plan: 'free' | 'pro'
}

export function teamBudget(more: Pick<LlmBudgetOptions<Team, MemoryStore>, 'clock' | 'onSettled'> = {}) {
  return llmBudget<Team>({
    by: ({ name }) => name,
    tier: ({ plan }) => plan,
    limits: {
      requests: { limit: { free: '20/min', pro: '600/min' } },
      input: '100000/min',
      output: '20000/min',
      tokens: '1000000/day calendar',
      money: { limit: { free: usd('0.05/month calendar'), pro: usd('200/month calendar') } },
    },
    // What a million tokens cost, as providers print it.
    prices: {
      'gpt-4o': { input: 2.5, output: 10, cachedInput: 1.25 },
      'claude-sonnet-4-5': { input: 3, output: 15, cachedInput: 0.3, cacheWrite: 3.75 },
    },
    defaultOutput: 1_000,
    ...more,
  })
}
// #endregion

// #region gateway
const teams: ReadonlyMap<string | undefined, Team> = new Map([
  ['key-of-ann', { name: 'ann', plan: 'pro' }],
  ['key-of-bob', { name: 'bob', plan: 'free' }],
])

/** Nobody may fill the memory. */
const MOST_BYTES = 20_000_000

export function gateway(provider: string, budget = teamBudget()): Server {
  return createServer(async (req, res) => {
    const team = teams.get(keyOf(req))
    if (team === undefined) return void res.writeHead(401).end()
    if (!(Number(req.headers['content-length']) <= MOST_BYTES)) return void res.writeHead(413).end()
    const gone = new AbortController()
    res.on('close', () => gone.abort())
    try {
      const body = withUsage(await json(req), req.url)
      const send = () => forward(provider, req, JSON.stringify(body), gone.signal)
      const response = await budget.call(team, body, send, { path: req.url ?? '' })
      res.writeHead(response.status, Object.fromEntries(response.headers))
      if (response.body === null) res.end()
      else await pipeline(Readable.fromWeb(response.body as never), res)
    } catch (error) {
      answerError(res, error)
    }
  })
}

/** A streamed chat tells its usage at the end if it is asked to; if not, it is estimated from the text. */
function withUsage(body: unknown, path = ''): unknown {
  const isStreamedChat = readRequest(body, { path })?.endpoint === 'chat' && (body as { stream?: boolean }).stream
  return isStreamedChat ? { ...(body as object), stream_options: { include_usage: true } } : body
}
// #endregion

function keyOf({ headers }: IncomingMessage): string | undefined {
  return headers['x-api-key']?.toString() ?? headers.authorization?.replace(/^Bearer /, '')
}

async function forward(provider: string, req: IncomingMessage, body: string, signal: AbortSignal): Promise<Response> {
  // A real one adds the provider's own key here. What is not packed can be handed on as it is.
  const headers = { 'content-type': 'application/json', 'accept-encoding': 'identity' }
  const response = await fetch(provider + req.url, { method: 'POST', headers, body, signal })
  const kept = [...response.headers].filter(([name]) => !/^(connection|keep-alive|transfer-encoding)$/.test(name))
  return new Response(response.body, { status: response.status, headers: kept })
}

function answerError(res: ServerResponse, error: unknown): void {
  if (res.headersSent) return void res.destroy()
  // What callers have written wrongly is theirs: a body that is no call, a model without a price.
  const status = error instanceof HeadgateError || error instanceof SyntaxError ? 400 : 502
  const message = status === 400 ? (error as Error).message : 'The provider cannot be reached'
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ error: { message } }))
}
