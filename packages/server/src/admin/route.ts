import type { IncomingMessage, ServerResponse } from 'node:http'
import { AdminError } from './problem.ts'

export type Scope = 'read' | 'write'

/** One request, as far as routes need it. */
export interface Call {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  /** What stood in the places of the route that are open. */
  readonly params: readonly string[]
  readonly query: URLSearchParams
  readonly scope: Scope
  /** `write 127.0.0.1`: who is told to have done it. */
  readonly who: string
  /** Whether keys are shown as they are. */
  readonly reveal: boolean
}

export interface Reply {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly json?: unknown
  readonly text?: string
  /** Of the text. */
  readonly type?: string
}

/** Undefined: it answers by itself. */
type Answer = Reply | undefined

export interface Route {
  readonly method: string
  /** `:` is one segment, `*` at the end any number of them. */
  readonly path: string
  readonly scope: Scope | 'open'
  run(call: Call): Answer | Promise<Answer>
}

export interface Found {
  readonly route: Route
  readonly params: readonly string[]
}

/** The route of a request; undefined if nothing is at its path. */
export function findRoute(routes: readonly Route[], method: string, path: string): Found | undefined {
  const segments = path.split('/')
  const here = routes.flatMap((route) => {
    const params = matchPath(route.path.split('/'), segments)
    return params === undefined ? [] : [{ route, params }]
  })
  if (here.length === 0) return undefined
  // Whoever asks for the head asks for what GET would get.
  const found = here.find(({ route }) => route.method === (method === 'HEAD' ? 'GET' : method))
  if (found !== undefined) return { ...found, params: found.params.map(decode) }
  const allow = here.flatMap((each) => (each.route.method === 'GET' ? ['GET', 'HEAD'] : [each.route.method]))
  throw new AdminError('method_not_allowed', `This takes ${allow.join(', ')}.`, { allow })
}

function matchPath(pattern: readonly string[], segments: readonly string[]): readonly string[] | undefined {
  const rest = pattern.at(-1) === '*' ? pattern.length - 1 : undefined
  if (rest === undefined ? segments.length !== pattern.length : segments.length < rest) return undefined
  const fixed = pattern.slice(0, rest)
  if (!fixed.every((part, i) => part === ':' || part === segments[i])) return undefined
  return segments.filter((_, i) => i >= fixed.length || fixed[i] === ':')
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    throw new AdminError('bad_path', 'A % in the path is followed by two hex digits of UTF-8; write % itself as %25.')
  }
}
