import { lastHop } from './envoy-text.ts'
import { type Fields, fieldOf, headerAmong, lengthOf, spelled, tookIn } from './fields.ts'
import {
  isMethod,
  isTarget,
  type Logged,
  NO_REQUEST,
  NO_TIME,
  OTHER_FORMAT,
  peerIn,
  type ReadLine,
  requestLine,
  statusIn,
  toldHeader,
} from './logged.ts'
import { type Instant, instantIn } from './time.ts'

/** When it came, as Envoy and Traefik tell it; and when it was told, as all others do, when they are done. */
const START = ['start_time', 'starttime', 'startutc', 'startlocal']
const END = ['msec', 'timestamp', 'ts', 'time', 'time_iso8601', 'time_local', 'datetime', 'date']
const METHOD = ['method', 'request_method', 'requestmethod', 'http_method', 'verb']
const URLS = ['request_uri', 'requesturi', 'url', 'uri', 'path', 'request_path', 'requestpath', 'x_envoy_original_path']
const QUERY = ['args', 'query_string', 'querystring']
const STATUS = ['status', 'status_code', 'statuscode', 'response_code', 'downstreamstatus']
const PEER = [
  'client_ip',
  'clientip',
  'remote_ip',
  'remote_addr',
  'remoteaddress',
  'remote_address',
  'downstream_remote_address_without_port',
  'downstream_remote_address',
  'clienthost',
  'clientaddr',
  'client',
  'ip',
]
/** Where Caddy, pino and others keep what is about the request; headers are among it. */
const ABOUT_REQUEST = ['request', 'req', 'http_request', 'httprequest']
const ABOUT_RESPONSE = ['res', 'response']
const HEADERS = ['headers', 'request_headers', 'req_headers']

/** JSON, a line for each request: nginx, Caddy, Envoy, Traefik, pino, and whoever names things as they do. */
export function jsonReader(): ReadLine {
  return (line) => {
    const value = parsed(line)
    if (value === undefined) return OTHER_FORMAT
    const fields = fieldsOf(value)
    const asked = askedIn(fields)
    if (asked === undefined) return NO_REQUEST
    const start = instantOf(fields, START)
    const instant = start ?? instantOf(fields, END)
    if (instant === undefined) return NO_TIME
    return new JsonLine(fields, asked, instant, start === undefined)
  }
}

class JsonLine implements Logged {
  atMs: number
  readonly tookMs: number | undefined
  readonly timedAtEnd: boolean
  readonly inWholeSeconds: boolean
  readonly method: string
  readonly url: string
  readonly peer: string | undefined
  readonly status: number | undefined
  readonly #fields: Fields
  #headers: ReadonlyMap<string, unknown> | undefined

  constructor(fields: Fields, { method, url }: Asked, instant: Instant, timedAtEnd: boolean) {
    this.#fields = fields
    this.atMs = instant.ms
    this.inWholeSeconds = instant.inWholeSeconds
    this.timedAtEnd = timedAtEnd
    this.tookMs = tookIn(fields) ?? durationIn(fields)
    this.method = method
    this.url = url
    this.status = statusIn(fieldOf(fields, STATUS))
    this.peer = peerIn(String(fieldOf(fields, PEER) ?? '')) ?? lastHop(this.header('x-forwarded-for') ?? '')
  }

  header(name: string): string | undefined | null {
    this.#headers ??= headersIn(this.#fields)
    const told = this.#headers.get(name)
    if (told !== undefined) return toldHeader(told)
    const among = headerAmong(this.#fields, name)
    // Who tells headers tells all of them.
    return among === null && this.#headers !== NO_HEADERS ? undefined : among
  }
}

const NO_HEADERS: ReadonlyMap<string, unknown> = new Map()

type Values = Readonly<Record<string, unknown>>

function isValues(value: unknown): value is Values {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function parsed(line: string): Values | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return isValues(value) ? value : undefined
  } catch {
    return undefined
  }
}

function fieldsOf(value: Values): Fields {
  const fields = new Map<string, unknown>()
  const add = (values: Values) => {
    for (const [name, each] of Object.entries(values)) {
      const spelling = spelled(name)
      if (!fields.has(spelling)) fields.set(spelling, each)
    }
  }
  add(value)
  for (const name of ABOUT_REQUEST) {
    const inner = fields.get(name)
    if (isValues(inner)) add(inner)
  }
  for (const name of ABOUT_RESPONSE) {
    const inner = fields.get(name)
    // Its headers are not those of the request.
    if (isValues(inner) && fieldOf(fields, STATUS) === undefined) fields.set('status', inner.statusCode ?? inner.status)
  }
  return fields
}

function headersIn(fields: Fields): ReadonlyMap<string, unknown> {
  const headers = fieldOf(fields, HEADERS)
  if (!isValues(headers)) return NO_HEADERS
  const all = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const))
  const host = fields.get('host')
  // Go keeps the host apart from the headers.
  if (!all.has('host') && typeof host === 'string') all.set('host', host)
  return all
}

interface Asked {
  readonly method: string
  readonly url: string
}

function askedIn(fields: Fields): Asked | undefined {
  const line = fieldOf(fields, ['request', 'requestline', 'request_line'])
  if (typeof line === 'string') return requestLine(line)
  const [method, target, query] = [fieldOf(fields, METHOD), fieldOf(fields, URLS), fieldOf(fields, QUERY)]
  if (!isMethod(method) || !isTarget(target)) return undefined
  const url = typeof query === 'string' && !target.includes('?') ? `${target}?${query}` : target
  return { method, url }
}

function instantOf(fields: Fields, names: readonly string[]): Instant | undefined {
  for (const name of names) {
    const instant = instantIn(fields.get(name))
    if (instant !== undefined) return instant
  }
  return undefined
}

/** Whose `duration` it is tells the unit: Traefik's, Envoy's, Caddy's. Of others it is not known, and not guessed. */
function durationIn(fields: Fields): number | undefined {
  const duration = fields.get('duration')
  if (fields.has('startutc')) return lengthOf(duration, 1e-6)
  if (fields.has('start_time')) return lengthOf(duration, 1)
  return fields.has('ts') && isValues(fields.get('request')) ? lengthOf(duration, 1000) : undefined
}
