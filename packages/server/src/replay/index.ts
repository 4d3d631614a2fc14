import type { Mode } from 'headgate'
import type { Rules } from '../config/schema.ts'
import type { Format } from './formats.ts'
import { LogFile } from './log-file.ts'
import { merged } from './merge.ts'
import { Replay } from './replay.ts'
import { type ReplayReport, reportOf, type Shown } from './report.ts'
import { UnreadLines } from './unread.ts'

export { type Format, formatNames } from './formats.ts'
export type { LimitReport, ReplayReport } from './report.ts'

export interface LogOptions extends Shown {
  readonly format?: Format | undefined
  readonly mode?: Exclude<Mode, 'off'> | undefined
  /** What `-` stands for. */
  input(): AsyncIterable<Uint8Array>
}

/** What rules would have made of the requests in these logs. */
export async function replayLogs(rules: Rules, names: readonly string[], options: LogOptions): Promise<ReplayReport> {
  const { format, mode, input } = options
  const unread = new UnreadLines()
  const files = names.map((name) => new LogFile(name, unread, format, name === '-' ? input : undefined))
  const replay = new Replay(rules, { mode })
  for await (const batch of merged(files.map((file) => file.requestsInOrder())))
    for (const logged of batch) replay.add(logged)
  return reportOf(replay, files, unread, rules, options)
}
