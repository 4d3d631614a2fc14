import { HeadgateError, rejectUnknown, show } from '../errors.ts'
import { checkMs } from '../named-limit.ts'
import { Beside } from '../stores/beside.ts'
import { Members } from '../stores/members.ts'
import { memory } from '../stores/memory.ts'
import { Shared } from '../stores/shared.ts'
import type { IsHeld, Store } from '../stores/store.ts'
import { connectionOf } from './connection.ts'
import { rollOf } from './roll.ts'

export interface ShareOptions {
  /** How often a process says that it is alive: every 1,000 ms unless said otherwise. Who is silent for three is not counted. */
  readonly beatMs?: number
}

const BEAT_MS = 1_000

/** @param below Decides all other limits. */
export function sharedOf(client: unknown, below: Store, share: ShareOptions, isShared: IsHeld): Beside {
  rejectUnknown(share, ['beatMs'], '"share" of redis()')
  const { beatMs = BEAT_MS } = share
  checkMs(beatMs, '"beatMs" of "share"')
  if (beatMs < 50 || beatMs > 60_000)
    throw new HeadgateError('HG_OPTION_INVALID', `"beatMs" of "share" is ${show(beatMs)}: give 50 to 60,000 ms`, beatMs)
  const roll = rollOf(connectionOf(client), below.prefix ?? 'hg', Math.floor(beatMs))
  return new Beside(new Shared(memory(), new Members(roll, Math.floor(beatMs))), below, isShared)
}
