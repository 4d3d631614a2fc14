import { HeadgateError, rejectUnknown, show } from '../errors.ts'
import { checkMs } from '../named-limit.ts'
import type { Store } from '../stores/store.ts'
import { boardOf } from './board.ts'
import { connectionOf } from './connection.ts'
import { exchangeOf } from './exchange.ts'
import { Regions } from './merge.ts'

export interface RegionOptions {
  /** What the region of this process is called. */
  readonly here: string
  /** The other regions by name, each with a client for its Redis. */
  readonly others: Readonly<Record<string, unknown>>
  /** Names of the limits that hold over all regions; all unless said otherwise. The rest hold in each region for itself. */
  readonly limits?: readonly string[]
  /** How often regions tell each other what passed: every 500 ms unless said otherwise. */
  readonly syncMs?: number
}

const SYNC_MS = 500

/** @param store Decides in this region; its counts are in the Redis of `client`. */
export function regionsOf(client: unknown, store: Store, options: RegionOptions): Regions {
  const where = '"regions" of redis()'
  rejectUnknown(options, ['here', 'others', 'limits', 'syncMs'], where)
  const { here, others, limits, syncMs = SYNC_MS } = options
  const wrong = (what: string, value: unknown, give: string) =>
    new HeadgateError('HG_OPTION_INVALID', `"${what}" of ${where} is ${show(value)}: give ${give}`, value)
  if (!isName(here)) throw wrong('here', here, 'a name of letters, digits, - and _')
  if (typeof others !== 'object' || others === null) throw wrong('others', others, '{ name: client, … }')
  for (const name of Object.keys(others))
    if (!isName(name) || name === here) throw wrong('others', name, 'the names of the other regions, and clients')
  if (limits !== undefined && !(Array.isArray(limits) && limits.every((each) => typeof each === 'string')))
    throw wrong('limits', limits, 'names of limits, such as ["month"]')
  checkMs(syncMs, `"syncMs" of ${where}`)
  if (syncMs < 20 || syncMs > 60_000) throw wrong('syncMs', syncMs, '20 to 60,000 ms')
  const exchange = exchangeOf({
    here,
    prefix: store.prefix ?? 'hg',
    own: boardOf(connectionOf(client)),
    others: new Map(Object.entries(others).map(([name, each]) => [name, boardOf(connectionOf(each))])),
  })
  return new Regions(store, exchange, { limits, syncMs })
}

function isName(name: unknown): name is string {
  return typeof name === 'string' && /^[\w-]{1,64}$/.test(name)
}
