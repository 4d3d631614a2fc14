import { randomBytes } from 'node:crypto'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { hostGlob, pathGlob } from './config/glob.ts'
import { type Loaded, loadRules, parseRules } from './config/load.ts'
import { formatProblem, RulesError } from './config/problem.ts'
import type { Rules } from './config/schema.ts'
import type { ServerRules } from './config/server-schema.ts'
import { createProxy, type HttpProxy, type UpstreamOptions } from './gateway/index.ts'
import { Gateway, peerOf, replyTo } from './gateway.ts'
import { type Log, noLog } from './log.ts'
import { problem } from './problem.ts'
import { incomingOf } from './rules/caller.ts'
import { Service } from './service.ts'
import { openStore } from './store.ts'
import { readCertificate, watchCertificate } from './tls.ts'
import { watchFiles } from './watch.ts'

export interface ServeOptions {
  /** The rules file; absent: `text`, or no limits at all. */
  readonly file?: string
  readonly text?: string
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly log?: Log
}

export interface Running {
  readonly service: Service
  readonly port: number
  readonly adminPort: number | undefined
  readonly rules: Rules
  /** Reads the rules again; keeps the last good ones, and says what was wrong with the others. */
  reload(origin?: string): Promise<readonly string[]>
  /** Takes no more requests, waits for those under way, gives everything back. */
  stop(): Promise<void>
}

/** Starts the service: rules, store, gateway, APIs. */
export async function serve(options: ServeOptions): Promise<Running> {
  const { env = {}, log = noLog } = options
  const loaded = read(options, env)
  for (const warning of loaded.warnings) log.warn(warning, warning.reason)
  const { rules } = loaded
  const opened = await openStore(rules.store, (fault) =>
    log.warn({ code: (fault as { code?: string }).code }, fault.message),
  )
  const service = new Service(rules, opened.store)
  const proxy = rules.upstream.length === 0 ? undefined : proxyOf(service, rules)
  const data = dataServer(service, proxy, rules)
  await listen(data, rules.server.port, rules.server.host)
  const port = (data.address() as AddressInfo).port
  log.info({ port, limits: Object.keys(rules.limits).length, generation: 1 }, 'serving')

  const reload = async (origin = 'reload'): Promise<readonly string[]> => {
    try {
      const next = read(options, env)
      apply(service, proxy, next, origin)
      log.info({ generation: service.rules.generation, origin }, 'rules replaced')
      return []
    } catch (error) {
      const reasons = error instanceof RulesError ? error.problems.map(formatProblem) : [String(error)]
      service.tell({ type: 'rules-refused', origin, reason: reasons.join('\n') })
      log.error({ origin, reasons }, 'rules refused, the last good ones hold')
      return reasons
    }
  }
  const unwatch = watchFiles(loaded.files, loaded.folders, () => void reload('file'))

  let stopping: Promise<void> | undefined
  const stop = () => {
    stopping ??= drain(data, proxy, rules.server).then(async () => {
      unwatch()
      await opened.close()
      log.info({}, 'stopped')
    })
    return stopping
  }
  return { service, port, adminPort: undefined, rules, reload, stop }
}

function read({ file, text = 'limits: {}' }: ServeOptions, env: ServeOptions['env']): Loaded {
  return file === undefined ? parseRules(text, 'rules', env) : loadRules(file, env)
}

/** What can change while the service runs. Ports, certificates' paths and the store stay as they were at its start. */
function apply(service: Service, proxy: HttpProxy | undefined, { rules }: Loaded, origin: string): void {
  proxy?.update(upstreamsOf(rules))
  service.replace(rules, origin)
}

function proxyOf(service: Service, rules: Rules): HttpProxy {
  const { maxBodyBytes } = rules.server
  return createProxy({
    upstreams: upstreamsOf(rules),
    ...(maxBodyBytes !== undefined && { maxBodyBytes }),
    trust: (req) => peerOf(service.rules.callerOf(incomingOf(req)), service.rules.identity),
  })
}

function upstreamsOf({ upstream, caseSensitive }: Rules): UpstreamOptions[] {
  return upstream.map(({ urls, match: { path, host }, health, ...rest }, i) => {
    const paths = path?.map((glob) => pathGlob(glob, { caseSensitive }))
    const hosts = host?.map(hostGlob)
    return {
      ...rest,
      name: `upstream-${i + 1}`,
      urls,
      match: {
        ...(paths && { path: (text: string) => paths.some((matches) => matches(text)) }),
        ...(hosts && { host: (text: string) => hosts.some((matches) => matches(text)) }),
      },
      ...(health && { health }),
    }
  })
}

function dataServer(service: Service, proxy: HttpProxy | undefined, rules: Rules): Server {
  const gateway = proxy && new Gateway(service, proxy)
  const server = createFor(rules.server)
  const handle: RequestListener = (req, res) => {
    if (gateway !== undefined) gateway.handle(req, res)
    else replyTo(res)(problem(404, 'not_found', 'Not found', 'There is no such path here, and no upstream.'), [])
  }
  server.on('request', handle)
  server.on('checkContinue', handle)
  if (gateway !== undefined) server.on('upgrade', (req, socket, head) => gateway.upgrade(req, socket, head))
  return server
}

/** Bounds for those who are slow or send too much. */
export function createFor(rules: ServerRules, tls = rules.tls): Server {
  const { maxHeaderBytes, requestTimeoutMs, headersTimeoutMs, keepAliveTimeoutMs, maxConnections } = rules
  const bounds = {
    maxHeaderSize: maxHeaderBytes,
    requestTimeout: requestTimeoutMs,
    headersTimeout: headersTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    requireHostHeader: true,
  }
  const server = tls === undefined ? createServer(bounds) : createSecureServer({ ...bounds, ...readCertificate(tls) })
  if (tls !== undefined) watchCertificate(server as never, tls)
  if (maxConnections !== undefined) server.maxConnections = maxConnections
  return server
}

function listen(server: Server, port: number, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

/** New connections are refused at once; requests that were accepted have `drainMs` to end. */
async function drain(server: Server, proxy: HttpProxy | undefined, { drainMs }: ServerRules): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  server.closeIdleConnections()
  const sweep = setInterval(() => server.closeIdleConnections(), 50)
  const late = setTimeout(() => server.closeAllConnections(), drainMs)
  await closed
  clearInterval(sweep)
  clearTimeout(late)
  await proxy?.close({ graceMs: 0 })
}

export function newToken(): string {
  return randomBytes(24).toString('base64url')
}
