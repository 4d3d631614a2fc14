import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import {
  addressKey,
  claimOf,
  clientAddress,
  cookieOf,
  declaredBytes,
  normalPath,
  onlyOf,
  type ProxyHeader,
  queryOf,
  type Trust,
  trustOf,
} from 'headgate/http'
import type { LlmRequest } from 'headgate/llm'
import { normalHost } from '../config/glob.ts'
import type { IdentifyRules } from '../config/identify-schema.ts'
import { type TierSource, tierSource } from './tiers.ts'

/** A request as it came, whoever brought it: the gateway, the decision API, a proxy that asks for permission. */
export interface Incoming {
  readonly method: string
  /** Path and query. */
  readonly url: string
  /** The other end of the connection. */
  readonly peer: string | undefined
  /** By its lower-case name, several lines joined by commas. */
  header(name: string): string | undefined
  /** Each line of it, where they are known. */
  lines?(name: string): readonly string[]
  /** Its body comes along, so a request that tells of none has none. */
  readonly hasBody?: boolean
  /** Its header fields are those that a client sent to the proxy that asks about it, whatever that proxy adds. */
  readonly isRelayed?: boolean
}

/** A request of node:http. */
export function incomingOf(req: IncomingMessage): Incoming {
  return new NodeIncoming(req)
}

class NodeIncoming implements Incoming {
  readonly method: string
  readonly url: string
  readonly peer: string | undefined
  readonly hasBody = true
  readonly #req: IncomingMessage

  constructor(req: IncomingMessage) {
    this.method = req.method ?? 'GET'
    this.url = req.url ?? '/'
    this.peer = req.socket.remoteAddress
    this.#req = req
  }

  header(name: string): string | undefined {
    return headerIn(this.#req, name)
  }

  lines(name: string): readonly string[] {
    return linesIn(this.#req, name)
  }
}

/** Only what was sent: the object that Node keeps headers in has a `constructor` too. */
export function headerIn({ headers }: IncomingMessage, name: string): string | undefined {
  const value = headers[name]
  if (typeof value === 'string') return value
  return Array.isArray(value) ? value.join(', ') : undefined
}

/** Node joins some headers and keeps the first line of others; here are all of them. */
export function linesIn({ rawHeaders }: IncomingMessage, name: string): readonly string[] {
  const lines: string[] = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const each = rawHeaders[i] as string
    if (each.length === name.length && each.toLowerCase() === name) lines.push(rawHeaders[i + 1] as string)
  }
  return lines
}

type Source = (caller: Caller) => string | undefined

/** Who is calling, by the rules' `identify`. */
export class Identity {
  readonly trust: Trust | undefined
  readonly header: ProxyHeader
  readonly ipv6Prefix: number
  readonly caseSensitive: boolean
  readonly apiKey: readonly Source[]
  readonly user: readonly Source[]
  readonly org: readonly Source[]
  readonly tier: TierSource

  constructor(rules: IdentifyRules, caseSensitive: boolean, tiers?: TierSource) {
    const { trustedProxies, apiKey, user = [], org = [], tier } = rules
    const trusts = typeof trustedProxies !== 'object' || trustedProxies.length > 0
    this.trust = trusts ? trustOf(trustedProxies) : undefined
    this.header = rules.forwardedHeader
    this.ipv6Prefix = rules.ipv6Prefix
    this.caseSensitive = caseSensitive
    this.apiKey = apiKey.map(sourceOf).map((source) => (caller) => source(caller)?.replace(BEARER, ''))
    this.user = user.map(sourceOf)
    this.org = org.map(sourceOf)
    this.tier = tiers ?? tierSource(tier, tier !== undefined && 'from' in tier ? tier.from.map(sourceOf) : [])
  }

