import { unguessable } from '../receipt.ts'
import { type Board, isBefore } from './board.ts'
import { type Exchange, type Total, totalsIn } from './merge.ts'

export interface ExchangeOptions {
  readonly here: string
  readonly prefix: string
  readonly own: Board
  readonly others: ReadonlyMap<string, Board>
}

/** What one tells the others. */
export function streamOf(prefix: string, region: string): string {
  return `{${prefix}:~regions}:of:${region}`
}

/** Regions tell each other by a stream at the board of each, which the others read. */
export function exchangeOf({ here, prefix, own, others }: ExchangeOptions): Exchange {
  // One slot of a cluster for each kind of name.
  const stream = (region: string) => streamOf(prefix, region)
  const name = (kind: string, region: string) => `{${prefix}:~regions}:${kind}:${region}`
  const seen = (region: string, { untilMs }: Total) => `${name('seen', region)}:${untilMs}`
  const me = unguessable()
  return {
    others: [...others.keys()],
    publish: (totals) => own.append(stream(here), JSON.stringify(totals), me),
    turn: (region) => own.turn(name('reader', region), name('read', region), me),
    async read(region, after) {
      const { entries, last } = await (others.get(region) as Board).readAfter(stream(region), after)
      // A stream that was lost begins anew, perhaps before where it was.
      if (entries.length === 0) return isBefore(last, after) ? { totals: [], last: '0-0' } : undefined
      return { totals: entries.flatMap(([, text]) => totalsIn(text)), last: entries.at(-1)?.[0] ?? '0-0' }
    },
    advance: (region, last) => own.advance(name('read', region), last),
    claim: (region, total) => own.claim(seen(region, total), total.untilMs, total.actor, total.units),
    done: (region, total, claim) => own.done(seen(region, total), total.actor, claim),
  }
}
