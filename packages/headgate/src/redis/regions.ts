import { HeadgateError, rejectUnknown, show } from '../errors.ts'
import { checkMs } from '../named-limit.ts'
import type { IsHeld, PromptStore, Store } from '../stores/store.ts'
import { boardOf } from './board.ts'
import { connectionOf } from './connection.ts'
import { exchangeOf } from './exchange.ts'
import { PromptRegions, Regions } from './merge.ts'

export interface RegionOptions {
  /** What the region of this process is called. */
  readonly here: string
  /** The other regions by name, each with a client for its Redis. */
  readonly others: Readonly<Record<string, unknown>>
  /** How often regions tell each other what passed: every 500 ms unless said otherwise. */
  readonly syncMs?: number
}

const SYNC_MS = 500

/** @param store Decides in this region; its counts are in the Redis of `client`. */
export function regionsOf(client: unknown, store: Store, options: RegionOptions, isTold?: IsHeld): Regions {
  const where = '"regions" of redis()'
  rejectUnknown(options, ['here', 'others', 'syncMs'], where)
  const { here, others, syncMs = SYNC_MS } = options
  const wrong = (what: string, value: unknown, give: string) =>
    new HeadgateError('HG_OPTION_INVALID', `"${what}" of ${where} is ${show(value)}: give ${give}`, value)
  if (!isName(here)) throw wrong('here', here, 'a name of letters, digits, - and _')
  if (typeof others !== 'object' || others === null) throw wrong('others', others, '{ name: client, … }')
  for (const name of Object.keys(others))
    if (!isName(name) || name === here) throw wrong('others', name, 'the names of the other regions, and clients')
  checkMs(syncMs, `"syncMs" of ${where}`)
  if (syncMs < 20 || syncMs > 60_000) throw wrong('syncMs', syncMs, '20 to 60,000 ms')
  const exchange = exchangeOf({
    here,
    prefix: store.prefix ?? 'hg',
    own: boardOf(connectionOf(client)),
    others: new Map(Object.entries(others).map(([name, each]) => [name, boardOf(connectionOf(each))])),
  })
  const told = { syncMs, ...(isTold && { isTold }) }
  return 'takeNow' in store
    ? new PromptRegions(store as PromptStore, exchange, told)
    : new Regions(store, exchange, told)
}

function isName(name: unknown): name is string {
  return typeof name === 'string' && /^[\w-]{1,64}$/.test(name)
}
