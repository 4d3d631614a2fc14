import { HeadgateError, show } from '../errors.ts'
import { type Address, formatAddress, holdsIpv4, maskOf, parseAddress, parsePlain } from './address.ts'

/** Which proxies are believed: so many in front, or those at these addresses. */
export type TrustProxy = number | 'loopback' | readonly string[]
export type Trust = { readonly hops: number } | { readonly ranges: readonly Range[] }
interface Range {
  readonly address: Address
  readonly prefix: number
}

/** The header that the proxies write. Only one is read: clients can send the other, and no proxy would mend it. */
export type ProxyHeader = 'x-forwarded-for' | 'forwarded'

export interface Chain {
  /** The other end of the connection; undefined where there is none to name, as on a Unix socket. */
  readonly peer: string | undefined
  /** The header's lines, joined by commas. */
  readonly forwarded: string | undefined
  readonly trust: Trust | undefined
  readonly header?: ProxyHeader
}

export interface Client {
  /** In the one form that an address has; undefined if nobody trusted named one. */
  readonly address: string | undefined
  /** Somebody trusted named a client that is no address. */
  readonly nonsense: boolean
  /** How many entries of the header lie between the peer and the client, with the client. */
  readonly hops: number
}

const MOST_HOPS = 32
const LONGEST_HEADER = 8192
const LOOPBACK = ['127.0.0.0/8', '::1']
/** The widest network that has one owner is fc00::/7; two of 0.0.0.0/1 are everything, and 2000::/3 is all that is routed. */
const WIDEST = 7

/** Finds the client from the nearest hop on: each trusted one says who came to it, the first that is not trusted is the
 *  client. What is left of it was written by the client and is never looked at. */
export function clientAddress({ peer, forwarded = '', trust, header = 'x-forwarded-for' }: Chain): Client {
  const previous = entriesFromRight(forwarded, header)
  let address = parseAddress(peer)
  let nonsense = peer !== undefined && address === undefined
  let hops = 0
  while (!nonsense && isTrusted(trust, address, hops)) {
    const entry = previous()
    if (entry === undefined) break
    const named = parseAddress(header === 'forwarded' ? forOf(entry) : entry)
    nonsense = named === undefined
    if (named === undefined) break
    address = named
    hops++
  }
  return { address: address && formatAddress(address), nonsense, hops }
}

function isTrusted(trust: Trust | undefined, address: Address | undefined, hops: number): boolean {
  if (trust === undefined || hops >= MOST_HOPS) return false
  if ('hops' in trust) return hops < trust.hops
  return address !== undefined && trust.ranges.some((range) => covers(range, address))
}

function covers({ address: first, prefix }: Range, address: Address): boolean {
  if (first.length !== address.length) return false
  return first.every((group, i) => ((group ^ (address[i] as number)) & maskOf(i, prefix)) === 0)
}

/** Hands out the entries of a header from the right, without those that are empty; undefined when there are no more. */
function entriesFromRight(value: string, header: ProxyHeader): () => string | undefined {
  const text = value.slice(-LONGEST_HEADER)
  const isCut = text.length < value.length
  let end = text.length
  return function previous() {
    while (end > 0) {
      const comma = header === 'forwarded' ? commaOutsideQuotes(text, end) : text.lastIndexOf(',', end - 1)
      // Half an entry may look like a whole one.
      const entry = comma < 0 && isCut ? 'cut' : text.slice(comma + 1, end).trim()
      end = comma
      if (entry !== '') return entry
    }
    return undefined
  }
}

/** Searches from the right: from the left, a quote that the client does not close would hide what the proxies add. */
function commaOutsideQuotes(text: string, end: number): number {
  let quoted = false
  for (let i = end - 1; i >= 0; i--) {
    if (text[i] === '"' && !(quoted && isEscaped(text, i))) quoted = !quoted
    else if (text[i] === ',' && !quoted) return i
  }
  return -1
}

function isEscaped(text: string, at: number): boolean {
  let first = at
  while (text[first - 1] === '\\') first--
  return (at - first) % 2 === 1
}

/** A parameter of a Forwarded element (RFC 7239), or none, with what ends it. Values with `:` or `[` should be quoted, but not
 *  all are. Two runs of blanks side by side would take time by the square of their length. */
