import { clientAddress } from 'headgate/http'
import type { Incoming } from '../rules/caller.ts'
import { Misuse } from './misuse.ts'

export interface Described {
  readonly method: string
  readonly url: string
  /** `name: value` each. */
  readonly header: readonly string[]
  readonly ip: string
}

const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/

/** The request that a command line describes. */
export function requestOf({ method, url, header, ip }: Described): Incoming {
  if (!TOKEN.test(method)) throw new Misuse(`"${method}" is no method: give a word such as GET.`)
  if (clientAddress({ peer: ip, forwarded: undefined, trust: undefined }).address === undefined)
    throw new Misuse(`"${ip}" is no address: give one such as 192.0.2.7 or 2001:db8::1.`)
  const lines = header.map(lineOf)
  const host = hostIn(url)
  if (host !== undefined && !lines.some(([name]) => name === 'host')) lines.push(['host', host])
  const valuesOf = (name: string) => lines.filter(([each]) => each === name).map(([, value]) => value)
  return {
    method: method.toUpperCase(),
    url,
    peer: ip,
    header(name) {
      const values = valuesOf(name)
      return values.length === 0 ? undefined : values.join(name === 'cookie' ? '; ' : ', ')
    },
  }
}

function lineOf(text: string): [name: string, value: string] {
  const colon = text.indexOf(':')
  const name = text.slice(0, Math.max(0, colon)).trim()
  if (!TOKEN.test(name)) throw new Misuse(`"${text}" is no header: write it as 'x-api-key: k1'.`)
  return [name.toLowerCase(), text.slice(colon + 1).trim()]
}

function hostIn(url: string): string | undefined {
  if (url.startsWith('/')) return undefined
  if (/^https?:\/\//i.test(url) && URL.canParse(url)) return new URL(url).host
  throw new Misuse(`"${url}" is no URL: give a path such as /login, or http://host/login.`)
}
