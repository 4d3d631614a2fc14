import type { Key } from 'headgate'
import { choose } from '../config/suggest.ts'
import { AdminError } from './problem.ts'

/** What a field must be, in words, and how to tell. */
export interface Field<T> {
  readonly what: string
  readonly optional: boolean
  /** Undefined: it is something else. */
  read(value: unknown): T | undefined
}

type Values<S> = { readonly [N in keyof S]: S[N] extends Field<infer T> ? T : never }

/** The fields of a body. Throws with all that is wrong with them; values are not told, as they may be keys. */
export function readFields<S extends Readonly<Record<string, Field<unknown>>>>(body: unknown, fields: S): Values<S> {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw new AdminError('bad_fields', `Send an object with ${Object.keys(fields).join(', ')}.`)
  const given = body as Readonly<Record<string, unknown>>
  const values: Record<string, unknown> = {}
  const faults: { field: string; reason: string }[] = []
  for (const name of Object.keys(given)) {
    if (Object.hasOwn(fields, name)) continue
    faults.push({ field: name.slice(0, 40), reason: `unknown field; ${choose(name, Object.keys(fields))}` })
  }
  for (const [name, { what, optional, read }] of Object.entries(fields)) {
    const value = Object.hasOwn(given, name) ? given[name] : undefined
    if (value !== undefined) values[name] = read(value)
    if (value === undefined ? !optional : values[name] === undefined)
      faults.push({ field: name, reason: value === undefined ? `missing; give ${what}` : `give ${what}` })
  }
  if (faults.length === 0) return values as Values<S>
  const [{ field, reason }] = faults as [(typeof faults)[0]]
  throw new AdminError('bad_fields', `${field}: ${reason}`, { fields: faults.slice(0, 20) })
}

export function optional<T>(field: Field<T>): Field<T | undefined> {
  return { ...field, optional: true }
}

function field<T>(what: string, read: (value: unknown) => T | undefined): Field<T> {
  return { what, optional: false, read }
}

export function text(what: string, longest: number): Field<string> {
  return field(`${what}, up to ${longest} characters`, (value) =>
    typeof value === 'string' && value.length <= longest ? value : undefined,
  )
}

export function oneOf<const T extends string>(choices: readonly T[]): Field<T> {
  return field(choices.join(', '), (value) => choices.find((choice) => choice === value))
}

export function numberIn(least: number, most: number, whole: boolean): Field<number> {
  const what = `a ${whole ? 'whole ' : ''}number from ${least} to ${most}`
  return field(what, (value) => {
    if (typeof value !== 'number' || !(value >= least && value <= most)) return undefined
    return whole && !Number.isInteger(value) ? undefined : value
  })
}

/** An object with fields of its own. */
export function part<S extends Readonly<Record<string, Field<unknown>>>>(fields: S): Field<Values<S>> {
  return field(`an object with ${Object.keys(fields).join(', ')}`, (value) => readFields(value, fields))
}

const MOST_PARTS = 16

export const key: Field<Key> = field('a text, a number, or a list of them', (value) => {
  const parts = [value].flat()
  const isPart = (part: unknown) => (typeof part === 'string' && part !== '') || Number.isFinite(part)
  return parts.length > 0 && parts.length <= MOST_PARTS && parts.every(isPart) ? (value as Key) : undefined
})

/** What a key gets instead; whether the text is a limit is for the library to say. */
export const limit: Field<string | { readonly atOnce: number }> = field(
  'a limit such as "1000/min", or { "atOnce": 20 }',
  (value) => {
    if (typeof value === 'string') return value
    if (typeof value !== 'object' || value === null || Object.keys(value).join() !== 'atOnce') return undefined
    const { atOnce } = value as { atOnce: unknown }
    return typeof atOnce === 'number' && Number.isSafeInteger(atOnce) && atOnce >= 0 ? { atOnce } : undefined
  },
)

/** A whole number in the query. */
export function countIn(
  query: URLSearchParams,
  name: string,
  { otherwise, most }: { otherwise: number; most: number },
): number {
  const text = query.get(name)
  if (text === null) return otherwise
  if (/^\d{1,9}$/.test(text) && Number(text) >= 1 && Number(text) <= most) return Number(text)
  throw new AdminError('bad_query', `"${name}" is a whole number from 1 to ${most}.`)
}
