import { HeadgateError } from '../errors.ts'
import { type Connection, wordOf } from './connection.ts'

const OLDEST = [6, 2]
const FULL = 0.9

/** What about a server would make limits fail, or fail to hold, in plain words. */
export async function selfTest(connection: Connection): Promise<HeadgateError[]> {
  const problems: HeadgateError[] = []
  const found = (message: string) => problems.push(new HeadgateError('HG_REDIS_SETUP', message))
  const [info, evaluated] = await Promise.allSettled([
    connection.command('INFO'),
    connection.eval("return redis.call('TIME')", [], []),
  ])
  if (evaluated.status === 'rejected') {
    const word = wordOf(evaluated.reason)
    // Nobody answered: that is no question of the set-up.
    if (word === undefined) throw evaluated.reason
    if (word === 'NOPERM')
      found('the user of Redis may not run scripts: allow it EVAL and EVALSHA (ACL SETUSER … +eval +evalsha)')
    // Else it was not reached, and decisions say so.
    else if (word !== undefined) found(`Redis does not run scripts: ${textOf(evaluated.reason)}`)
  }
  if (info.status === 'rejected') return problems
  const read = readerOf(info.value)
  const version = read('redis_version') ?? ''
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major > 0 && (major < (OLDEST[0] as number) || (major === OLDEST[0] && minor < (OLDEST[1] as number))))
    found(`Redis ${version} is too old: use ${OLDEST.join('.')} or later, or Valkey`)
  const policy = read('maxmemory_policy') ?? 'noeviction'
  const [most, used] = [Number(read('maxmemory') ?? 0), Number(read('used_memory') ?? 0)]
  if (most > 0 && policy !== 'noeviction' && policy !== 'volatile-ttl') {
    found(
      `maxmemory-policy ${policy} forgets counts of callers that are being refused when memory is full: ` +
        'use noeviction, or volatile-ttl, which forgets first who is soonest free',
    )
  }
  if (most > 0 && policy === 'noeviction' && used > FULL * most)
    found(
      `Redis uses ${Math.round((100 * used) / most)} % of its maxmemory and refuses to count when that is full: raise it`,
    )
  if (read('cluster_enabled') === '1' && !connection.cluster)
    found('the server is a node of a cluster, the client is not made for one: use the cluster client of your library')
  if (read('role') === 'slave' && !connection.cluster)
    found('the server is a replica and takes no writes: connect to the master, or by Sentinel')
  return problems
}

function textOf(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason)
}

/** A cluster client may answer for each node. */
function readerOf(info: unknown): (field: string) => string | undefined {
  const text = typeof info === 'string' ? info : JSON.stringify(info).replaceAll('\\r\\n', '\n')
  return (field) => new RegExp(`(?:^|[\\n"])${field}:([^\\r\\n"]*)`).exec(text)?.[1]
}
