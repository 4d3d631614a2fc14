import { unguessable } from '../receipt.ts'
import type { Connection } from './connection.ts'
import { type Exchange, type Total, totalsIn } from './merge.ts'
import { Script } from './script-call.ts'

/** KEYS[1] the stream   ARGV[1] totals as text   ARGV[2] about how many entries are kept   ARGV[3] whose */
export const PUBLISH =
  "return redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'totals', ARGV[1], 'by', ARGV[3])"

/** KEYS[1] the stream   ARGV[1] after which entry   ARGV[2] how many. Also says which is the last of all. */
export const READ = `
local found = redis.call('XREAD', 'COUNT', ARGV[2], 'STREAMS', KEYS[1], ARGV[1])
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
return { found and found[1][2] or {}, last[1] and last[1][1] or '' }
`

/** KEYS[1] who reads   KEYS[2] how far   ARGV[1] this one   ARGV[2] for how many ms. Two that read at once do no harm. */
const TURN = `
local reader = redis.call('GET', KEYS[1])
if reader and reader ~= ARGV[1] then return false end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('GET', KEYS[2]) or '0-0'
`
const ADVANCE = "return redis.call('SET', KEYS[1], ARGV[1])"

/**
 * KEYS[1] what is counted of totals that end at one instant   ARGV[1] that instant   ARGV[2] whose   ARGV[3] its units
 * A field is the units that are counted or, while somebody is about to count more, these and those: 'from>to'.
 */
const CLAIM = `
local time = redis.call('TIME')
if time[1] * 1000 + time[2] / 1000 >= tonumber(ARGV[1]) then return false end
local known = redis.call('HGET', KEYS[1], ARGV[2]) or '0'
local from, to = string.match(known, '^(%d+)>(%d+)$')
if not from then
  from, to = known, known
  if tonumber(ARGV[3]) > tonumber(known) then
    to = ARGV[3]
    redis.call('HSET', KEYS[1], ARGV[2], from .. '>' .. to)
    redis.call('PEXPIREAT', KEYS[1], ARGV[1])
  end
end
return { from, to }
`

/** KEYS[1] and ARGV[1] whose, as above   ARGV[2] from   ARGV[3] to. If somebody else was faster, nothing is to be done. */
const DONE = `
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] .. '>' .. ARGV[3] then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
return 1
`

/** So many entries of up to 500 totals a region keeps for those that are cut off. Whoever misses some gets the next totals. */
export const KEPT = 10_000
export const READ_AT_ONCE = 20
/** Whoever reads and falls silent is followed by another after so long. */
const TURN_MS = 5_000

export interface ExchangeOptions {
  readonly here: string
  readonly prefix: string
  readonly own: Connection
  readonly others: ReadonlyMap<string, Connection>
}

/** What one tells the others. */
export function streamOf(prefix: string, region: string): string {
  return `{${prefix}:~regions}:of:${region}`
}

/** Regions tell each other by a stream in the Redis of each, which the others read. */
export function exchangeOf({ here, prefix, own, others }: ExchangeOptions): Exchange {
  // One slot of a cluster for each kind of name.
  const stream = (region: string) => streamOf(prefix, region)
  const name = (kind: string, region: string) => `{${prefix}:~regions}:${kind}:${region}`
  const seen = (region: string, { untilMs }: Total) => `${name('seen', region)}:${untilMs}`
  const me = unguessable()
  const [publish, turn, advance, claim, done] = [PUBLISH, TURN, ADVANCE, CLAIM, DONE].map(
    (text) => new Script(own, text),
  ) as [Script, Script, Script, Script, Script]
  const readers = new Map([...others].map(([region, connection]) => [region, new Script(connection, READ)]))
  return {
    others: [...others.keys()],
    async publish(totals) {
      await publish.run([stream(here)], [JSON.stringify(totals), KEPT, me])
    },
    async turn(region) {
      const after = await turn.run([name('reader', region), name('read', region)], [me, TURN_MS])
      return after === null ? undefined : String(after)
    },
    async read(region, after) {
      const answer = await readers.get(region)?.run([stream(region)], [after, READ_AT_ONCE])
      const [entries, last] = answer as [readonly [string, readonly string[]][], string]
      // A stream that was lost begins anew, perhaps before where it was.
      if (entries.length === 0) return isBefore(last, after) ? { totals: [], last: '0-0' } : undefined
      return {
        totals: entries.flatMap(([, fields]) => totalsIn(String(fields[1]))),
        last: String(entries.at(-1)?.[0]),
      }
    },
    async advance(region, last) {
      await advance.run([name('read', region)], [last])
    },
    async claim(region, total) {
      const answer = await claim.run([seen(region, total)], [total.untilMs, total.actor, total.units])
      if (answer === null) return undefined
      const [from, to] = answer as [string, string]
      return { from: Number(from), to: Number(to) }
    },
    async done(region, total, { from, to }) {
      await done.run([seen(region, total)], [total.actor, from, to])
    },
  }
}

export function isBefore(id: string, other: string): boolean {
  if (id === '') return other !== '0-0'
  const [ms = 0, n = 0] = id.split('-').map(Number)
  const [otherMs = 0, otherN = 0] = other.split('-').map(Number)
  return ms < otherMs || (ms === otherMs && n < otherN)
}
