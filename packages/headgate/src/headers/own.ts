import { HeadgateError, show } from '../errors.ts'
import type { HeaderState } from './format.ts'

/**
 * Fields of your own: by the limit that decided, and by all that are told, violated first, then the one with the least left. They
 * stand beside those of the styles and win over one of the same name; undefined takes a field away.
 */
export type HeaderFields = (
  deciding: HeaderState,
  all: readonly HeaderState[],
) => Readonly<Record<string, string | number | undefined>>

const NAME = /^[\w!#$%&'*+.^`|~-]+$/
const VALUE = /^[\t\x20-\x7e]*$/

/** What it makes is added if all of it can be sent: nobody else checks that, see `node-fields.ts`. */
export function addOwn(
  fields: Map<string, string>,
  own: HeaderFields,
  deciding: HeaderState,
  all: readonly HeaderState[],
  onError: (error: unknown) => void,
): void {
  try {
    const made = Object.entries(own(deciding, all))
    for (const [name, value] of made) check(name, value)
    for (const [name, value] of made) {
      if (value === undefined) fields.delete(name.toLowerCase())
      else fields.set(name.toLowerCase(), String(value))
    }
  } catch (error) {
    onError(error)
  }
}

function check(name: string, value: string | number | undefined): void {
  if (NAME.test(name) && VALUE.test(String(value))) return
  throw new HeadgateError(
    'HG_OPTION_INVALID',
    `"headers" makes a field ${show(name)} with the value ${show(value)}: a name is a word, a value one line of ASCII`,
    value,
  )
}

export function rethrow(error: unknown): never {
  throw error
}
