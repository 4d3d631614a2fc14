import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import { headgate, rulesFile } from '../../test/cli.ts'
import { combinedLine, jsonLine, logFile, START_MS } from '../../test/log.ts'
import { hasNginx, startNginx } from '../../test/nginx.ts'
import { folder } from '../../test/service.ts'
import { run } from './index.ts'

const RULES = 'limits: { per-ip: { limit: 2/min, by: [ip] }, per-key: { limit: 1/min, by: [api-key] } }'
const lines = [0, 1, 2, 3].map((i) => combinedLine({ atMs: START_MS + i * 1000, ip: '192.0.2.77' }))

describe('headgate simulate --log', () => {
  test('prints what would have happened, and what cannot be said', async () => {
    const log = logFile([...lines, 'garbage'])
    const { code, out, err } = await headgate(['simulate', rulesFile(RULES), '--log', log, '--reveal'])
    expect([code, err]).toEqual([0, ''])
    expect(out.replaceAll(log, 'access.log').split('\n')).toEqual([
      'access.log  combined  4 requests',
      'From 2026-11-16T10:00:00.000Z to 2026-11-16T10:00:03.000Z: of 4 requests 2 admitted, 2 refused (50%)',
      '',
      'limit    mode     matched  denied  share  keys  longest wait  worst minute',
      'per-ip   enforce        4       2    50%     1  28 s          2026-11-16T10:00Z: 2 of 4',
      'per-key  enforce        ?       ?',
      '',
      'Cannot be judged from this log:',
      '  per-key  4 requests  needs header authorization, header x-api-key',
      '',
      'Denied most:',
      '  per-ip  192.0.2.77  2',
      '',
      'To know:',
      '  times are in whole seconds: requests of one second are spread evenly over it, so bursts within a second do not show',
      '',
      'Not read: 1 line',
      '  1  is not in the format of its file:  access.log:5',
      '',
    ])
  })

  test('masks keys as the admin port does, unless it is asked to reveal them', async () => {
    const args = ['simulate', rulesFile(RULES), '--log', logFile(lines)]
    const { out } = await headgate(args)
    expect(out).not.toContain('192.0.2.77')
    expect(out).toMatch(/per-ip {2}192\.…[\da-f]{10} {2}2\n/)
    const { limits } = JSON.parse((await headgate([...args, '--json'])).out)
    expect(limits[0].mostDenied).toEqual([{ key: expect.stringMatching(/^192\.…/), denied: 2 }])
    const revealed = JSON.parse((await headgate([...args, '--json', '--reveal'])).out)
    expect(revealed.limits[0].mostDenied).toEqual([{ key: '192.0.2.77', denied: 2 }])
  })

  test('reads packed logs, several, of several servers, and standard input, in the order of their times', async () => {
    const rules = rulesFile('limits: { per-ip: { limit: 1/s, algorithm: fixed-window, by: [ip] } }')
    const at = (...seconds: number[]) => seconds.map((s) => jsonLine({ atMs: START_MS + s * 1000 }))
    const text = (all: readonly string[]) => Buffer.from(all.map((line) => `${line}\n`).join(''))
    // Each second is in two of them.
    const one = logFile(at(0, 2, 4, 6))
    const packed = logFile(Buffer.concat([gzipSync(text(at(0, 3))), gzipSync(text(at(4, 7)))]), 'access.log.1.gz')
    let out = ''
    const args = ['simulate', rules, '--log', one, '--log', packed, '--log', '-', '--json']
    const piped = async function* () {
      yield gzipSync(text(at(2, 3, 6, 7)))
    }
    const code = await run(args, {}, { write: (part) => (out += part) }, process.stderr, process, piped)
    const { total, logs, notes } = JSON.parse(out)
    expect(code).toBe(0)
    expect(logs.map(({ file, format, requests }: Record<string, unknown>) => [file, format, requests])).toEqual([
      [one, 'json', 4],
      [packed, 'json', 4],
      ['-', 'json', 4],
    ])
    expect(total).toMatchObject({ requests: 12, admitted: 6, refused: 6 })
    expect(notes).toEqual([])
  })

  test('a log that is not there, broken, or has no requests is told, with exit code 1', async () => {
    const rules = rulesFile(RULES)
    const gone = await headgate(['simulate', rules, '--log', '/nowhere/access.log'])
    expect(gone).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringContaining('/nowhere/access.log cannot be read: ENOENT'),
    })
    const cut = logFile(gzipSync(lines.join('\n')).subarray(0, 40), 'cut.gz')
    expect((await headgate(['simulate', rules, '--log', cut])).err).toContain(
      'cut.gz cannot be read: unexpected end of file',
    )
    const empty = await headgate(['simulate', rules, '--log', logFile(['# nothing'])])
    expect(empty.code).toBe(1)
    expect(empty.out).toContain('no format that is known')
    const wrong = await headgate(['simulate', rulesFile('limits: { a: { limit: 5/mn } }'), '--log', logFile(lines)])
    expect([wrong.code, wrong.err]).toEqual([1, expect.stringContaining('HG_RULES_LIMIT')])
  })

  test('what a log has cannot steer a terminal', async () => {
    const line = jsonLine({ atMs: START_MS, headers: { 'x-api-key': '\u001b[2Jk' } })
    const rules = rulesFile('limits: { per-key: { limit: 1/min, by: [api-key] } }')
    const { out } = await headgate(['simulate', rules, '--log', logFile([line, line]), '--reveal'])
    expect(out).toContain('per-key  \\u001b[2Jk  1')
  })

  test.each([
    [['simulate', '--log', 'a.log'], 'by which rules?'],
    [['simulate', 'r.yaml', '--log', 'a.log', '--fleet'], '--fleet is of no use with --log'],
    [['simulate', 'r.yaml', '--log', 'a.log', '--gateways', '3'], '--gateways is of no use with --log'],
    [['simulate', 'r.yaml', '--log', 'a.log', '--log', 'a.log'], 'is given twice'],
    [['simulate', 'r.yaml', '--log', 'a.log', '--mode', 'lease'], '--mode is "lease": give enforce or observe'],
    [
      ['simulate', 'r.yaml', '--log', 'a.log', '--format', 'apache'],
      '--format is "apache": give one of combined, json',
    ],
    [['simulate', 'r.yaml'], 'give --log'],
  ])('%j is misuse', async (args, message) => {
    expect(await headgate(args)).toMatchObject({ code: 2, out: '', err: expect.stringContaining(message) })
  })
})

