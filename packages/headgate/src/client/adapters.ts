// For HTTP clients that are not `fetch`. Known by shape only; none of them is a dependency.
import type { NextTurn, Turn } from './call.ts'
import type { PoliteFetch } from './fetch.ts'
import type { PoliteInit } from './options.ts'
import { parseJson } from './peek.ts'
import { isSignal, oneOf } from './undici.ts'

/** Options of an axios instance (1.12 and newer) whose calls go through the client: `axios.create(axiosOptions(polite))`. */
export function axiosOptions(polite: PoliteFetch): { adapter: 'fetch'; env: { fetch: PoliteFetch } } {
  return { adapter: 'fetch', env: { fetch: polite } }
}

interface GotOptions {
  readonly url?: string | URL | undefined
  readonly method?: string
  readonly context: Record<string, unknown>
  readonly headers: Record<string, string | string[] | undefined>
  readonly body?: unknown
  readonly isStream?: boolean
  readonly signal?: unknown
  readonly retry: { statusCodes?: number[] | undefined }
}
interface GotResponse {
  readonly statusCode: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly rawBody?: Uint8Array
  readonly request: { readonly options: GotOptions }
}

const [TURN, NEXT] = ['headgateTurn', 'headgateNext']
const turnOf = ({ context }: GotOptions) => context[TURN] as Turn | undefined

/**
 * Hooks in the manner of got 14: each request waits for its turn, its answer is learnt from, and it is repeated as those of `polite` are if that was
 * refused or failed by a status. Calls without an answer are repeated by got.
 */
export function gotHooks(polite: PoliteFetch) {
  return {
    beforeRequest: [
      async (options: GotOptions): Promise<void> => {
        // What came of the last attempt nobody said.
        turnOf(options)?.failed()
        const next = (options.context[NEXT] as NextTurn | undefined) ?? (() => firstTurn(polite, options))
        const turn = await next()
        Object.assign(options.context, { [TURN]: turn, [NEXT]: undefined })
        Object.assign(options.headers, turn.headers)
        options.retry.statusCodes = []
        // Of a stream no hook is told what was answered.
        if (options.isStream === true) turn.left()
      },
    ],
    beforeRedirect: [
      (options: GotOptions, response: Omit<GotResponse, 'request'>): void => {
        turnOf(options)?.answered(response.statusCode, (name) => oneOf(response.headers[name]))
      },
    ],
    afterResponse: [
      <R extends GotResponse>(response: R, again: (options: { preserveHooks: boolean }) => never): R => {
        const { options } = response.request
        const next = turnOf(options)?.answered(
          response.statusCode,
          (name) => oneOf(response.headers[name]),
          json(response),
        )
        if (next === undefined) return response
        options.context[NEXT] = next
        return again({ preserveHooks: true })
      },
    ],
    beforeError: [
      <E extends { readonly name: string; readonly options: GotOptions }>(error: E): E => {
        if (error.name === 'AbortError' || error.name === 'CancelError') turnOf(error.options)?.left()
        else turnOf(error.options)?.failed(error)
        return error
      },
    ],
  }
}

function firstTurn(
  polite: PoliteFetch,
  { url = '', method = 'GET', headers, body, signal }: GotOptions,
): Promise<Turn> {
  const fields = Object.entries(headers).flatMap(([name, value]) => (value === undefined ? [] : [[name, oneOf(value)]]))
  return polite.turn(url, {
    method,
    headers: fields as [string, string][],
    ...(body !== undefined && { body: body as PoliteInit['body'] }),
    ...(isSignal(signal) && { signal }),
  } as PoliteInit)
}

function json({ rawBody, headers }: GotResponse): unknown {
  if (rawBody === undefined || !/json/i.test(oneOf(headers['content-type']) ?? '')) return undefined
  return parseJson([rawBody])
}
