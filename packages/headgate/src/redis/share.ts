import { HeadgateError, rejectUnknown, show } from '../errors.ts'
import { checkMs, checkType } from '../named-limit.ts'
import { Members } from '../stores/members.ts'
import { memory } from '../stores/memory.ts'
import { Shared } from '../stores/shared.ts'
import { connectionOf } from './connection.ts'
import { rollOf } from './roll.ts'

export interface ShareOptions {
  /** How often a process says that it is alive: every 1,000 ms unless said otherwise. Who is silent for three is not counted. */
  readonly beatMs?: number
}

const BEAT_MS = 1_000

export function sharedOf(client: unknown, options: { readonly prefix?: string }, share: ShareOptions): Shared {
  for (const name of Object.keys(options))
    if (name !== 'prefix')
      throw new HeadgateError(
        'HG_OPTION_CONFLICT',
        `redis() got "share" and ${show(name)}: with a share Redis keeps no counts, leave one of them out`,
        name,
      )
  const { prefix } = options
  checkType(prefix, 'string', '"prefix" of redis()')
  rejectUnknown(share, ['beatMs'], '"share" of redis()')
  const { beatMs = BEAT_MS } = share
  checkMs(beatMs, '"beatMs" of "share"')
  if (beatMs < 50 || beatMs > 60_000)
    throw new HeadgateError('HG_OPTION_INVALID', `"beatMs" of "share" is ${show(beatMs)}: give 50 to 60,000 ms`, beatMs)
  const roll = rollOf(connectionOf(client), prefix ?? 'hg', Math.floor(beatMs))
  return new Shared(memory(), new Members(roll, Math.floor(beatMs)), prefix)
}
