import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { normalPath } from 'headgate/http'
import { type Api, createApi } from './api/index.ts'
import { runHandler } from './api/run.ts'
import { hostGlob, type Matches, normalHost, pathGlob } from './config/glob.ts'
import type { Rules } from './config/schema.ts'
import { createProxy, type HttpProxy, isWebSocket, type UpstreamOptions } from './gateway/index.ts'
import { Gateway } from './gateway.ts'
import { httpServer } from './http-server.ts'
import type { Log } from './log.ts'
import { sendAnswer } from './passage.ts'
import { problem } from './problem.ts'
import type { Service } from './service.ts'
import type { Breaker, Spans, Telemetry } from './telemetry/index.ts'

export interface DataServer {
  readonly server: Server
  readonly proxy: HttpProxy | undefined
}

export interface DataOptions {
  readonly service: Service
  readonly telemetry: Telemetry
  /** What callers of the decision API must show. */
  readonly token: string | undefined
  /** Seals reservations. */
  readonly secret: Buffer
  readonly spans: Spans | undefined
  readonly log: Log
}

/** The port that callers meet: the decision API, and whatever else goes to the upstream, if there is one. */
export function dataServer({ service, telemetry, token, secret, spans, log }: DataOptions): DataServer {
  const { rules } = service.rules
  const proxy = rules.upstream.length === 0 ? undefined : proxyOf(service, rules)
  const gateway = proxy && new Gateway(service, proxy, spans)
  // Behind a gateway everything is meant for the upstream, unless somebody shows that it is not.
  const open = token === undefined && proxy === undefined
  telemetry.breakers = () => sparedBy(proxy)
  const api = createApi(service, { secret, open, ...(token !== undefined && { token }) })
  const run = open || token !== undefined ? runHandler(service.store, { token }) : undefined
  const handle: RequestListener = (req, res) => {
    if (isOwn(req, res, api, run)) return
    if (gateway !== undefined) gateway.handle(req, res)
    else sendAnswer(res, problem(404, 'not_found', 'Not found', 'There is no such path here, and no upstream.'), [])
  }
  const upgrade = (req: IncomingMessage, socket: Duplex, head: Buffer) => {
    if (gateway === undefined || !isWebSocket(req) || isRun(req.url) || api.has(req.url ?? '')) return false
    gateway.upgrade(req, socket, head)
    return true
  }
  const options = { continues: true, log, count: telemetry, upgrade }
  const server = httpServer(rules.server, rules.server.tls, handle, options)
  return { server, proxy }
}

const RUN = '/v1/run'

function isOwn(
  req: IncomingMessage,
  res: ServerResponse,
  api: Api,
  run: ReturnType<typeof runHandler> | undefined,
): boolean {
  if (!isRun(req.url)) return api.handle(req, res)
  if (run === undefined) sendAnswer(res, problem(404, 'not_found', 'Not found', 'There is nothing here.'), [])
  else void run(req, res)
  return true
}

function isRun(url = ''): boolean {
  return url === RUN || url.startsWith(`${RUN}?`)
}

function proxyOf(service: Service, rules: Rules): HttpProxy {
  const { maxBodyBytes } = rules.server
  return createProxy({
    upstreams: upstreamsOf(rules),
    ...(maxBodyBytes !== undefined && { maxBodyBytes }),
    onBreaker: ({ upstream, url, to: state }) => service.tell({ type: 'breaker', upstream, url, state }),
  })
}

function sparedBy(proxy: HttpProxy | undefined): Breaker[] {
  const upstreams = proxy?.stats().upstreams ?? []
  return upstreams.flatMap(({ upstream, url, breaker }) =>
    breaker === undefined || breaker === 'closed' ? [] : [{ upstream, url }],
  )
}

export function upstreamsOf({ upstream, caseSensitive }: Rules): UpstreamOptions[] {
  return upstream.map(({ urls, match: { path, host }, health, breaker, throttle, retries, ...rest }, i) => {
    const paths = path?.map((glob) => pathGlob(glob, { caseSensitive }))
    const hosts = host?.map(hostGlob)
    return {
      ...rest,
      name: `upstream-${i + 1}`,
      urls,
      match: {
        ...(paths && { path: (text: string) => anyOf(paths, normalPath(text, { caseSensitive })) }),
        ...(hosts && { host: (text: string) => anyOf(hosts, normalHost(text)) }),
      },
      ...(health && { health }),
      ...(breaker && { breaker }),
      ...(throttle && { throttle }),
      ...(retries && { retries }),
    }
  })
}

function anyOf(matchers: readonly Matches[], text: string): boolean {
  return matchers.some((matches) => matches(text))
}
