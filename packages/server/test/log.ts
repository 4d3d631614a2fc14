import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Mask } from '../src/admin/mask.ts'
import { parseRules } from '../src/config/index.ts'
import { type ReplayReport, replayLogs } from '../src/replay/index.ts'
import { folder } from './service.ts'

export const START_MS = Date.UTC(2026, 10, 16, 10, 0, 0)

/** What a server that logs JSON would write of a request. */
export interface Line {
  readonly atMs: number
  readonly ip?: string
  readonly method?: string
  readonly url?: string
  readonly status?: number
  readonly tookMs?: number
  readonly headers?: Readonly<Record<string, string>>
}

export function jsonLine({
  atMs,
  ip = '192.0.2.1',
  method = 'GET',
  url = '/',
  status = 200,
  tookMs,
  headers,
}: Line): string {
  const req = { method, url, remoteAddress: ip, ...(headers && { headers }) }
  return JSON.stringify({ time: atMs, req, res: { statusCode: status }, responseTime: tookMs })
}

/** As Apache and nginx write it, by the second. */
export function combinedLine(
  { atMs, ip = '192.0.2.1', method = 'GET', url = '/', status = 200 }: Line,
  more = '',
): string {
  const [, day, month, year, time] = new Date(atMs).toUTCString().split(' ')
  return `${ip} - - [${day}/${month}/${year}:${time} +0000] "${method} ${url} HTTP/1.1" ${status} 12 "-" "curl/8"${more}`
}

export function logFile(lines: readonly string[] | Uint8Array, name = 'access.log'): string {
  const file = join(folder(), name)
  writeFileSync(file, lines instanceof Uint8Array ? lines : lines.map((line) => `${line}\n`).join(''))
  return file
}

/** What rules make of one log, with keys as they are. */
export function replayed(rules: string, lines: readonly string[], options = {}): Promise<ReplayReport> {
  const input = () => {
    throw new Error('nothing is piped in')
  }
  const shown = { mask: new Mask(), reveal: true, input, ...options }
  return replayLogs(parseRules(rules).rules, [logFile(lines)], shown)
}

export function limitOf({ limits }: ReplayReport, name: string): ReplayReport['limits'][number] {
  const found = limits.find((each) => each.name === name)
  if (found === undefined) throw new Error(`no limit ${name}`)
  return found
}
