import type { IncomingMessage } from 'node:http'
import { isIPv6 } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { TOKEN } from './fields.ts'
import type { Peer, RawHeaders } from './types.ts'

/** What a trusted peer said of the hops before it. */
export interface Told {
  proto?: string
  host?: string
}

const MAPPED = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i

/** Address of the other end; an IPv4 address inside an IPv6 one is written as what it is. */
export function peerAddress(req: IncomingMessage): string {
  const address = req.socket.remoteAddress ?? 'unknown'
  if (!address.startsWith('::')) return address
  return MAPPED.exec(address)?.[1] ?? address
}

export function untrusted(req: IncomingMessage): Peer {
  return { clientIp: peerAddress(req) }
}

/** Adds who is asking, by what is known here and, of a trusted peer, by what it told. */
export function pushForwarded(headers: RawHeaders, req: IncomingMessage, peer: Peer, told: Told): void {
  const address = peerAddress(req)
  const proto = (req.socket as Partial<TLSSocket>).encrypted ? 'https' : 'http'
  const host = req.headers.host
  headers.push('X-Forwarded-For', peer.chain ? `${peer.chain}, ${address}` : address)
  headers.push('X-Forwarded-Proto', told.proto ?? proto)
  if (told.host !== undefined || host !== undefined) headers.push('X-Forwarded-Host', told.host ?? (host as string))
  headers.push('X-Real-IP', peer.clientIp)
  headers.push('Forwarded', `${before(peer)}for=${node(address)};${hostPart(host)}proto=${proto}`)
}

/** The hops before this one. A peer that speaks only X-Forwarded-For is put into the words of RFC 7239, section 7.4. */
function before(peer: Peer): string {
  if (peer.forwarded) return `${peer.forwarded}, `
  if (!peer.chain) return ''
  return `${peer.chain
    .split(',')
    .map((hop) => `for=${node(hop.trim())}`)
    .join(', ')}, `
}

function node(address: string): string {
  if (address.includes(':') && isIPv6(address)) return `"[${address}]"`
  return TOKEN.test(address) ? address : quote(address)
}

function hostPart(host: string | undefined): string {
  if (host === undefined) return ''
  return `host=${TOKEN.test(host) ? host : quote(host)};`
}

function quote(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`
}
