// For HTTP clients that are not `fetch`. Known by shape only; none of them is a dependency.
import type { Turn } from './call.ts'
import type { PoliteFetch } from './fetch.ts'

/** Options of an axios instance (1.12 and newer) whose calls go through the client: `axios.create(axiosOptions(polite))`. */
export function axiosOptions(polite: PoliteFetch): { adapter: 'fetch'; env: { fetch: PoliteFetch } } {
  return { adapter: 'fetch', env: { fetch: polite } }
}

interface GotOptions {
  readonly url?: string | URL | undefined
  readonly method?: string
  readonly context: Record<string, unknown>
}
interface GotResponse {
  readonly statusCode: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly request: { readonly options: GotOptions }
}

const TURN = 'headgateTurn'

/** Hooks in the manner of got: each request waits for its turn, and its answer is learnt from. Repeating stays with got. */
export function gotHooks(polite: PoliteFetch) {
  return {
    beforeRequest: [
      async (options: GotOptions): Promise<void> => {
        options.context[TURN] = await polite.turn(options.url ?? '', { method: options.method ?? 'GET' })
      },
    ],
    afterResponse: [
      <R extends GotResponse>(response: R): R => {
        const turn = response.request.options.context[TURN] as Turn | undefined
        turn?.answered(response.statusCode, (name) => oneOf(response.headers[name]))
        return response
      },
    ],
    beforeError: [
      <E extends { readonly options: GotOptions }>(error: E): E => {
        ;(error.options.context[TURN] as Turn | undefined)?.failed()
        return error
      },
    ],
  }
}

interface DispatchOptions {
  readonly origin?: string | URL | undefined
  readonly path: string
  readonly method: string
}
type Fields = Readonly<Record<string, string | string[] | undefined>>
/** Has the methods below, as undici calls them. */
type DispatchHandler = object
type Dispatch<O, H> = (options: O, handler: H) => boolean

const methods = [
  'onRequestStart',
  'onRequestUpgrade',
  'onResponseStart',
  'onResponseData',
  'onResponseEnd',
  'onResponseError',
] as const

/** An interceptor of undici 7 and newer: `new Agent().compose(undiciInterceptor(polite))`. Repeating stays with undici's own. */
export function undiciInterceptor(polite: PoliteFetch) {
  return <O extends DispatchOptions, H extends DispatchHandler>(dispatch: Dispatch<O, H>): Dispatch<O, H> =>
    (options, handler) => {
      const url = `${String(options.origin ?? '').replace(/\/$/, '')}${options.path}`
      polite.turn(url, { method: options.method }).then(
        (turn) => void dispatch(options, listening(handler, turn) as H),
        (reason) => call(handler, 'onResponseError', [undefined, reason]),
      )
      return true
    }
}

/** The handler, with the turn told what comes. Its methods are called on itself: they may have private fields. */
function listening(handler: DispatchHandler, turn: Turn): DispatchHandler {
  const forward = Object.fromEntries(
    methods.map((method) => [method, (...args: unknown[]) => call(handler, method, args)]),
  )
  return {
    ...forward,
    onResponseStart(controller: unknown, status: number, headers: Fields, message?: string) {
      // What comes before the answer proper says nothing about it.
      if (status >= 200) turn.answered(status, (name) => oneOf(headers[name]))
      return call(handler, 'onResponseStart', [controller, status, headers, message])
    },
    onResponseError(controller: unknown, error: unknown) {
      turn.failed()
      return call(handler, 'onResponseError', [controller, error])
    },
  }
}

function call(handler: DispatchHandler, method: (typeof methods)[number], args: unknown[]): unknown {
  const own = (handler as Record<string, ((...args: unknown[]) => unknown) | undefined>)[method]
  return own?.apply(handler, args)
}

/** Field lines of one name, joined. */
function oneOf(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value
}
