import type { ServerResponse } from 'node:http'
import type { SetHeader } from '../headers/format.ts'

/** Fields by their lower-case names, each with the name as it was given. */
export type Fields = Record<string, [name: string, value: string]>

/** What this makes is as empty as what inherits from nothing, which engines keep as a hash table: setting, listing and printing six
 *  fields takes less than half the time. By `new`, as engines learn from that how much room such an object needs. */
const NoFields = function NoFields() {} as unknown as new () => Fields
NoFields.prototype = Object.create(null)

/** What `setHeader` is of a response that has more to do then than Node, see `node-lines.ts`. */
export const OWN_SETTER: unique symbol = Symbol.for('headgate.setter')

/** Where a response keeps its fields, found by setting one; `false`: not where we know our way about. */
let place: symbol | false | undefined
let usual: ServerResponse['setHeader'] | undefined

/**
 * Sets fields of a response. `setHeader` checks each name and value by two expressions, and six times that take as long as a
 * decision and all else we do. Ours need no check: names are lower case, values are digits and names of limits. So they go
 * straight to where Node keeps them, where everybody finds them as ever. A Node that keeps them elsewhere, HTTP/2, another
 * runtime and a `setHeader` that somebody has replaced get them by `setHeader`.
 */
export function fieldSetter(res: ServerResponse): SetHeader {
  const { setHeader } = res // looked up once: Express gives every response a shape of its own, so a lookup is slow
  const fields = setHeader === usual ? fieldsOf(res) : undefined
  if (fields !== undefined) return placer(fields)
  if (res.headersSent) return () => {} // `setHeader` would throw; what is put in place above by then goes nowhere
  return (name, value) => {
    setHeader.call(res, name, value)
    if (place === undefined) learn(res, name, value)
  }
}

export function placer(fields: Fields): SetHeader {
  return (name, value) => {
    fields[name] = [name, value]
  }
}

/** @param make whether they are made if there are none yet, else null tells of that */
export function fieldsOf(res: ServerResponse): Fields | undefined
export function fieldsOf(res: ServerResponse, make: false): Fields | null | undefined
export function fieldsOf(res: ServerResponse, make = true): Fields | null | undefined {
  const kept = res as unknown as Record<symbol, Fields | null | undefined>
  const fields = kept[place as symbol]
  if (fields !== null || !make) return fields
  const made = new NoFields()
  kept[place as symbol] = made
  return made
}

function learn(res: ServerResponse, name: string, value: string): void {
  const holds = (symbol: symbol) => {
    const [key, text] = (res as unknown as Record<symbol, Partial<Fields> | null>)[symbol]?.[name] ?? []
    return key === name && text === value
  }
  place = Object.hasOwn(res, 'setHeader') ? false : (Object.getOwnPropertySymbols(res).find(holds) ?? false)
  if (place === false) return
  // A second field put there must be one to everybody.
  const fields = fieldsOf(res) as Fields
  fields['x-probe'] = ['x-probe', '1']
  const found = res.getHeader('x-probe') === '1' && res.getHeaderNames().includes('x-probe')
  res.removeHeader('x-probe')
  if (!found || res.hasHeader('x-probe')) place = false
  else if (!(OWN_SETTER in res)) usual = res.setHeader
}

/** Whether a response keeps its fields where we know our way about; this one is spent to find out. */
export function findPlace(res: ServerResponse): boolean {
  if (place === undefined) fieldSetter(res)('x-place', '1')
  return place !== false
}
