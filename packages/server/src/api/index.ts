import type { IncomingMessage, ServerResponse } from 'node:http'
import { Decider as EnvoyDecider } from '../rls/decide.ts'
import type { Service } from '../service.ts'
import { tokenCheck } from '../token.ts'
import { giveBackUnlessTold, sendJson, sendRefusal } from './answer.ts'
import { answerAuth } from './auth.ts'
import { readJson } from './body.ts'
import { Corrector } from './correct.ts'
import { answerEnvoy } from './envoy.ts'
import { isTrusted, sentRequest } from './incoming.ts'
import { InlineGates } from './inline.ts'
import { openApi } from './openapi.ts'
import { Refusal } from './problem.ts'
import { Seal } from './reservation.ts'
import { statusOfCaller } from './status.ts'
import { Decider } from './take.ts'

export interface ApiOptions {
  /** What callers must show, unless it is `open`. */
  readonly token?: string
  /** Instances with the same one understand each other's reservations. */
  readonly secret: Buffer
  /** Whether anybody may ask. Neither that nor a token: `/v1/…` is as if it were not there. */
  readonly open: boolean
  readonly maxBodyBytes?: number
}

export interface Api {
  /** Whether the path is one of its own. */
  has(url: string): boolean
  /** False if the path is none of its own. */
  handle(req: IncomingMessage, res: ServerResponse): boolean
}

interface Route {
  /** Any, if none is named. */
  readonly methods?: readonly string[]
  readonly guarded: boolean
  answer(req: IncomingMessage, res: ServerResponse): Promise<void>
}

const MAX_BODY_BYTES = 4 * 2 ** 20

/** Decisions over HTTP. */
export function createApi(service: Service, options: ApiOptions): Api {
  const { maxBodyBytes = MAX_BODY_BYTES } = options
  const isToken = tokenCheck(options.token)
  const seal = new Seal(options.secret)
  const gates = new InlineGates(service)
  const decider = new Decider(service, gates, seal)
  const envoy = new EnvoyDecider()
  const corrector = new Corrector(service, gates, seal)

  const asking = (verb: 'take' | 'peek'): Route => ({
    methods: ['POST'],
    guarded: true,
    async answer(req, res) {
      const json = await readJson(req, res, maxBodyBytes)
      if (json === undefined) return
      const { body, taken } = await decider.answer(verb, json)
      if (verb === 'take') giveBackUnlessTold(res, taken)
      sendJson(res, 200, body)
    },
  })
  const correcting = (verb: 'settle' | 'refund' | 'release'): Route => ({
    methods: ['POST'],
    guarded: true,
    async answer(req, res) {
      const json = await readJson(req, res, maxBodyBytes)
      if (json === undefined) return
      sendJson(res, 200, await corrector.answer(verb, json))
    },
  })
  const looking = (answer: (req: IncomingMessage) => unknown): Route => ({
    methods: ['GET', 'HEAD'],
    guarded: false,
    async answer(req, res) {
      req.resume()
      sendJson(res, 200, await answer(req))
    },
  })

  const routes = new Map<string, Route>([
    ['/v1/take', asking('take')],
    ['/v1/peek', asking('peek')],
    ['/v1/settle', correcting('settle')],
    ['/v1/refund', correcting('refund')],
    ['/v1/release', correcting('release')],
    ['/v1/auth', { guarded: true, answer: (req, res) => answerAuth(req, res, service, isToken) }],
    [
      '/json',
      { methods: ['POST'], guarded: true, answer: (req, res) => answerEnvoy(req, res, service, envoy, maxBodyBytes) },
    ],
    ['/rate_limit', looking((req) => statusOfCaller(req, service))],
    ['/openapi.json', looking(openApi)],
  ])

  /** The Authorization of a request about which a proxy asks is its client's: there the rules say who may ask. */
  const isAllowed = (req: IncomingMessage, path: string) =>
    isToken(req.headers.authorization ?? '') || (path === '/v1/auth' && isTrusted(service.rules, sentRequest(req)))

  const check = (req: IncomingMessage, path: string, { methods, guarded }: Route) => {
    if (guarded && !options.open) {
      if (options.token === undefined) throw new Refusal(404, 'not_found', 'There is nothing here.')
      if (!isAllowed(req, path)) throw unauthorized
    }
    if (methods !== undefined && !methods.includes(req.method ?? '')) throw wrongMethod(methods)
  }

  return {
    has: (url) => routes.has(pathOf(url)),
    handle(req, res) {
      const path = pathOf(req.url ?? '')
      const route = routes.get(path)
      if (route === undefined) return false
      const answer = async () => {
        check(req, path, route)
        await route.answer(req, res)
      }
      answer().catch((error) => {
        req.resume()
        sendRefusal(res, error)
      })
      return true
    },
  }
}

function pathOf(url: string): string {
  const query = url.indexOf('?')
  return query === -1 ? url : url.slice(0, query)
}

const unauthorized = new Refusal(401, 'unauthorized', 'Send the token as Authorization: Bearer …', {
  headers: { 'WWW-Authenticate': 'Bearer' },
})

function wrongMethod(methods: readonly string[]): Refusal {
  const allowed = methods.join(', ')
  return new Refusal(405, 'method_not_allowed', `Use ${allowed}.`, { headers: { Allow: allowed } })
}
