/** An address by its bits, in groups of 16: two are IPv4, eight are IPv6. */
export type Address = readonly number[]

/** Longer text is nonsense: the longest notation, with quotes, a zone and a port, has about 70 characters. */
const LONGEST = 100
/** In brackets, if it has colons, or dotted; then perhaps a port, which may be hidden as `_port` (RFC 7239). */
const WITH_PORT = /^(?:\[([^\]]*:[^\]]*)\]|([\d.]+))(?::(?:\d{1,5}|_[\w.-]+))?$/
const WITH_ZONE = /^([^%]*:[^%]*)%[\w.~:-]+$/

/** Reads `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80` and `fe80::1%eth0`, also in quotes; port and zone are
 *  dropped. IPv6 that stands for IPv4 (mapped or NAT64) is that IPv4: the same host on both would count twice. */
export function parseAddress(text: string | undefined): Address | undefined {
  const size = read(text)
  return size === 0 ? undefined : Array.from(groups.subarray(8 - size))
}

/** The key of a client's counter: IPv4 whole, IPv6 by its prefix, for a client has a whole /64 and may use all of it. */
export function addressKey(text: string | undefined, ipv6Prefix = 64): string | undefined {
  if (typeof text !== 'string') return undefined
  // Most of what sockets report needs no more than a look at each character.
  if (readIpv4(text, 0, 6)) return text
  const slot = slotOf(text)
  if (texts[slot] === text && prefixes[slot] === ipv6Prefix) return keys[slot]
  const key = makeKey(text, ipv6Prefix)
  if (key === undefined) return undefined
  texts[slot] = text
  prefixes[slot] = ipv6Prefix
  keys[slot] = key
  return key
}

/** The keys made last, each where the end of its text says: the same clients come again and again, and a lookup is ten times
 *  as quick as the work. */
const SLOTS = 256
const texts: string[] = new Array(SLOTS).fill('')
const keys: string[] = new Array(SLOTS).fill('')
const prefixes: number[] = new Array(SLOTS).fill(-1)

function slotOf(text: string): number {
  const end = text.length
  return (text.charCodeAt(end - 1) + 5 * text.charCodeAt(end - 2) + 25 * text.charCodeAt(end - 3)) & (SLOTS - 1)
}

/** How sockets write IPv4 that came in over IPv6. */
const MAPPED = '::ffff:'

function makeKey(text: string, ipv6Prefix: number): string | undefined {
  if (text.startsWith(MAPPED) && readIpv4(text, MAPPED.length, 6)) return text.slice(MAPPED.length)
  const size = read(text)
  if (size < 8) return size === 0 ? undefined : dotted(groups[6] as number, groups[7] as number)
  for (let i = 0; i < 8; i++) groups[i] = (groups[i] as number) & maskOf(i, ipv6Prefix)
  return `${colons(groups)}/${ipv6Prefix}`
}

/** The one text of an address: dotted, or as RFC 5952 has it. */
export function formatAddress(address: Address): string {
  return address.length === 8 ? colons(address) : dotted(address[0] as number, address[1] as number)
}

/** Reads an address that has no port, zone, brackets or quotes. Here IPv6 stays IPv6, whatever it stands for. */
export function parsePlain(text: string): Address | undefined {
  const size = readPlain(text)
  return size === 0 ? undefined : Array.from(groups.subarray(8 - size))
}

/** Whether IPv6 stands for the IPv4 in its last two groups: ::ffff:0:0/96 or 64:ff9b::/96. */
export function holdsIpv4(address: ArrayLike<number>): boolean {
  for (let i = 2; i < 5; i++) if (address[i] !== 0) return false
  const [first, second, sixth] = [address[0], address[1], address[5]]
  return sixth === 0xffff ? first === 0 && second === 0 : first === 0x64 && second === 0xff9b && sixth === 0
}

/** The bits of a group that lie within a prefix. */
export function maskOf(group: number, prefix: number): number {
  const outside = 16 * (group + 1) - prefix
  return outside <= 0 ? 0xffff : outside >= 16 ? 0 : (0xffff << outside) & 0xffff
}

