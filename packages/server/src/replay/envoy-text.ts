import { QUOTED, unescaped } from './combined.ts'
import { lengthOf } from './fields.ts'
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

/** Start, request, status, flags and details, bytes in and out, milliseconds; then by the quotes: X-Forwarded-For, agent, id, authority. */
const LINE = new RegExp(
  `^\\[([^\\]]{20,40})\\] ${QUOTED} (\\d{1,3}) .*?(\\d+) (\\d+) (\\d+|-) (?:\\d+|-) ${QUOTED} ${QUOTED} ${QUOTED} ${QUOTED}`,
)

/** What Envoy writes unless it is told otherwise. */
export function envoyReader(): ReadLine {
  const instants = new Instants()
  return (line) => {
    const [all, time = '', request = '', status, , , took, forwarded = '', agent = '', , authority = ''] =
      LINE.exec(line) ?? []
    if (all === undefined) return OTHER_FORMAT
    const instant = instants.of(time)
    if (instant === undefined) return NO_TIME
    const asked = requestLine(unescaped(request))
    if (asked === undefined) return NO_REQUEST
    const headers = new Map([
      ['x-forwarded-for', forwarded],
      ['user-agent', agent],
      ['host', authority],
    ])
    return {
      atMs: instant.ms,
      tookMs: lengthOf(took, 1),
      timedAtEnd: false,
      inWholeSeconds: instant.inWholeSeconds,
      method: asked.method,
      url: asked.url,
      peer: lastHop(forwarded),
      status: statusIn(status),
      header: (name) => (headers.has(name) ? toldHeader(unescaped(headers.get(name) as string)) : null),
    } satisfies Logged
  }
}

/** Envoy puts who came to it behind what it was told. */
export function lastHop(forwarded: string): string | undefined {
  return peerIn(forwarded.slice(forwarded.lastIndexOf(',') + 1).trim())
}
