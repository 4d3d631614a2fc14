import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { ConnectionOptions } from 'node:tls'
import type { BreakerOptions, BreakerState, Priority, ThrottleOptions } from 'headgate/overload'

/**
 * Header fields as they stand in a message: name, value, name, value. Names keep their case, and fields that come twice stand
 * twice. Hooks add fields by pushing a name and a value.
 */
export type RawHeaders = string[]

/** How the endpoints of a pool are asked whether they can serve. */
export interface HealthOptions {
  readonly path: string
  readonly intervalMs: number
  readonly timeoutMs: number
  /** So many good answers in a row (2xx or 3xx) bring an endpoint back. */
  readonly healthyAfter: number
  /** So many bad ones in a row take it out. */
  readonly unhealthyAfter: number
}

/** When a request that failed is sent again, beside those that nobody has seen. */
export interface RetryOptions {
  /** How often it is sent at most, the first time included. */
  readonly attempts: number
  /** So many for each request, over all of them. */
  readonly ratio: number
  /** And so many a second besides. */
  readonly minPerSecond: number
}

/** Endpoints that serve the same, and which requests go to them. */
export interface UpstreamOptions {
  readonly name: string
  /** `http://` or `https://`; a path stands in front of the path of every request. */
  readonly urls: readonly string[]
  /** Pools are asked in order, the first that fits serves; absent: fits every request. The path comes without its query, the
   *  host without its port and in lower case. */
  readonly match?: { readonly path?: (path: string) => boolean; readonly host?: (host: string) => boolean }
  /** `preserve` hands on the Host of the client, `upstream` names the endpoint's, `{ set }` is fixed. Default: preserve. */
  readonly host?: 'preserve' | 'upstream' | { readonly set: string }
  /** Until a connection stands. Default: 5,000. */
  readonly connectTimeoutMs?: number
  /** From the end of the request to the head of the response. Measured coarsely: up to a second more. Default: 60,000. */
  readonly headersTimeoutMs?: number
  /** Between two pieces of the response. As coarse as the one before. Default: 60,000. */
  readonly bodyTimeoutMs?: number
  /** Without a byte in either direction, of a request or a WebSocket, whoever is to blame. 0: for ever. Default: 120,000, or as
   *  long as the two before if that is longer. */
  readonly idleTimeoutMs?: number | undefined
  /** For `https` endpoints: authorities, a client certificate. */
  readonly tls?: Pick<ConnectionOptions, 'ca' | 'cert' | 'key' | 'rejectUnauthorized'>
  readonly health?: HealthOptions
  /** Takes out an endpoint that fails most of what it is sent: does not answer, or answers 502, 503 or 504. Absent: none is. */
  readonly breaker?: Omit<BreakerOptions, 'onChange' | 'clock'>
  /** Sends not much more than the upstream accepts; 429, 502, 503, 504 and no answer are refusals. Absent: sends all. */
  readonly throttle?: Omit<ThrottleOptions, 'random' | 'clock'>
  /** For requests that do the same twice as once, and whose body is still here. Absent: what was answered is never sent again. */
  readonly retries?: RetryOptions
}

/** What is to be believed of the peer's X-Forwarded-*, Forwarded and X-Real-IP. */
export interface Peer {
  /** Address of the client as far as it is known; told to the upstream as X-Real-IP. */
  readonly clientIp: string
  /** What is kept of the peer's X-Forwarded-For, the peer itself not included. Absent: the peer is not trusted with any of these. */
  readonly chain?: string
  /** What is kept of its Forwarded; absent: that is made of the chain. A client can send the one that the peer does not write. */
  readonly forwarded?: string
}

export interface ProxyOptions {
  readonly upstreams: readonly UpstreamOptions[]
  /** A larger request body is refused with 413. Default: no bound. Bodies above 16 KB are streamed, smaller ones sent on whole. */
  readonly maxBodyBytes?: number
  /** Default: nobody is trusted. */
  readonly trust?: (req: IncomingMessage) => Peer
  /** The name to stand in Via, both ways. Absent: no Via is added. */
  readonly via?: string
  /** Told when an endpoint is taken out or comes back. */
  readonly onHealth?: (change: { readonly upstream: string; readonly url: string; readonly healthy: boolean }) => void
  /** Told when the breaker of an endpoint changes. */
  readonly onBreaker?: (change: BreakerNews) => void
}

