import { isIPv4 } from 'node:net'
import { normalPath } from 'headgate/http'
import { cidrFault } from '../config/cidr.ts'
import { hostGlobFault, pathGlobFault } from '../config/glob.ts'

/** What the keys stand for that Envoy makes by itself, or that everybody names so. */
const wellKnown: ReadonlyMap<string, string> = new Map([
  ['remote_address', 'ip'],
  ['path', 'path'],
  [':path', 'path'],
  ['method', 'method'],
  [':method', 'method'],
  ['host', 'host'],
  ['authority', 'host'],
  [':authority', 'host'],
  ['authorization', 'header:authorization'],
])

const CHOSEN = "a text that Envoy's routes choose, so no request tells it"
/** Keys that Envoy makes, and that nothing of a request tells. */
const untold: ReadonlyMap<string, string> = new Map([
  ['generic_key', CHOSEN],
  ['header_match', CHOSEN],
  ['query_match', CHOSEN],
  ['source_cluster', 'the cluster of the Envoy that sends, which no request tells'],
  ['destination_cluster', "the cluster that Envoy's routes choose, which no request tells"],
  ['masked_remote_address', 'a network, and only single addresses are counted here'],
])

interface Unknown {
  readonly reason: string
  readonly suggestion: string
}

/** The word of `by` that a key stands for; or why there is none. */
export function wordOf(key: string, map: ReadonlyMap<string, string>): { readonly word: string } | Unknown {
  const word = map.get(key) ?? wellKnown.get(key)
  if (word !== undefined) return { word }
  const reason = untold.get(key)
  if (reason !== undefined)
    return {
      reason: `"${key}" is ${reason}`,
      suggestion: 'write the limit by hand, with a "when" for the requests that are meant',
    }
  if (/^[a-z\d]+(?:-[a-z\d]+)+$/i.test(key)) return { word: `header:${key.toLowerCase()}` }
  return {
    reason: `nothing says what "${key}" is of a request`,
    suggestion: `say so, such as by --map ${key}=header:x-user-id`,
  }
}

/** Whether a key is taken for a header by its looks alone. */
export function isGuessed(key: string, map: ReadonlyMap<string, string>): boolean {
  return !map.has(key) && !wellKnown.has(key)
}

/** A value of a descriptor: itself, or all that start so. */
export interface Pattern {
  readonly text: string
  readonly isStart: boolean
}

export type Part = 'ip' | 'path' | 'method' | 'host' | 'tier' | `header ${string}`

/** The part of `when` that asks for a word; undefined: none does. */
export function partOf(word: string): Part | undefined {
  if (word.startsWith('header:')) return `header ${word.slice('header:'.length).toLowerCase()}`
  return (['ip', 'path', 'method', 'host', 'tier'] as const).find((each) => each === word)
}

const ANYTHING: ReadonlyMap<Part, readonly string[]> = new Map([
  ['ip', ['0.0.0.0/0', '::/0']],
  ['path', ['/**']],
])

/** How a part of `when` says a value; undefined: it cannot. */
export function valuesOf(part: Part, { text, isStart }: Pattern): readonly string[] | undefined {
  if (isStart && text === '') return ANYTHING.get(part) ?? (part.startsWith('header ') ? ['*'] : undefined)
  if (part === 'ip')
    return isStart ? networkOf(text) : cidrFault(text) === undefined && !text.includes('/') ? [text] : undefined
  if (part === 'path') return isStart ? pathsFrom(text) : pathOf(text)
  if (text.includes('*')) return undefined
  if (part.startsWith('header ')) return [isStart ? `${text}*` : text]
  if (isStart) return undefined
  if (part === 'method') return /^[\w-]+$/.test(text) ? [text.toUpperCase()] : undefined
  if (part === 'host')
    return hostGlobFault(text) === undefined && !text.includes('{') ? [text.toLowerCase()] : undefined
  return [text]
}

/** `10.1.` is a network; `10.1` is the start of 10.1.0.0 and of 10.100.0.0. */
function networkOf(start: string): readonly string[] | undefined {
  const numbers = /^(?:\d{1,3}\.){1,3}$/.test(start) ? start.slice(0, -1).split('.') : []
  const first = [...numbers, '0', '0', '0'].slice(0, 4).join('.')
  return numbers.length > 0 && isIPv4(first) ? [`${first}/${numbers.length * 8}`] : undefined
}

function pathOf(text: string): readonly string[] | undefined {
  if (/[*{}]/.test(text) || pathGlobFault(text) !== undefined) return undefined
  return [normalPath(text, { caseSensitive: true })]
}

function pathsFrom(start: string): readonly string[] | undefined {
  const [path] = pathOf(start) ?? []
  if (path === undefined) return undefined
  if (start.endsWith('/')) return [path === '/' ? '/**' : `${path}/**`]
  return [`${path}*`, `${path}*/**`]
}
