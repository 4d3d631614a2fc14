import type { IncomingMessage } from 'node:http'
import { clientAddress } from 'headgate/http'
import { headerIn, type Incoming, linesIn } from '../rules/caller.ts'
import type { RuleSet } from '../rules/rule-set.ts'
import { Refusal } from './problem.ts'
import type { Item } from './schemas.ts'

type Described = NonNullable<Item['request']>

/** Whoever asks says who the client is: what a chain of proxies may have written counts no more. */
const chains = ['x-forwarded-for', 'forwarded']

/** A request as somebody describes it. */
export function describedRequest({ method, path, ip, host, headers }: Described): Incoming {
  const fields = new Map<string, readonly string[]>()
  for (const [name, value] of Object.entries(headers)) {
    const lowerName = name.toLowerCase()
    fields.set(lowerName, [...(fields.get(lowerName) ?? []), value].flat())
  }
  for (const name of chains) fields.delete(name)
  if (host !== undefined) fields.set('host', [host])
  const header = (name: string) => fields.get(name)?.join(', ')
  return { method, url: path, peer: ip, header, lines: (name) => fields.get(name) ?? [] }
}

/** A request that was sent here. */
export function sentRequest(req: IncomingMessage, more: Partial<Pick<Incoming, 'method' | 'url'>> = {}): Incoming {
  const { method = 'GET', url = '/', socket } = req
  const peer = socket.remoteAddress
  return { method, url, peer, header: (name) => headerIn(req, name), lines: (name) => linesIn(req, name), ...more }
}

/** The names by which proxies say which request they ask about: nginx by its configuration, Traefik and Caddy by themselves. */
const families = [
  { uri: ['x-original-uri', 'x-original-url'], method: 'x-original-method', host: 'x-original-host' },
  { uri: ['x-forwarded-uri'], method: 'x-forwarded-method', host: 'x-forwarded-host' },
] as const

/** The request that a trusted proxy asks about; of anybody else, the one that was sent. */
export function askedRequest(
  req: IncomingMessage,
  rules: RuleSet,
  isToken: (authorization: string) => boolean,
): Incoming {
  const sent = sentRequest(req)
  // The caller's token is no key of a client.
  const lines = (name: string) => linesIn(req, name).filter((line) => name !== 'authorization' || !isToken(line))
  const header = (name: string) => (name === 'authorization' ? lines(name)[0] : sent.header(name))
  const asking = { ...sent, header, lines, isRelayed: true }
  if (!isTrusted(rules, sent)) return asking
  const told = families.flatMap((names) => {
    const url = names.uri.map(header).find((value) => value !== undefined)
    return url === undefined ? [] : [{ url, method: header(names.method), host: header(names.host) }]
  })
  const [first, second] = told
  if (first === undefined) return asking
  if (second !== undefined && second.url !== first.url) throw disagreement
  const { url, method = sent.method, host } = first
  return { ...asking, url, method, header: (name) => (name === 'host' ? (host ?? header(name)) : header(name)) }
}

/** A proxy writes one family and passes on what the client wrote of the other: who could choose would choose what is judged. */
const disagreement = new Refusal(
  400,
  'ambiguous_request',
  'X-Original-URI and X-Forwarded-Uri name different requests: let the proxy remove the one that it does not write.',
)

/** Whether the rules let the other end say whom a request comes from. */
export function isTrusted(rules: RuleSet, incoming: Incoming): boolean {
  const { trust } = rules.callerOf(incoming).identity
  // Somebody trusted is asked for the hop before.
  return clientAddress({ peer: incoming.peer, forwarded: '192.0.2.1', trust }).hops > 0
}