const PARAMETER = /[ \t]*(?:;|$)|[ \t]*([^\s=;"]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))[ \t]*(?:;|$)/y

/** The value of `for`; undefined if there is none, or more than one, or something that is no parameter. */
function forOf(element: string): string | undefined {
  let found: string | undefined
  PARAMETER.lastIndex = 0
  while (PARAMETER.lastIndex < element.length) {
    const parameter = PARAMETER.exec(element)
    if (parameter === null) return undefined
    const [, name, quoted, token = ''] = parameter
    if (name?.toLowerCase() !== 'for') continue
    if (found !== undefined) return undefined
    found = quoted?.replace(/\\(.)/g, '$1') ?? token
  }
  return found
}

/** Reads the option `trustProxy`. Trusting everybody is refused: each request could then name a client of its own. */
export function trustOf(option: TrustProxy): Trust {
  if (option === 'loopback') return { ranges: LOOPBACK.map(rangeOf) }
  if (isList(option))
    return { ranges: option.flatMap((text) => (text === 'loopback' ? LOOPBACK : [text])).map(rangeOf) }
  if (isEverything(option)) throw trustsEverything(option)
  if (Number.isInteger(option) && option >= 1 && option <= MOST_HOPS) return { hops: option }
  throw new HeadgateError(
    'HG_OPTION_INVALID',
    `trustProxy is ${show(option)}: give the number of proxies in front (1 to ${MOST_HOPS}), 'loopback', or a list such as ['10.0.0.0/8']; leave it out if there is no proxy`,
    option,
  )
}

function isList(option: TrustProxy): option is readonly string[] {
  return Array.isArray(option)
}

function isEverything(value: unknown): boolean {
  return value === true || value === Infinity || value === '*'
}

function rangeOf(text: string): Range {
  if (isEverything(text)) throw trustsEverything(text)
  const range = parseRange(text)
  if (range === undefined) {
    const advice = 'write it like 192.0.2.1, 10.0.0.0/8, 2001:db8::/32 or loopback'
    throw new HeadgateError(
      'HG_ADDRESS_INVALID',
      `trustProxy lists ${show(text)}, which is no address: ${advice}`,
      text,
    )
  }
  const { address, prefix } = range
  if (prefix < WIDEST || ipv4Prefixes.some((ipv4) => covers(range, ipv4))) throw trustsEverything(text)
  const first = address.map((group, i) => group & maskOf(i, prefix))
  if (first.every((group, i) => group === address[i])) return range
  const hint = `did you mean "${formatAddress(first)}/${prefix}" or "${formatAddress(address)}"?`
  throw new HeadgateError(
    'HG_ADDRESS_INVALID',
    `trustProxy lists ${show(text)}, which starts amid its range; ${hint}`,
    text,
  )
}

/** Where IPv6 starts to stand for IPv4: a range around one of these has all of it. */
const ipv4Prefixes: readonly Address[] = [
  [0, 0, 0, 0, 0, 0xffff, 0, 0],
  [0x64, 0xff9b, 0, 0, 0, 0, 0, 0],
]

/** IPv6 ranges that stand for IPv4 become that, as the addresses do that are looked up in them. */
function parseRange(text: unknown): Range | undefined {
  const [, first = '', bits] = /^([^/]+)(?:\/(0|[1-9]\d{0,2}))?$/.exec(typeof text === 'string' ? text : '') ?? []
  const address = parsePlain(first)
  if (address === undefined) return undefined
  const width = 16 * address.length
  const prefix = bits === undefined ? width : Number(bits)
  if (prefix > width) return undefined
  return width === 128 && prefix >= 96 && holdsIpv4(address)
    ? { address: address.slice(6), prefix: prefix - 96 }
    : { address, prefix }
}

function trustsEverything(value: unknown): HeadgateError {
  const why = 'believes what clients say about themselves, so that each request may count for another'
  const fix = "give the number of proxies in front, their addresses, or 'loopback'"
  return new HeadgateError('HG_TRUST_EVERYTHING', `trustProxy with ${show(value)} ${why}: ${fix}`, value)
}