  /** Whether what a peer says of whom it speaks for is believed. */
  trusts(peer: string | undefined): boolean {
    const { trust, header } = this
    return trust !== undefined && clientAddress({ peer, forwarded: SOMEBODY[header], trust, header }).hops > 0
  }
}

/** Any address, to see whether it would be believed. */
const SOMEBODY = { 'x-forwarded-for': '192.0.2.1', forwarded: 'for=192.0.2.1' }

/** One request and what is known of who sent it, worked out when first asked for. */
export class Caller {
  readonly incoming: Incoming
  readonly identity: Identity
  /** Filled in by `RuleSet` before limits are asked, where that takes time. */
  resolvedTier: string | undefined
  /** By limit, where the request itself says what it costs. Filled in as the tier is, if there is a body to look into. */
  costs: ReadonlyMap<string, number> | undefined
  /** The call to a language model that it is, where a limit wants to know. */
  llm: LlmRequest | undefined
  /** What whoever asks says that it costs. */
  askedCost: number | undefined
  #path: string | undefined
  #address: string | undefined
  #ip: string | undefined
  #apiKey: string | undefined | null = null

  constructor(incoming: Incoming, identity: Identity) {
    this.incoming = incoming
    this.identity = identity
  }

  get method(): string {
    return this.incoming.method
  }

  /** In the one spelling that a path has. */
  get path(): string {
    this.#path ??= normalPath(this.incoming.url, { caseSensitive: this.identity.caseSensitive })
    return this.#path
  }

  get host(): string | undefined {
    const host = this.incoming.header('host')
    return host === undefined ? undefined : normalHost(host)
  }

  /** How long the body is said to be: 0 if there is none, undefined if nobody says. */
  get bodyBytes(): number | undefined {
    const { incoming } = this
    const said = declaredBytes((name) => incoming.header(name))
    return said === 0 && !incoming.hasBody && incoming.header('content-length') === undefined ? undefined : said
  }

  /** The client's address in full. */
  get address(): string | undefined {
    const { peer } = this.incoming
    const { trust, header } = this.identity
    if (trust === undefined && peer?.includes(':') === false) return peer
    this.#address ??= clientAddress({ peer, forwarded: this.incoming.header(header), trust, header }).address
    return this.#address
  }

  /** Whose address it is: that of a home, where those have many. */
  get ip(): string | undefined {
    this.#ip ??= addressKey(this.address, this.identity.ipv6Prefix)
    return this.#ip
  }

  get apiKey(): string | undefined {
    // Who sends two would choose which one counts, while the server behind checks the other.
    if (this.#apiKey === null) this.#apiKey = onlyOf(this.identity.apiKey.map((source) => source(this)))
    return this.#apiKey
  }

  get user(): string | undefined {
    return firstOf(this.identity.user, this)
  }

  get org(): string | undefined {
    return firstOf(this.identity.org, this)
  }

  /** By a limit that looks into requests. */
  costBy(limit: string): number {
    return this.costs?.get(limit) ?? this.askedCost ?? 1
  }

  get tier(): string | undefined {
    return this.resolvedTier ?? this.identity.tier.known(this)
  }
}

export function firstOf(sources: readonly Source[], caller: Caller): string | undefined {
  for (const source of sources) {
    const found = source(caller)
    if (found !== undefined && found !== '') return found
  }
  return undefined
}

/** `header:x-user-id` and the like. What is said twice, and not alike, is not said: servers differ in which one they take. */
export function sourceOf(text: string): Source {
  const colon = text.indexOf(':')
  const [kind, name] = [text.slice(0, colon), text.slice(colon + 1)]
  if (kind === 'header') return headerSource(name.toLowerCase())
  if (kind === 'cookie') return ({ incoming }) => cookieOf(incoming.header('cookie'), name)
  if (kind === 'query') return ({ incoming }) => queryOf(incoming.url, name)
  return ({ incoming }) => claimOf(credentialOf(headerOf(incoming, 'authorization')), name)
}

function headerSource(name: string): Source {
  if (name === 'authorization') return ({ incoming }) => credentialOf(headerOf(incoming, name))
  return ({ incoming }) => headerOf(incoming, name)
}

function headerOf(incoming: Incoming, name: string): string | undefined {
  const lines = incoming.lines?.(name)
  return lines === undefined ? incoming.header(name) : onlyOf(lines)
}

const BEARER = /^bearer[ \t]+/i

/** In one spelling: the scheme in small letters with one blank behind it, a token by itself. Servers read all spellings alike. */
function credentialOf(authorization: string | undefined): string | undefined {
  const text = authorization?.replace(BEARER, '')
  return text?.replace(/^([\w-]+)[ \t]+/, (_, scheme: string) => `${scheme.toLowerCase()} `)
}

export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