// Where nginx is not installed there is nothing to log; in CI it is, see scripts/setup.mjs.
describe.skipIf(!hasNginx)('logs of a real nginx', () => {
  const formats = `
  log_format main '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for"';
  ${readFileSync(join(import.meta.dirname, '../../../../examples/before-you-enforce/nginx.conf'), 'utf8')}
  log_format timed '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" rt=$request_time key="$http_x_api_key" x_api_key="$http_x_api_key"';
  log_format json escape=json '{"msec":$msec,"remote_addr":"$remote_addr","request":"$request","status":$status,"request_time":$request_time,"http_x_api_key":"$http_x_api_key"}';`

  test.each([
    ['combined', undefined],
    ['main', undefined],
    ['timed', 2],
    ['replay', 2],
    ['json', 2],
  ])('%s', async (format, keys) => {
    const log = join(folder(), 'access.log')
    const url = await startNginx(
      `access_log ${log} ${format};\nlocation / { return 200; }\nlocation /login { return 401; }`,
      formats,
    )
    const asked = ['/', '/a"b', '/login', '/login?next=%2f', '//login', '/x y'.replace(' ', '%20'), '/login']
    for (const [i, path] of asked.entries()) await fetch(url + path, { headers: { 'X-Api-Key': `k${i % 2}` } })
    await until('the log', () => (readFileSync(log, 'utf8').split('\n').length > asked.length ? true : undefined))
    const rules = `
limits:
  all: { limit: 5/day }
  login: { limit: 2/day, by: [ip], when: { path: /login }, countWhen: { status: 401 }, mode: observe }
  per-key: { limit: 100/day, by: [header:x-api-key] }
  busy: { atOnce: 5 }`
    const { code, out } = await headgate(['simulate', rulesFile(rules), '--log', log, '--json', '--reveal'])
    const { total, limits, unread } = JSON.parse(out)
    expect([code, unread.lines]).toEqual([0, 0])
    expect(total).toMatchObject({ requests: 7, refused: 2 })
    const [all, login, perKey, busy] = limits
    expect(all).toMatchObject({ matched: 7, denied: 2 })
    expect(login).toMatchObject({ matched: 4, denied: 2, mostDenied: [{ key: '127.0.0.1', denied: 2 }] })
    if (keys === undefined) expect(perKey).toMatchObject({ matched: 0, notJudged: { requests: 7 } })
    else expect([perKey.matched, perKey.keys, perKey.notJudged]).toEqual([7, keys, null])
    expect(busy.notJudged).toEqual(keys === undefined ? { requests: 7, needs: ['how long requests took'] } : null)
  })
})
