import type { Connection } from './connection.ts'
import { Script } from './script-call.ts'

/** An entry of a stream: its id, what it says, and who wrote it. */
export type Entry = readonly [id: string, text: string, by: string]

/**
 * What processes leave for each other at one server: streams of totals, whose turn it is to read them, and what was counted of them.
 * Everything may be done twice, or late, without harm.
 */
export interface Board {
  append(stream: string, text: string, by: string): Promise<void>
  /** Some entries after that one, and the id of the last of all; '' if there is none. */
  readAfter(stream: string, after: string): Promise<{ readonly entries: readonly Entry[]; readonly last: string }>
  /** Takes the turn of `reader` if nobody else has it, and returns how far `read` is. */
  turn(reader: string, read: string, me: string): Promise<string | undefined>
  advance(read: string, last: string): Promise<void>
  /** See `Exchange`. All of `seen` is forgotten at `untilMs`. */
  claim(seen: string, untilMs: number, actor: string, units: number): Promise<Claim | undefined>
  done(seen: string, actor: string, claim: Claim): Promise<void>
}

/** How far a total of another region is counted here: from that, and to that as somebody has set out to. */
export interface Claim {
  readonly from: number
  readonly to: number
}

/** KEYS[1] the stream   ARGV[1] totals as text   ARGV[2] about how many entries are kept   ARGV[3] whose */
const APPEND = "return redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'totals', ARGV[1], 'by', ARGV[3])"

/** KEYS[1] the stream   ARGV[1] after which entry   ARGV[2] how many. Also says which is the last of all. */
const READ = `
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
export const TURN_MS = 5_000

/** The board in Redis. Its twin in a simulated fleet is `Noticeboard`. */
export function boardOf(connection: Connection): Board {
  const [append, read, turn, advance, claim, done] = [APPEND, READ, TURN, ADVANCE, CLAIM, DONE].map(
    (text) => new Script(connection, text),
  ) as [Script, Script, Script, Script, Script, Script]
  return {
    async append(stream, text, by) {
      await append.run([stream], [text, KEPT, by])
    },
    async readAfter(stream, after) {
      const answer = await read.run([stream], [after, READ_AT_ONCE])
      const [found, last] = answer as [readonly [string, readonly string[]][], string]
      return { entries: found.map(([id, [, text = '[]', , by = '']]) => [id, text, by]), last }
    },
    async turn(reader, read, me) {
      const after = await turn.run([reader, read], [me, TURN_MS])
      return after === null ? undefined : String(after)
    },
    async advance(read, last) {
      await advance.run([read], [last])
    },
    async claim(seen, untilMs, actor, units) {
      const answer = await claim.run([seen], [untilMs, actor, units])
      if (answer === null) return undefined
      const [from, to] = answer as [string, string]
      return { from: Number(from), to: Number(to) }
    },
    async done(seen, actor, { from, to }) {
      await done.run([seen], [actor, from, to])
    },
  }
}

export function isBefore(id: string, other: string): boolean {
  if (id === '') return other !== '0-0'
  const [ms = 0, n = 0] = id.split('-').map(Number)
  const [otherMs = 0, otherN = 0] = other.split('-').map(Number)
  return ms < otherMs || (ms === otherMs && n < otherN)
}
