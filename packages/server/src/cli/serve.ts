import { loadRules, parseRules } from '../config/load.ts'
import type { ServerRules } from '../config/server-schema.ts'
import { createLog } from '../log.ts'
import { type Running, serve } from '../serve.ts'
import type { Signals, Terminal } from './index.ts'

const ENDING = ['SIGTERM', 'SIGINT'] as const

/** Runs until SIGTERM or SIGINT; SIGHUP reads the rules again. What keeps it from starting is thrown, in words for the user. */
export async function serveCommand(
  file: string | undefined,
  { envoy }: { readonly envoy: readonly string[] },
  { env, err, signals }: Terminal,
): Promise<number> {
  // How to log is in the rules, and what is wrong with them is told before anything is logged.
  const beside = { envoy }
  const { rules } = file === undefined ? parseRules('limits: {}', 'rules', env, beside) : loadRules(file, env, beside)
  const log = createLog(rules.server.logLevel)
  const running = await serve({ ...(file !== undefined && { file }), envoy, env, log }).catch((error) => {
    throw inWords(error)
  })
  const reload = () => void running.reload('SIGHUP')
  signals.on('SIGHUP', reload)
  const end = ended(signals)
  // Who reads this may send a signal at once.
  err.write(welcome(running, rules.server, Boolean(env.HEADGATE_ADMIN_TOKEN)))
  await end
  await running.stop()
  signals.off('SIGHUP', reload)
  return 0
}

/** After the first signal nobody listens any more, so the second ends the process at once. */
function ended(signals: Signals): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      for (const signal of ENDING) signals.off(signal, end)
      resolve()
    }
    for (const signal of ENDING) signals.on(signal, end)
  })
}

/** The token goes to standard error and nowhere else: logs are kept. */
function welcome({ port, adminPort, grpcPort, adminToken }: Running, server: ServerRules, isChosen: boolean): string {
  const data = urlOf(server.tls, server.host, port)
  const admin = urlOf(server.adminTls, server.adminHost, adminPort)
  const token = isChosen ? '' : `Admin token of this run, as HEADGATE_ADMIN_TOKEN is not set: ${adminToken}\n`
  const envoy = grpcPort === 0 ? '' : `, Envoy on ${urlOf(server.tls, server.host, grpcPort)}`
  return `Serving on ${data}${envoy}, admin on ${admin}\n${token}`
}

function urlOf(tls: unknown, host: string, port: number): string {
  return `${tls === undefined ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${port}`
}

interface SystemError extends Error {
  readonly code?: string
  readonly syscall?: string
  readonly address?: string
  readonly port?: number
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'somebody else is listening there',
  EACCES: 'that is not allowed',
  EADDRNOTAVAIL: 'this machine has no such address',
}

function inWords(error: SystemError): Error {
  const { code = '', syscall, address, port } = error
  if (syscall !== 'listen') return error
  return new Error(`cannot listen on ${address}:${port}: ${REASONS[code] ?? code} (${code})`)
}
