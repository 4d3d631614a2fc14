import { HeadgateError, rejectUnknown, show } from '../errors.ts'
import { checkMs } from '../named-limit.ts'
import { unguessable } from '../receipt.ts'
import { Beside } from '../stores/beside.ts'
import { memory } from '../stores/memory.ts'
import type { IsHeld, Store } from '../stores/store.ts'
import { type Connection, connectionOf } from './connection.ts'
import { isBefore, KEPT, PUBLISH, READ, READ_AT_ONCE, streamOf } from './exchange.ts'
import { type Exchange, PromptRegions, totalsIn } from './merge.ts'
import { Script } from './script-call.ts'

export interface SyncOptions {
  /** How often processes tell each other what passed: every 100 ms unless said otherwise. */
  readonly syncMs?: number
}

const SYNC_MS = 100
/** Each process is to the others what regions are to each other; all of them write into one stream. */
const FLEET = 'fleet'

/** Decides in this process at once, by what passed here and what it was told of the others.
 *  @param below Decides all other limits. */
export function syncedOf(client: unknown, below: Store, sync: SyncOptions, isTold: IsHeld): PromptRegions {
  rejectUnknown(sync, ['syncMs'], '"sync" of redis()')
  const { syncMs = SYNC_MS } = sync
  checkMs(syncMs, '"syncMs" of "sync"')
  if (syncMs < 20 || syncMs > 60_000)
    throw new HeadgateError('HG_OPTION_INVALID', `"syncMs" of "sync" is ${show(syncMs)}: give 20 to 60,000 ms`, syncMs)
  const exchange = fleetOf(connectionOf(client), below.prefix ?? 'hg')
  return new PromptRegions(new Beside(memory(), below, isTold), exchange, { syncMs, hold: 'sync', isTold })
}

/** What was heard is kept here, as what is counted is: a process that starts anew hears all that the stream has. */
function fleetOf(connection: Connection, prefix: string): Exchange {
  const stream = streamOf(prefix, FLEET)
  const me = unguessable()
  const [publish, read] = [new Script(connection, PUBLISH), new Script(connection, READ)]
  const heard = new Map<string, { readonly units: number; readonly untilMs: number }>()
  let after = '0-0'
  return {
    others: [FLEET],
    async publish(totals) {
      await publish.run([stream], [JSON.stringify(totals), KEPT, me])
    },
    turn: async () => after,
    async read(_fleet, from) {
      const answer = (await read.run([stream], [from, READ_AT_ONCE])) as [readonly Entry[], string]
      return answer[0].length === 0 && !isBefore(answer[1], from) ? undefined : batchOf(answer[0], me)
    },
    async advance(_fleet, last) {
      after = last
      const nowMs = Date.now()
      for (const [actor, { untilMs }] of heard) if (untilMs < nowMs) heard.delete(actor)
    },
    async claim(_fleet, { actor, units, untilMs }) {
      if (untilMs <= Date.now()) return undefined
      const from = heard.get(actor)?.units ?? 0
      // Booked in memory, in this turn: nothing comes between.
      if (units > from) heard.set(actor, { units, untilMs })
      return { from, to: Math.max(from, units) }
    },
    done: async () => {},
  }
}

type Entry = readonly [id: string, fields: readonly string[]]

function batchOf(entries: readonly Entry[], me: string) {
  const totals = entries.flatMap(([, [, text = '[]', , by]]) => (by === me ? [] : totalsIn(text)))
  return { totals, last: entries.at(-1)?.[0] ?? '0-0' }
}
