import { Mask } from '../admin/mask.ts'
import { loadRules } from '../config/load.ts'
import { type Format, formatNames, type LimitReport, type ReplayReport, replayLogs } from '../replay/index.ts'
import type { Terminal } from './index.ts'
import { Misuse } from './misuse.ts'
import { aligned, duration, json, plain } from './text.ts'

/** What was given on the command line; absent: nothing. */
export interface ReplayFlags {
  readonly log: readonly string[]
  readonly format?: string
  readonly mode?: string
  readonly reveal?: boolean
  readonly json?: boolean
}

const MOST_LOGS = 100
const known = ['log', 'format', 'mode', 'reveal', 'json']

/** Says what rules would have made of the requests in logs. Exit code 1 if no request could be read. */
export async function replayCommand(
  file: string | undefined,
  flags: ReplayFlags,
  { env, out, input }: Pick<Terminal, 'env' | 'out' | 'input'>,
): Promise<number> {
  if (file === undefined) throw new Misuse('by which rules? Give a rules file before --log.')
  const { format, mode } = checked(flags)
  const { rules } = loadRules(file, env)
  const report = await replayLogs(rules, flags.log, {
    format,
    mode,
    input,
    mask: new Mask(),
    reveal: flags.reveal === true,
  })
  if (flags.json) out.write(json(report))
  else for (const part of partsOf(report)) out.write(part)
  return report.total.requests === 0 ? 1 : 0
}

function checked(flags: ReplayFlags): { format: Format | undefined; mode: 'enforce' | 'observe' | undefined } {
  const { log, format, mode } = flags
  const other = Object.keys(flags).find((name) => !known.includes(name))
  if (other !== undefined) throw new Misuse(`--${other} is of no use with --log: leave one of them out.`)
  if (log.length > MOST_LOGS) throw new Misuse(`there are ${log.length} logs: give at most ${MOST_LOGS}.`)
  const twice = log.find((name, i) => log.indexOf(name) !== i)
  if (twice !== undefined) throw new Misuse(`--log ${twice} is given twice: each request would count twice.`)
  if (mode !== undefined && mode !== 'enforce' && mode !== 'observe')
    throw new Misuse(`--mode is "${mode}": give enforce or observe, or leave it out to judge as the rules say.`)
  const chosen = formatNames.find((name) => name === format)
  if (format !== undefined && chosen === undefined)
    throw new Misuse(`--format is "${format}": give one of ${formatNames.join(', ')}.`)
  return { format: chosen, mode }
}

function* partsOf(report: ReplayReport): Generator<string> {
  const { logs, total, limits, notes, unread, from, to } = report
  const found = logs.map(({ file, format, requests }) => [
    plain(file),
    format ?? 'no format that is known',
    counted(requests, 'request'),
  ])
  yield aligned(found)
  if (from !== null && to !== null) yield `From ${from} to ${to}: ${verdict(total)}\n`
  if (limits.length > 0 && total.requests > 0) yield `\n${tableOf(limits)}`
  yield section('Cannot be judged from this log:', limits.flatMap(notJudged))
  yield section(
    'Denied most:',
    limits.flatMap(({ name, mostDenied }) =>
      mostDenied.map(({ key, denied }) => [name, plain([key].flat().join(', ')), number(denied)]),
    ),
  )
  yield section(
    'To know:',
    notes.map((note) => [plain(note)]),
  )
  yield section(
    `Not read: ${counted(unread.lines, 'line')}`,
    unread.groups.map(({ reason, lines, first }) => {
      const where = first.map(({ file, line }) => `${plain(file)}:${line}`).join(', ')
      return [number(lines), `${reason}:`, `${where}${lines > first.length ? ', …' : ''}`]
    }),
  )
}

function section(title: string, rows: readonly (readonly string[])[]): string {
  return rows.length === 0 ? '' : `\n${title}\n${aligned(rows, '  ')}`
}

function verdict({ requests, admitted, refused, refusedPercent, over, bad }: ReplayReport['total']): string {
  const watched = over - refused
  return [
    `of ${counted(requests, 'request')} ${number(admitted)} admitted`,
    `${number(refused)} refused (${refusedPercent}%)`,
    ...(watched > 0 ? [`${number(watched)} over a limit that is only observed`] : []),
    ...Object.entries(bad).map(([code, count]) => `${number(count)} bad, ${code}`),
  ].join(', ')
}

const HEAD = ['limit', 'mode', 'matched', 'denied', 'share', 'keys', 'longest wait', 'worst minute']

function tableOf(limits: readonly LimitReport[]): string {
  const rows = [HEAD, ...limits.map(rowOf)]
  const right = new Set(['matched', 'denied', 'share', 'keys'].map((name) => HEAD.indexOf(name)))
  const widths = HEAD.map((_, i) => Math.max(...rows.map((row) => (row[i] ?? '').length)))
  return aligned(rows.map((row) => row.map((cell, i) => (right.has(i) ? cell.padStart(widths[i] ?? 0) : cell))))
}

function rowOf(limit: LimitReport): string[] {
  const { name, mode, enforcePercent, matched, denied, deniedPercent, keys, longestWaitMs, worstMinute, notJudged } =
    limit
  const share = mode === 'enforce' && enforcePercent < 100 ? ` ${enforcePercent}%` : ''
  if (mode === 'off') return [name, 'off']
  if (matched === 0) return [name, mode + share, notJudged === null ? '0' : '?', notJudged === null ? '0' : '?']
  const wait = denied === 0 ? '' : longestWaitMs === null ? 'no wait helps' : duration(longestWaitMs)
  const worst =
    worstMinute === null
      ? ''
      : `${worstMinute.at.slice(0, 16)}Z: ${number(worstMinute.denied)} of ${number(worstMinute.matched)}`
  return [
    name,
    mode + share,
    number(matched),
    number(denied),
    `${deniedPercent}%`,
    keys === 0 ? '' : number(keys),
    wait,
    worst,
  ]
}

function notJudged({ name, notJudged: lack, nameless }: LimitReport): string[][] {
  return [
    ...(lack === null ? [] : [[name, counted(lack.requests, 'request'), `needs ${lack.needs.join(', ')}`]]),
    ...(nameless === 0 ? [] : [[name, counted(nameless, 'request'), 'do not say who sends them, and get 400']]),
  ]
}

function number(count: number): string {
  return count.toLocaleString('en-US')
}

function counted(count: number, what: string): string {
  return `${number(count)} ${what}${count === 1 ? '' : 's'}`
}
