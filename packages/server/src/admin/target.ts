import type { Key } from 'headgate'
import { choose } from '../config/suggest.ts'
import type { Service } from '../service.ts'
import { AdminError } from './problem.ts'

/** Throws unless there is such a limit. What was asked for is not told again: it may be a key in the wrong place. */
export function checkLimit({ rules }: Service, limit: string): void {
  if (!rules.limitNames.includes(limit))
    throw new AdminError('limit_unknown', `There is no such limit; ${choose(limit, rules.limitNames)}`)
}

/** Throws unless the limit exists and the key has as many parts as the limit is by. */
export function checkTarget(service: Service, limit: string, key: Key | undefined): void {
  checkLimit(service, limit)
  const by = service.rules.limits[limit]?.by ?? []
  const parts = key === undefined ? [] : [key].flat()
  if (parts.length === by.length && !parts.includes('')) return
  const fix =
    by.length === 0
      ? 'is one counter for everybody and has no key'
      : `is by ${by.join(', ')}: give ${by.length === 1 ? 'a key' : `a key of ${by.length} parts`}`
  throw new AdminError('bad_key', `Limit "${limit}" ${fix}.`)
}
