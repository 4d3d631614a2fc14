import type { CountWhen, ResponseInfo } from '../charge.ts'
import type { Decision } from '../decision.ts'
import type { CommonOptions } from '../gate-types.ts'
import type { HeaderOption } from '../headers/format.ts'
import type { Key } from '../key.ts'
import type { Bytes } from '../metering.ts'
import type { AnyLimit, CheckedLimit, LimitOptions } from '../named-limit.ts'
import type { Overload, Priority } from '../overload/types.ts'
import type { Store } from '../stores/store.ts'
import type { ProxyHeader, TrustProxy } from './client-address.ts'

export type { TrustProxy }

/** Who a request is counted for, in a word. `jwt:` reads a claim of the bearer token as it is: the app has to verify it. */
export type Word =
  | 'ip'
  | 'api-key'
  | 'method'
  | 'path'
  | 'route'
  | 'host'
  | `header:${string}`
  | `cookie:${string}`
  | `query:${string}`
  | `jwt:${string}`

/** One part of a key that several make up. */
export type ByPart<R> = Word | ((request: R) => string | number | null | undefined)
export type By<R> = Word | readonly ByPart<R>[] | ((request: R) => Key | null | undefined)

export type HttpLimit<R> = Omit<LimitOptions<R>, 'by' | 'cost'> & {
  /** A number for each request, or its size: of both bodies, of the request's, or of the response's. Bodies are counted while
   *  they pass, and cut off when nothing is left. */
  readonly cost?: Bytes | ((request: R) => number)
  /** Whose limit it is. A limit alone counts by the client's address, a named one without this is one counter for everybody. */
  readonly by?: By<R>
}

/** A response that is over, as `settle` sees it. */
export interface Ended extends ResponseInfo {
  header(name: string): string | undefined
}

/** What a denied request is answered with instead of a problem: text, or an object as JSON. */
export type Message = string | object | ((decision: Decision<unknown>) => string | object)

/** What all middlewares understand beside the options of a gate. `A` are the arguments of the framework's handlers. */
export interface HttpExtras<R, A extends readonly unknown[]> {
  /** Which header fields are sent, by style or by a function; the current draft and X-RateLimit unless said otherwise. */
  readonly headers?: HeaderOption
  /** Answers a denied request, whose status and headers are set. */
  readonly onDenied?: (decision: Decision<unknown>, ...args: A) => unknown
  readonly message?: Message
  /** URL of the page that explains your limits to callers, told in problems; that of the RateLimit draft unless said otherwise. */
  readonly docs?: string
  /** In place of 429, and of 503 where it is us who are short. */
  readonly status?: number
  /** Holds back a request over its limit for up to so long, in ms, instead of refusing it. */
  readonly delay?: number | { readonly maxMs: number }
  /** Up to so much is added to the wait that a denied caller is told, so that not all come back at once. */
  readonly retryJitterMs?: number
  /** Who may say in a header whom a request comes from: how many proxies stand in front, or their addresses. */
  readonly trustProxy?: TrustProxy
  /** The one header that those proxies write; any other is the client's own invention. */
  readonly forwardedHeader?: ProxyHeader
  /** How many bits of an IPv6 address are one client: 64 is what a home gets. */
  readonly ipv6Prefix?: number
  /** Counts a request only if its response says so: failed logins, say. Until then it is looked at, not charged. */
  readonly countWhen?: CountWhen
  /** What a request cost, once its response is known; undefined leaves the charge, 0 gives it back. */
  readonly settle?: (response: Ended, request: R) => number | Readonly<Record<string, number>> | undefined
  /** Lets in as much as this process can do: who does not fit waits in its queue or gets 503, and what a limit charged is given
   *  back. */
  readonly overload?: Overload
  /** How much requests matter to `overload`; unless said here as `priority` of limits says, else normal. */
  readonly priority?: Priority | ((request: R) => Priority | undefined)
  /** In which time from when it came a request has to be done to be of use: one that cannot be is refused at once, as is one that
   *  `delay` would hold back for longer. */
  readonly deadlineMs?: number | ((request: R) => number | undefined)
}

export const extraKeys = [
  'gate',
  'headers',
  'onDenied',
  'message',
  'docs',
  'status',
  'delay',
  'retryJitterMs',
  'trustProxy',
  'forwardedHeader',
  'ipv6Prefix',
  'countWhen',
  'settle',
  'overload',
  'priority',
  'deadlineMs',
] as const

/** A gate of any kind, made before. */
export interface AnyGate {
  take(request: never, options?: { countWhen?: CountWhen }): unknown
  peek(request: never): unknown
}

export type GivenGate<R, A extends readonly unknown[]> = HttpExtras<R, A> & { readonly gate: AnyGate }
type OwnGate<R, A extends readonly unknown[]> = HttpExtras<R, A> & CommonOptions<Store> & { readonly gate?: never }
/** What is said of a limit alone is said beside what the middleware understands: there `overload` and `priority` are its own. */
type LoneLimit<R> = Omit<HttpLimit<R>, 'overload' | 'priority'>
export type OneHttpLimit<R, A extends readonly unknown[]> = OwnGate<R, A> & LoneLimit<R> & { readonly limits?: never }
export type ManyHttpLimits<R, A extends readonly unknown[]> = OwnGate<R, A> & {
  readonly limits: { readonly [name: string]: HttpLimit<R> }
  readonly limit?: never
  readonly atOnce?: never
}

/** Overload protection without any limit; `by` then says among whom slots go round. */
export type OnlyOverload<R, A extends readonly unknown[]> = HttpExtras<R, A> & {
  readonly overload: Overload
  readonly by?: By<R>
  readonly gate?: never
  readonly limit?: never
  readonly limits?: never
  readonly atOnce?: never
}

export type HttpOptions<R, A extends readonly unknown[]> =
  | GivenGate<R, A>
  | OneHttpLimit<R, A>
  | ManyHttpLimits<R, A>
  | OnlyOverload<R, A>

/** How every middleware is made, `M`: wrong limit texts are type errors, as with `createGate`. */
export interface Headgate<R, A extends readonly unknown[], M> {
  <const L extends AnyLimit>(options: OneHttpLimit<R, A> & { readonly limit: L & CheckedLimit<L> }): M
  (options: OneHttpLimit<R, A> & { readonly atOnce: number; readonly limit?: never }): M
  <const L extends { readonly [name: string]: { readonly limit?: AnyLimit } }>(
    options: ManyHttpLimits<R, A> & {
      readonly limits: L & { [Name in keyof L]: { readonly limit?: CheckedLimit<L[Name]['limit']> } }
    },
  ): M
  (options: GivenGate<R, A>): M
  (options: OnlyOverload<R, A>): M
}
