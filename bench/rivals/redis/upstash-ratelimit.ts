import { createHash } from 'node:crypto'
import { Ratelimit } from '@upstash/ratelimit'
import type { Redis } from 'ioredis'
import { keep } from '../rival.ts'
import { loadScript } from './evalsha.ts'
import type { RedisRival, RedisRivalOptions } from './rival.ts'

type Config = ConstructorParameters<typeof Ratelimit>[0]
type Answer = Awaited<ReturnType<Ratelimit['limit']>>

/** Fixed windows, the cheapest of its exact algorithms, and without its timeout, which costs a timer per decision. Its memory of
 *  denied keys is on by default and stays on. */
export function create({ limit, windowMs, client }: RedisRivalOptions): RedisRival<Answer> {
  const limiter = new Ratelimit({
    redis: adapt(client),
    limiter: Ratelimit.fixedWindow(limit, `${windowMs} ms`),
    timeout: 0,
  })
  return {
    kind: 'async',
    take: (key) => limiter.limit(key),
    read({ success, remaining, reset }) {
      keep(remaining, reset)
      return success
    },
  }
}

/** It knows only its own client, which speaks HTTP. Its scripts start with a flag that only its own service accepts; without that
 *  line they have another hash, so the hash it asks for is translated. */
function adapt(client: Redis): Config['redis'] {
  const shas = new Map<string, string>()
  const run = (sha: string, keys: string[], args: unknown[]) =>
    client.evalsha(sha, keys.length, ...keys, ...(args as string[]))
  const adapter = {
    evalsha(hash: string, keys: string[], args: unknown[]) {
      const sha = shas.get(hash)
      if (sha === undefined) throw new Error('NOSCRIPT not loaded yet')
      return run(sha, keys, args)
    },
    async eval(script: string, keys: string[], args: unknown[]) {
      const sha = await loadScript(client, script.replace(/^#!lua flags=allow-key-locking/, ''))
      shas.set(createHash('sha1').update(script).digest('hex'), sha)
      return run(sha, keys, args)
    },
  }
  return adapter as unknown as Config['redis']
}
