import type { Loaded } from './config/load.ts'
import { GrpcError, GrpcServer, Health } from './grpc/index.ts'
import type { Log } from './log.ts'
import { Decider } from './rls/decide.ts'
import { SERVICE, SHOULD_RATE_LIMIT, shouldRateLimit } from './rls/service.ts'
import type { Service } from './service.ts'
import type { Telemetry } from './telemetry/index.ts'
import { tokenCheck } from './token.ts'

export interface EnvoyServer {
  readonly health: Health
  listen(port: number, host: string): Promise<number>
  drain(graceMs: number): Promise<void>
}

export interface EnvoyServerOptions {
  readonly service: Service
  readonly telemetry: Telemetry
  /** What callers must show, as at the decision API; how the service is doing anybody may ask. */
  readonly token: string | undefined
  readonly log: Log
}

/** Undefined: there is no such port. It is there for who names it, or has limits for it. */
export function grpcPortOf({ rules, isGiven }: Pick<Loaded, 'rules' | 'isGiven'>): number | undefined {
  const { grpcPort } = rules.server
  const isWanted = rules.envoy !== undefined || isGiven(['server', 'grpcPort'])
  return grpcPort === false || !isWanted ? undefined : grpcPort
}

/** The port that Envoy asks at. */
export function envoyServer({ service, telemetry, token, log }: EnvoyServerOptions): EnvoyServer {
  const health = new Health(['ratelimit', SERVICE])
  const isToken = tokenCheck(token)
  const server = new GrpcServer({
    rules: service.rules.rules.server,
    log,
    methods: new Map([[SHOULD_RATE_LIMIT, shouldRateLimit(service, new Decider())], ...health.methods]),
    authorize(path, { authorization = '' }) {
      if (token !== undefined && path === SHOULD_RATE_LIMIT && !isToken(authorization))
        throw new GrpcError('UNAUTHENTICATED', 'send the token as authorization: Bearer …')
    },
    onStream(stream) {
      telemetry.inflight++
      stream.once('close', () => telemetry.inflight--)
    },
  })
  return { health, listen: (port, host) => server.listen(port, host), drain: (graceMs) => server.drain(graceMs) }
}
