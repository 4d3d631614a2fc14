import { type Fields, headerAmong, spelled, tookIn } from './fields.ts'
import {
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
import { Instants } from './time.ts'

/** A text in quotes, in which others are escaped. */
export const QUOTED = '"((?:[^"\\\\]|\\\\.)*)"'
/** Apache's `vhost_combined` has the host in front. Which fields come behind depends on who set it up. */
const LINE = new RegExp(
  `^(?:([^\\s:]+):\\d+ )?(\\S+) \\S+ .*?\\[([^\\]"]{20,40})\\] ${QUOTED} (\\d{3}|-) (?:\\d+|-)(?: ${QUOTED} ${QUOTED})?(?: (.*))?$`,
)

/** The common and combined formats of Apache and nginx, with more fields behind them. */
export function combinedReader(): ReadLine {
  const instants = new Instants()
  return (line) => {
    const found = LINE.exec(line)
    if (found === null) return OTHER_FORMAT
    const [, host, peer = '', time = '', request = '', status, referer, agent, rest] = found
    const instant = instants.of(time)
    if (instant === undefined) return NO_TIME
    const asked = requestLine(unescaped(request))
    if (asked === undefined) return NO_REQUEST
    const more = rest === undefined || rest === '' ? NONE : fieldsIn(rest)
    const headers = { host, referer, agent, more }
    const { ms: atMs, inWholeSeconds } = instant
    const told = { method: asked.method, url: asked.url, peer: peerIn(peer), status: statusIn(status) }
    return new CombinedLine({ atMs, tookMs: tookIn(more), timedAtEnd: true, inWholeSeconds, ...told }, headers)
  }
}

interface Headers {
  readonly host: string | undefined
  readonly referer: string | undefined
  readonly agent: string | undefined
  readonly more: Fields
}

class CombinedLine implements Logged {
  atMs: number
  readonly tookMs: number | undefined
  readonly timedAtEnd: boolean
  readonly inWholeSeconds: boolean
  readonly method: string
  readonly url: string
  readonly peer: string | undefined
  readonly status: number | undefined
  readonly #headers: Headers

  constructor(told: Omit<Logged, 'header'>, headers: Headers) {
    this.atMs = told.atMs
    this.tookMs = told.tookMs
    this.timedAtEnd = told.timedAtEnd
    this.inWholeSeconds = told.inWholeSeconds
    this.method = told.method
    this.url = told.url
    this.peer = told.peer
    this.status = told.status
    this.#headers = headers
  }

  header(name: string): string | undefined | null {
    const { host, referer, agent, more } = this.#headers
    if (name === 'referer' && referer !== undefined) return toldHeader(unescaped(referer))
    if (name === 'user-agent' && agent !== undefined) return toldHeader(unescaped(agent))
    if (name === 'host' && host !== undefined) return host
    return headerAmong(more, name)
  }
}

const NONE: Fields = new Map()
const FIELD = new RegExp(`([\\w.-]+)[=:]${QUOTED}|([\\w.-]+)[=:](\\S*)|${QUOTED}|(\\S+)`, 'g')
const ADDRESSES = /^(?:-|[\da-f.:]+(?:, ?[\da-f.:]+)*)$/i
const MOST_FIELDS = 100

/** What stands behind: `name=value`; a text of addresses is X-Forwarded-For, as nginx has it in its `main`, and a number with a
 *  point the time that the request took. */
function fieldsIn(text: string): Fields {
  const fields = new Map<string, string>()
  const add = (name: string, value: string) => {
    if (!fields.has(name) && fields.size < MOST_FIELDS) fields.set(name, value)
  }
  for (const [, name, quoted, other, plain = '', alone, word = ''] of text.matchAll(FIELD)) {
    if (name !== undefined) add(spelled(name), unescaped(quoted ?? ''))
    else if (other !== undefined) add(spelled(other), plain)
    else if (alone !== undefined && ADDRESSES.test(alone)) add('x_forwarded_for', alone)
    else if (/^\d+\.\d+$/.test(word)) add('request_time', word)
  }
  return fields
}

const PLAIN: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', b: '\b', v: '\v' }

/** Servers write what could be mistaken as `\x22` or `\"`. */
export function unescaped(text: string): string {
  if (!text.includes('\\')) return text
  return text.replace(/\\(?:x([\da-f]{2})|(.))/gi, (_, digits: string | undefined, char: string) =>
    digits === undefined ? (PLAIN[char] ?? char) : String.fromCharCode(Number.parseInt(digits, 16)),
  )
}
