import type { Clock } from '../clock.ts'
import { HeadgateError, rejectUnknown, show } from '../errors.ts'
import { checkMs } from '../named-limit.ts'
import { unguessable } from '../receipt.ts'
import { Beside } from '../stores/beside.ts'
import { memory } from '../stores/memory.ts'
import type { IsHeld, Store } from '../stores/store.ts'
import { type Board, boardOf, type Entry, isBefore } from './board.ts'
import { connectionOf } from './connection.ts'
import { streamOf } from './exchange.ts'
import { type Exchange, forgetOldest, PromptRegions, totalsIn } from './merge.ts'

export interface SyncOptions {
  /** How often processes tell each other what passed: every 100 ms unless said otherwise. */
  readonly syncMs?: number
}

const SYNC_MS = 100
/** Of so many totals it is known how much of them is counted. Of one that was forgotten all is counted again, should it grow. */
export const MOST_HEARD = 500_000
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
  const exchange = fleetOf(boardOf(connectionOf(client)), below.prefix ?? 'hg')
  return new PromptRegions(new Beside(memory(), below, isTold), exchange, { syncMs, hold: 'sync', isTold })
}

/** What was heard is kept here, as what is counted is: a process that starts anew hears all that the stream has. */
export function fleetOf(board: Board, prefix: string, clock: Pick<Clock, 'now'> = Date): Exchange {
  const stream = streamOf(prefix, FLEET)
  const me = unguessable()
  const heard = new Map<string, { readonly units: number; readonly untilMs: number }>()
  let after = '0-0'
  return {
    others: [FLEET],
    publish: (totals) => board.append(stream, JSON.stringify(totals), me),
    turn: async () => after,
    async read(_fleet, from) {
      const { entries, last } = await board.readAfter(stream, from)
      return entries.length === 0 && !isBefore(last, from) ? undefined : batchOf(entries, me)
    },
    async advance(_fleet, last) {
      after = last
      const nowMs = clock.now()
      for (const [actor, { untilMs }] of heard) if (untilMs < nowMs) heard.delete(actor)
    },
    async claim(_fleet, { actor, units, untilMs }) {
      if (untilMs <= clock.now()) return undefined
      const from = heard.get(actor)?.units ?? 0
      // Booked in memory, in this turn: nothing comes between.
      if (units > from) {
        heard.delete(actor) // so that it is the newest
        forgetOldest(heard, MOST_HEARD - 1)
        heard.set(actor, { units, untilMs })
      }
      return { from, to: Math.max(from, units) }
    },
    done: async () => {},
  }
}

function batchOf(entries: readonly Entry[], me: string) {
  const totals = entries.flatMap(([, text, by]) => (by === me ? [] : totalsIn(text)))
  return { totals, last: entries.at(-1)?.[0] ?? '0-0' }
}