export interface BreakerNews {
  readonly upstream: string
  readonly url: string
  readonly from: BreakerState
  readonly to: BreakerState
}

export type ProblemCode =
  | 'bad_request'
  | 'no_route'
  | 'request_timeout'
  | 'body_too_large'
  | 'over_limit'
  | 'upstream_unreachable'
  | 'upstream_failed'
  | 'no_upstream'
  | 'upstream_overloaded'
  | 'upstream_timeout'

/** How a request ended. */
export interface Outcome {
  /** 0 when the client left before there was an answer; 101 for a WebSocket. */
  readonly status: number
  /** Who broke off what was under way. An answer of our own (502, 504, ...) is complete, hence `false`. */
  readonly aborted: 'client' | 'upstream' | false
  /** What went wrong, when something did and the client did not just leave. */
  readonly code?: ProblemCode
  /** Bytes of the bodies: from the client, and to it. */
  readonly bytesIn: number
  readonly bytesOut: number
  /** From the request's leaving to the head of the response; without one, to the failure. 0: no upstream was asked. */
  readonly upstreamMs: number
}

/**
 * Answers in place of what does not pass, and says with which status. With `ends` false the answer is complete, but the response left
 * open: something of the request is still to be read.
 */
export type Cut = (ends: boolean) => number

/** Undefined: it passes. A promise where that has to be asked for: what is to pass is held up meanwhile. */
export type Passes = Cut | undefined | Promise<Cut | undefined>

/** Counts bodies while they pass, or cuts them off. */
export interface BodyMeter {
  /** A piece of the request's. */
  in(bytes: number): Passes
  /** A piece of the response's. */
  out(bytes: number): Passes
  /** The length of the response's, where it is told before its head is sent. */
  expect(bytes: number): Passes
}

export interface Hooks {
  /** Absent: bodies pass uncounted. */
  readonly meter?: BodyMeter | undefined
  /** How much it matters, where an upstream is throttled. Default: normal. */
  readonly priority?: Priority
  /** All of the body, if somebody has read it before; it goes upstream from here. */
  readonly body?: Buffer | undefined
  /** What is to be believed of the peer, where that is known already; absent: `trust` says. */
  readonly peer?: Peer | undefined
  /** The header fields about to go upstream; may change them. Hooks must not throw. */
  readonly before?: ((headers: RawHeaders) => void) | undefined
  /** The head of the final response about to leave, ours included; may change the fields, not those that delimit the body. */
  onResponse?(status: number, headers: RawHeaders): void
  /** A part of the response's body, before it leaves; not to be changed or kept. */
  readonly onData?: ((chunk: Buffer) => void) | undefined
  /** Exactly once, whatever happens, when nothing of the request is left. */
  onDone?(outcome: Outcome): void
}

export interface EndpointStats {
  readonly upstream: string
  readonly url: string
  readonly inFlight: number
  readonly healthy: boolean
  /** Absent: it has none. */
  readonly breaker?: BreakerState
}

export interface ProxyStats {
  /** Requests and WebSockets under way, those on upstreams since replaced included. */
  readonly inFlight: number
  readonly upgraded: number
  readonly upstreams: readonly EndpointStats[]
}

export interface HttpProxy {
  /** Forwards one request. Meant for the events `request` and `checkContinue`, so that the upstream has its say on Expect. */
  handle(req: IncomingMessage, res: ServerResponse, hooks?: Hooks): void
  /** Forwards one WebSocket. Meant for the event `upgrade`; other protocols are served as if not asked for, where there is no body. */
  upgrade(req: IncomingMessage, socket: Duplex, head: Buffer, hooks?: Hooks): void
  /** Replaces all upstreams at once. Requests under way end where they are; endpoints that stay keep connections and health. */
  update(upstreams: readonly UpstreamOptions[]): void
  stats(): ProxyStats
  /** Refuses new requests, waits so long for those under way, breaks off the rest. */
  close(options?: { readonly graceMs?: number }): Promise<void>
}
