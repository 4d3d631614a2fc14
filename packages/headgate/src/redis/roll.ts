import { unguessable } from '../receipt.ts'
import { BEATS, type Roll } from '../stores/members.ts'
import type { Connection } from './connection.ts'
import { Script } from './script-call.ts'

/**
 * KEYS[1] who is alive, by when each was last heard of   ARGV[1] this one   ARGV[2] for how many ms it is believed
 * Only the clock of Redis is asked. Who was heard of later than now was so before that clock was set back, and says so again.
 */
const BEAT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. now, '+inf')
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZCARD', KEYS[1])
`
const LEAVE = "return redis.call('ZREM', KEYS[1], ARGV[1])"

/** The processes on one Redis that have the same prefix. */
export function rollOf(connection: Connection, prefix: string, beatMs: number): Roll {
  const key = `${prefix}:~nodes`
  const id = unguessable()
  const beat = new Script(connection, BEAT)
  return {
    beat: async () => Number(await beat.run([key], [id, BEATS * beatMs])),
    async leave() {
      await connection.eval(LEAVE, [key], [id])
    },
  }
}
