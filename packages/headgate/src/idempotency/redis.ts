import { HeadgateError, rejectUnknown, show } from '../errors.ts'
import { checkType } from '../named-limit.ts'
import { connectionOf } from '../redis/connection.ts'
import { Script } from '../redis/script-call.ts'
import { Patience } from './patience.ts'
import type { Begun, Replies } from './replies.ts'
import { decodeReply, encodeReply, type Reply } from './reply.ts'

export interface RedisRepliesOptions {
  /** What all keys start with: `hg` unless said otherwise. */
  readonly prefix?: string
  /** How long Redis may take to answer; 50 unless said otherwise. */
  readonly timeoutMs?: number
}

/** Keeps replies in Redis or Valkey, for all processes that use it. The client is the user's, who also closes it. */
export function redisReplies(client: unknown, options: RedisRepliesOptions = {}): Replies {
  return new RedisReplies(client, options)
}

/**
 * A name holds `r` and the token of who is at work, or `d` and the reply. It always has a time to live.
 * KEYS name  ARGV token, ms to live; to finish also the reply, or nothing to free the name
 * A client that lost its connection may send a call twice: the same token is first again, and finishes once more.
 */
const script = `
local held = redis.call('GET', KEYS[1])
local mine = 'r' .. ARGV[1]
if not ARGV[3] then
  if held and held ~= mine then return held end
  redis.call('SET', KEYS[1], mine, 'PX', ARGV[2])
  return ''
end
if held and held ~= mine then return held == ARGV[3] and 1 or 0 end
if ARGV[3] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2]) end
return 1
`

class RedisReplies implements Replies {
  readonly #script: Script
  readonly #prefix: string
  readonly #patience: Patience

  constructor(client: unknown, options: RedisRepliesOptions) {
    rejectUnknown(options, ['prefix', 'timeoutMs'], 'redisReplies()')
    const { prefix = 'hg', timeoutMs = 50 } = options
    checkType(prefix, 'string', '"prefix" of redisReplies()')
    if (!(Number.isFinite(timeoutMs) && timeoutMs > 0)) {
      const message = `"timeoutMs" of redisReplies() is ${show(timeoutMs)}: give milliseconds above 0`
      throw new HeadgateError('HG_OPTION_INVALID', message, timeoutMs)
    }
    this.#script = new Script(connectionOf(client), script)
    this.#prefix = prefix
    this.#patience = new Patience(timeoutMs)
  }

  async begin(name: string, token: string, lockMs: number): Promise<Begun> {
    const held = String(await this.#ask(name, [token, Math.ceil(lockMs)]))
    if (held === '') return 'first'
    return held.startsWith('d') ? decodeReply(held.slice(1)) : 'running'
  }

  async finish(name: string, token: string, reply: Reply | undefined, ttlMs: number): Promise<boolean> {
    const kept = reply === undefined ? '' : `d${encodeReply(reply)}`
    return Number(await this.#ask(name, [token, Math.ceil(ttlMs), kept])) === 1
  }

  #ask(name: string, args: readonly (string | number)[]): Promise<unknown> {
    return this.#patience.ask(() => this.#script.run([`${this.#prefix}:idempotency:${name}`], args))
  }
}
