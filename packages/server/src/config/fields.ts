import * as z from 'zod'
import type { Fault } from './problem.ts'

/** An object that knows its keys. What is said of an unknown one are the known ones: `issues.ts` makes a sentence of them. */
export function strict<S extends z.core.$ZodLooseShape>(shape: S) {
  const known = Object.keys(shape).join(' ')
  return z.strictObject(shape, { error: ({ code }) => (code === 'unrecognized_keys' ? known : undefined) })
}

export function whole(least: number, most = Number.MAX_SAFE_INTEGER) {
  return z.int().min(least).max(most)
}

/** What timers can hold: beyond that they fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

export function ms(least = 1) {
  return whole(least, LONGEST_TIMER_MS)
}

/** A text and what is wrong with it, if anything. */
export function checked(check: (text: string) => Fault | undefined) {
  return z.string().superRefine((text, context) => {
    const fault = check(text)
    if (fault !== undefined) context.addIssue({ code: 'custom', message: fault.reason, params: fault })
  })
}

/** Says that parts of an object do not go together. */
export function refuse(context: z.RefinementCtx, fault: Fault, path: string[] = []): void {
  context.addIssue({ code: 'custom', message: fault.reason, params: { ...fault, code: 'HG_RULES_CONFLICT' }, path })
}

/** One, or a list of them; a list in the end. */
export function oneOrMany<T extends z.ZodType>(item: T, least = 1) {
  return z.union([item, z.array(item).min(least)]).transform((value) => [value].flat() as z.output<T>[])
}

export const name = z.string().min(1)

const SCHEMES = { http: ['http:', 'https:'], redis: ['redis:', 'rediss:'] }

export function url(kind: keyof typeof SCHEMES) {
  const schemes = SCHEMES[kind]
  const pattern = `^${kind}s?://`
  return checked((text) => urlFault(text, schemes, kind)).meta({ pattern })
}

function urlFault(text: string, schemes: readonly string[], kind: string): Fault | undefined {
  const parsed = URL.canParse(text) ? new URL(text) : undefined
  const example = kind === 'http' ? 'http://127.0.0.1:3000' : 'redis://127.0.0.1:6379/0'
  // A Redis URL may hold a password, which has no place in a message.
  const shown = kind === 'http' ? `"${text.slice(0, 60)}" is` : 'this is'
  if (parsed === undefined || parsed.hostname === '' || !schemes.includes(parsed.protocol))
    return { reason: `${shown} no ${schemes.join('// or ')}// URL`, suggestion: `write it like ${example}` }
  return undefined
}

/** An origin to pass requests on to. */
export const origin = checked((text) => {
  const fault = urlFault(text, SCHEMES.http, 'http')
  if (fault !== undefined) return fault
  const { origin, pathname, search, hash, username, password } = new URL(text)
  if (pathname === '/' && `${search}${hash}${username}${password}` === '') return undefined
  return {
    reason: 'an upstream has no path, query or password: requests keep their own',
    suggestion: `write ${origin}`,
  }
}).meta({ pattern: '^https?://' })

/** `host:port`, with IPv6 in brackets. */
export const hostPort = checked((text) => {
  const [, port] = /^(?:\[[\da-f:.]+\]|[\w.-]+):(\d{1,5})$/i.exec(text) ?? []
  if (port !== undefined && Number(port) > 0 && Number(port) <= 65_535) return undefined
  return { reason: `"${text.slice(0, 60)}" is no host and port`, suggestion: 'write it like redis-1:6379' }
})
