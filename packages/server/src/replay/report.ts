import type { Mode } from 'headgate'
import type { Mask, ShownKey } from '../admin/mask.ts'
import type { Rules } from '../config/schema.ts'
import type { LogFile } from './log-file.ts'
import type { Replay } from './replay.ts'
import type { Tally } from './tally.ts'
import type { UnreadGroup, UnreadLines } from './unread.ts'

/** What rules would have made of logs, as data. */
export interface ReplayReport {
  readonly logs: readonly {
    readonly file: string
    readonly format: string | null
    readonly lines: number
    readonly requests: number
  }[]
  /** The first and the last request. */
  readonly from: string | null
  readonly to: string | null
  readonly total: {
    readonly requests: number
    readonly admitted: number
    readonly refused: number
    readonly refusedPercent: number
    /** Over some limit, enforced or not. */
    readonly over: number
    /** Refused with 400: they do not say who sends them. */
    readonly bad: Readonly<Record<string, number>>
  }
  readonly limits: readonly LimitReport[]
  readonly notes: readonly string[]
  readonly unread: { readonly lines: number; readonly groups: readonly UnreadGroup[] }
}

export interface LimitReport {
  readonly name: string
  readonly mode: Mode
  readonly enforcePercent: number
  readonly matched: number
  readonly admitted: number
  readonly denied: number
  readonly deniedPercent: number
  /** Of the denied: those that it only watches. */
  readonly observed: number
  readonly heldBack: number
  /** One counter for all has none; beyond 250,000 they are not counted on. */
  readonly keys: number
  readonly worstMinute: { readonly at: string; readonly matched: number; readonly denied: number } | null
  /** Null: waiting would not have helped somebody. */
  readonly longestWaitMs: number | null
  readonly mostDenied: readonly { readonly key: ShownKey; readonly denied: number }[]
  readonly nameless: number
  /** Requests that it may concern, and what of them the log does not tell. */
  readonly notJudged: { readonly requests: number; readonly needs: readonly string[] } | null
  readonly assumedAbsent: readonly string[]
}

const MOST_DENIED = 5

export interface Shown {
  readonly mask: Mask
  readonly reveal: boolean
}

export function reportOf(
  replay: Replay,
  files: readonly LogFile[],
  unread: UnreadLines,
  rules: Rules,
  shown: Shown,
): ReplayReport {
  const { requests, refused, over, bad, firstMs, lastMs } = replay.totals
  const badRequests = [...bad.values()].reduce((sum, each) => sum + each, 0)
  return {
    logs: files.map(({ file, format = null, lines, requests: read }) => ({ file, format, lines, requests: read })),
    from: requests === 0 ? null : new Date(firstMs).toISOString(),
    to: requests === 0 ? null : new Date(lastMs).toISOString(),
    total: {
      requests,
      admitted: requests - refused - badRequests,
      refused,
      refusedPercent: percent(refused, requests),
      over,
      bad: Object.fromEntries(bad),
    },
    limits: [...replay.tallies].map(([name, tally]) => limitReport(name, tally, replay, shown)),
    notes: notesOf(replay, files, rules),
    unread: { lines: unread.lines, groups: unread.groups },
  }
}

function limitReport(name: string, tally: Tally, { modes }: Replay, { mask, reveal }: Shown): LimitReport {
  const { matched, denied, observed, heldBack, keys, worstMinute, never, longestWaitMs, nameless, notJudged } = tally
  const { mode = 'enforce', enforcePercent = 100 } = modes.get(name) ?? {}
  return {
    name,
    mode,
    enforcePercent,
    matched,
    admitted: matched - denied,
    denied,
    deniedPercent: percent(denied, matched),
    observed,
    heldBack,
    keys,
    worstMinute:
      worstMinute === undefined
        ? null
        : { at: new Date(worstMinute.atMs).toISOString(), matched: worstMinute.matched, denied: worstMinute.denied },
    longestWaitMs: never > 0 ? null : longestWaitMs,
    mostDenied: tally
      .mostDenied(MOST_DENIED)
      .map((each) => ({ key: mask.encoded(each.key, reveal) as ShownKey, denied: each.denied })),
    nameless,
    notJudged: notJudged === 0 ? null : { requests: notJudged, needs: [...tally.lacking] },
    assumedAbsent: [...tally.assumedAbsent],
  }
}

/** To a hundredth. */
function percent(part: number, all: number): number {
  return all === 0 ? 0 : Math.round((10_000 * part) / all) / 100
}

function notesOf({ tallies, totals }: Replay, files: readonly LogFile[], rules: Rules): string[] {
  const all = [...tallies]
  const names = (isMeant: (tally: Tally) => boolean) => all.filter(([, tally]) => isMeant(tally)).map(([name]) => name)
  const many = names(({ hasMoreKeys }) => hasMoreKeys)
  const delayed = names(({ heldBack }) => heldBack > 0)
  return [
    ...(files.some(({ inWholeSeconds }) => inWholeSeconds > 0)
      ? [
          'times are in whole seconds: requests of one second are spread evenly over it, so bursts within a second do not show',
        ]
      : []),
    ...(totals.late > 0 ? [late(totals.late)] : []),
    ...all.flatMap(([name, { assumedAbsent }]) =>
      assumedAbsent.size === 0
        ? []
        : [`${name}: requests are taken to have no ${[...assumedAbsent].join(', ')}, which the log does not tell`],
    ),
    ...delayed.map(
      (name) => `${name}: some denials would have been held back instead (delayMs); here they count as denied`,
    ),
    ...many.map((name) => `${name}: keys beyond these were judged, but not counted as keys`),
    ...(rules.overload === undefined ? [] : ['overload protection depends on what machines do, and is not replayed']),
  ]
}

function late(requests: number): string {
  return requests === 1
    ? '1 request stands more than a minute behind its time, and was decided at the time of the one before it'
    : `${requests} requests stand more than a minute behind their time, and were decided at the time of those before them`
}