/** What was read last, at its end. Nothing else can run until it is used. */
const groups = new Uint16Array(8)
/** How many groups were read; 0 is nonsense. */
type Size = 0 | 2 | 8

function read(text: string | undefined): Size {
  if (typeof text !== 'string' || text.length > LONGEST) return 0
  const size = readPlain(text) || readPlain(undecorated(text))
  return size === 8 && holdsIpv4(groups) ? 2 : size
}

function readPlain(text: string): Size {
  if (readIpv4(text, 0, 6)) return 2
  return readIpv6(text) ? 8 : 0
}

/** What is left without quotes, brackets, port and zone. */
function undecorated(text: string): string {
  const quoted = text.length > 1 && text.startsWith('"') && text.endsWith('"')
  const inner = quoted ? text.slice(1, -1) : text
  const [, ipv6 = inner, ipv4] = WITH_PORT.exec(inner) ?? []
  if (ipv4 !== undefined) return ipv4
  return WITH_ZONE.exec(ipv6)?.[1] ?? ipv6
}

const [DOT, ZERO, COLON, LOWER_A] = [46, 48, 58, 97]

/** Reads four dotted decimals from a position to the end. `010` is 8 to some readers and 10 to others, so it is nonsense. */
function readIpv4(text: string, start: number, group: number): boolean {
  let bits = 0
  let part = -1
  let dots = 0
  for (let i = start; i < text.length; i++) {
    const digit = text.charCodeAt(i) - ZERO
    if (digit >= 0 && digit <= 9) {
      if (part === 0) return false
      part = part < 0 ? digit : part * 10 + digit
      if (part > 255) return false
    } else {
      if (digit !== DOT - ZERO || part < 0 || ++dots > 3) return false
      bits = (bits << 8) | part
      part = -1
    }
  }
  if (dots < 3 || part < 0) return false
  groups[group] = bits >>> 8
  groups[group + 1] = (bits << 8) | part
  return true
}

/** Reads groups of hex digits, one `::` at most, and perhaps dotted decimals for the last two. */
function readIpv6(text: string): boolean {
  let count = 0
  let gap = -1
  let group = -1
  let start = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    const digit = hexDigit(code)
    if (digit >= 0) {
      if (group < 0) start = i
      if (i - start > 3 || count > 7) return false
      group = group < 0 ? digit : group * 16 + digit
    } else if (code === COLON) {
      if (group >= 0) groups[count++] = group
      else if (i > 0 && gap < 0) gap = count
      else if (i > 0 || text.charCodeAt(1) !== COLON) return false
      group = -1
    } else return code === DOT && group >= 0 && count < 7 && readIpv4(text, start, count) && spread(count + 2, gap)
  }
  if (group >= 0) groups[count++] = group
  return (group >= 0 || gap === count) && spread(count, gap)
}

/** Moves what stands behind `::` to the end, with zeros before it. */
function spread(count: number, gap: number): boolean {
  if (gap < 0 || count === 8) return gap < 0 && count === 8
  let to = 8
  while (count > gap) groups[--to] = groups[--count] as number
  while (to > gap) groups[--to] = 0
  return true
}

function hexDigit(code: number): number {
  const digit = code - ZERO
  if (digit >= 0 && digit <= 9) return digit
  const letter = (code | 0x20) - LOWER_A
  return letter >= 0 && letter < 6 ? letter + 10 : -1
}

function dotted(high: number, low: number): string {
  return `${high >>> 8}.${high & 0xff}.${low >>> 8}.${low & 0xff}`
}

/** Groups in hex, with `::` for the first of the longest runs of zeros. */
function colons(address: ArrayLike<number>): string {
  let from = 8
  let to = 8
  for (let i = 0; i < 8; i++) {
    let end = i
    while (end < 8 && address[end] === 0) end++
    if (end - i > Math.max(1, to - from)) [from, to] = [i, end]
    i = end
  }
  return from === 8 ? hex(address, 0, 8) : `${hex(address, 0, from)}::${hex(address, to, 8)}`
}

function hex(address: ArrayLike<number>, from: number, to: number): string {
  let text = ''
  for (let i = from; i < to; i++) text += (i > from ? ':' : '') + (address[i] as number).toString(16)
  return text
}
