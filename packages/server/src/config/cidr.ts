import { isIPv4, isIPv6 } from 'node:net'
import type { Fault } from './problem.ts'

/** A network: the first of its addresses as a number, and how many bits its addresses share. */
export interface Cidr {
  readonly width: 32 | 128
  readonly first: bigint
  readonly prefix: number
}

/** The widest network that has one owner is fc00::/7. */
const WIDEST = 7
const MAPPED = 0xffffn << 32n

/** Reads `10.0.0.0/8`, `192.0.2.1`, `2001:db8::/32`; IPv6 that stands for IPv4 is that IPv4. */
export function parseCidr(text: string): Cidr | undefined {
  const [, address = '', bits] = /^([^/%]+)(?:\/(0|[1-9]\d{0,2}))?$/.exec(text) ?? []
  const width = isIPv4(address) ? 32 : isIPv6(address) ? 128 : undefined
  if (width === undefined) return undefined
  const prefix = bits === undefined ? width : Number(bits)
  if (prefix > width) return undefined
  const first = width === 32 ? ofIpv4(address) : ofIpv6(address)
  if (width === 128 && prefix >= 96 && first >> 32n === MAPPED >> 32n)
    return { width: 32, first: first & 0xffffffffn, prefix: prefix - 96 }
  return { width, first, prefix }
}

export function cidrCovers(cidr: Cidr, other: Cidr): boolean {
  const rest = BigInt(cidr.width - cidr.prefix)
  return cidr.width === other.width && cidr.prefix <= other.prefix && cidr.first >> rest === other.first >> rest
}

export function cidrFault(text: string): Fault | undefined {
  const cidr = parseCidr(text)
  if (cidr === undefined)
    return {
      reason: `"${text.slice(0, 60)}" is no address`,
      suggestion: 'write it like 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32',
    }
  const rest = BigInt(cidr.width - cidr.prefix)
  if ((cidr.first >> rest) << rest === cidr.first) return undefined
  const address = text.replace(/\/.*/, '')
  return {
    reason: `"${text}" starts amid its range`,
    suggestion: `write the first address of the range, or ${address} alone`,
  }
}

/** As `cidrFault`, for those whose word is taken. */
export function proxyFault(text: string): Fault | undefined {
  if (text === 'loopback') return undefined
  const fault = cidrFault(text)
  if (fault !== undefined || (parseCidr(text)?.prefix ?? 0) >= WIDEST) return fault
  return {
    reason: `"${text}" trusts everybody, so each request may name a client of its own`,
    suggestion: 'name the addresses of your proxies, say how many there are, or write loopback',
  }
}

function ofIpv4(text: string): bigint {
  return text.split('.').reduce((sum, part) => sum * 256n + BigInt(part), 0n)
}

function ofIpv6(text: string): bigint {
  const [left = '', right] = text
    .replace(/[\d.]+$/, (tail) => (tail.includes('.') ? inHex(ofIpv4(tail)) : tail))
    .split('::')
  const groups = (part: string) => (part === '' ? [] : part.split(':'))
  const [start, end] = [groups(left), groups(right ?? '')]
  const all = [...start, ...Array<string>(8 - start.length - end.length).fill('0'), ...end]
  return all.reduce((sum, group) => (sum << 16n) + BigInt(`0x${group}`), 0n)
}

function inHex(ipv4: bigint): string {
  return `${(ipv4 >> 16n).toString(16)}:${(ipv4 & 0xffffn).toString(16)}`
}
