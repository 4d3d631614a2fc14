import type { Limit } from 'headgate'

export interface FleetLimit {
  readonly limit?: Limit
  readonly atOnce?: number
}

export interface FleetShare extends FleetLimit {
  /** Units of it in a period, or at once: below 1 there are none. */
  readonly most: number
}

/** What is left of a limit for work that is not critical, once `reserve` of a hundred units are kept. Rounded down: the reserve is
 *  what was promised. */
export function fleetShare({ limit, atOnce }: FleetLimit, reserve: number): FleetShare {
  const part = (units: number) => Math.floor(Math.round(units * (100 - reserve) * 1e6) / 1e8)
  if (atOnce !== undefined) return { atOnce: part(atOnce), most: part(atOnce) }
  if (typeof limit === 'string') {
    if (!/^\d/.test(limit)) return { limit, most: Infinity } // unlimited
    const scaled = limit.replace(/^[\d_]+|(?<= burst +)[\d_]+/g, (count) =>
      String(part(Number(count.replaceAll('_', '')))),
    )
    return { limit: scaled, most: Math.min(...countsOf(scaled)) }
  }
  if (limit === undefined) return { most: Infinity }
  const { limit: count, burst } = limit
  const scaled = { ...limit, limit: part(count), ...(burst !== undefined && { burst: part(burst) }) }
  return { limit: scaled, most: Math.min(part(count), part(burst ?? count)) }
}

function countsOf(limit: string): number[] {
  return [...limit.matchAll(/^\d+|(?<= burst +)\d+/g)].map(([count]) => Number(count))
}
