import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, test } from 'vitest'
import { freePort, startRedis } from '../../../headgate/test/redis-server.ts'
import { until } from '../../../headgate/test/until.ts'
import { startUpstream } from '../../test/upstream.ts'

const main = fileURLToPath(new URL('../../dist/main.js', import.meta.url))
const TOKEN = 'test-token'
const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

interface Started {
  readonly url: string
  readonly file: string
  readonly child: ChildProcess
  admin(path: string, init?: RequestInit): Promise<Response>
  readonly log: readonly string[]
}

/** The service as its own process, with two workers. */
async function start(limits: string, more = '', status = 200, listens = 0, ready?: Promise<unknown>): Promise<Started> {
  const behind = await startUpstream(async (_req, res) => {
    await ready
    res.writeHead(status).end('hello')
  })
  closing.push(() => behind.close())
  const file = join(mkdtempSync(join(tmpdir(), 'headgate-')), 'headgate.yaml')
  writeFileSync(file, rulesOf(limits, `upstream: ${behind.url}\n${more}`).replace('port: 0', `port: ${listens}`))
  const child = spawn(process.execPath, [main, 'serve', file], {
    env: { ...process.env, HEADGATE_ADMIN_TOKEN: TOKEN },
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true, // a group of its own, which can be told as one
  })
  closing.push(() => end(child))
  const log: string[] = []
  child.stdout?.on('data', (data) => log.push(...String(data).split('\n').filter(Boolean)))
  const serving = await until('the service', () => log.find((line) => line.includes('"serving"')))
  const { port, adminPort } = JSON.parse(serving)
  return {
    url: `http://127.0.0.1:${port}`,
    file,
    child,
    log,
    admin: (path, init = {}) =>
      fetch(`http://127.0.0.1:${adminPort}${path}`, {
        ...init,
        headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json', ...init.headers },
      }),
  }
}

function rulesOf(limits: string, more: string): string {
  return `${more}\ntimeoutMs: 5000\nserver: { port: 0, adminPort: 0, grpcPort: false, host: 127.0.0.1, workers: 2, drainMs: 5000 }\nlimits:\n${limits}\n`
}

async function end(child: ChildProcess): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return child.exitCode
  child.kill('SIGTERM')
  return new Promise((resolve) => child.once('exit', resolve))
}

/** On connections of their own, so that all workers get some. */
async function statuses(url: string, count: number): Promise<number[]> {
  const all = Array.from({ length: count }, () => fetch(url, { headers: { connection: 'close' } }))
  return (await Promise.all(all)).map(({ status }) => status)
}

/** What a stream says until that is enough. */
async function gather(stream: ReadableStream<Uint8Array>, isEnough: (text: string) => boolean): Promise<string> {
  let text = ''
  for await (const chunk of stream.pipeThrough(new TextDecoderStream())) {
    text += chunk
    if (isEnough(text)) break
  }
  return text
}

/** Its processes that serve. */
function pidsOf({ pid }: ChildProcess): number[] {
  return execFileSync('pgrep', ['-P', String(pid)])
    .toString()
    .trim()
    .split('\n')
    .map(Number)
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

const admitted = (all: readonly number[]) => all.filter((status) => status === 200).length

describe('several processes', () => {
  test('share exact counts in memory', async () => {
    const { url } = await start('  per-ip: { limit: 40/h, by: [ip] }')
    expect(admitted(await statuses(url, 120))).toBe(40)
  })

  test('share exact counts in Redis', async () => {
    const server = await startRedis()
    closing.push(() => server.stop())
    const { url } = await start('  per-ip: { limit: 40/h, by: [ip] }', `store: redis://127.0.0.1:${server.port}`)
    expect(admitted(await statuses(url, 120))).toBe(40)
  })

  test('one that is killed is replaced, and nothing that was counted is lost', async () => {
    // Of its own, so that it stays the same should nobody listen for a moment: the other process may not be as far.
    const port = await freePort()
    const limits = '  per-ip: { limit: 40/h, by: [ip] }\n  busy: { atOnce: 100 }'
    const { url, log, admin, child } = await start(limits, '', 200, port)
    expect(admitted(await statuses(url, 30))).toBe(30)
    const pids = pidsOf(child)
    expect(pids.length).toBeGreaterThanOrEqual(2)
    process.kill(pids[0] as number, 'SIGKILL')
    await until('the news', () => log.some((line) => line.includes('is replaced')) || undefined)
    const counts = await until('answers again', () => statuses(url, 40))
    // Requests that were in the killed process are all that may be missing.
    expect(admitted(counts)).toBeLessThanOrEqual(10)
    expect((await admin('/readyz')).status).toBe(200)
  })

  test('one that is killed is replaced also while the rules file is broken, and by one that is like the others', async () => {
    // Of its own, so that it stays the same while for a moment nobody listens.
    const port = await freePort()
    const { url, file, log, child } = await start('  per-ip: { limit: 40/h, by: [ip] }', '', 200, port)
    expect(admitted(await statuses(url, 10))).toBe(10)
    const good = readFileSync(file, 'utf8')
    const replaced = () => log.filter((line) => line.includes('is replaced')).length
    const kill = async () => {
      const before = replaced()
      const [pid] = pidsOf(child)
      process.kill(Number(pid), 'SIGKILL')
      await until('the news', () => replaced() > before || undefined)
    }
    writeFileSync(file, 'limits: [')
    await until('it is refused', () => log.some((line) => line.includes('rules refused')) || undefined)
    await kill()
    await until('two at work', () => pidsOf(child).length === 2 || undefined)
    expect(replaced()).toBe(1)
    writeFileSync(file, good.replace('40/h', '60/h').replace('server:', 'store: redis://127.0.0.1:1\nserver:'))
    await until('other rules hold', () => log.some((line) => line.includes('hold after a restart only')) || undefined)
    await kill()
    await until('two at work', () => pidsOf(child).length === 2 || undefined)
    // All of them count in one place, and nobody asks a Redis that is not there.
    await until('50 more are let through', async () => {
      const { status } = await fetch(url, { headers: { connection: 'close' } })
      return status === 429 || undefined
    })
    expect(replaced()).toBe(2)
  })

  test('start again though an exception has lost its limit; while none of them serves, the service is not ready', async () => {
    const port = await freePort()
    const { url, file, log, admin, child } = await start(
      '  per-ip: { limit: 40/h, by: [ip] }\n  extra: { limit: 9/h, by: [ip] }',
      '',
      200,
      port,
    )
    const override = { limit: 'extra', key: '192.0.2.1', to: '1/h', forMs: 3_600_000 }
    expect((await admin('/admin/v1/overrides', { method: 'POST', body: JSON.stringify(override) })).status).toBe(201)
    writeFileSync(file, readFileSync(file, 'utf8').replace(/ {2}extra.*/, ''))
    await until('other rules hold', () => log.some((line) => line.includes('rules replaced')) || undefined)
    for (const pid of pidsOf(child)) process.kill(pid, 'SIGKILL')
    await until('nobody serves', async () => (await admin('/readyz')).status === 503 || undefined)
    await until('it is ready', async () => (await admin('/readyz')).status === 200 || undefined)
    expect(admitted(await until('answers again', () => statuses(url, 10)))).toBe(10)
    expect(log.filter((line) => line.includes('is replaced'))).toHaveLength(2)
  })

  test('hold new rules, modes and exceptions, whoever has the admin port', async () => {
    const { url, file, admin } = await start('  per-ip: { limit: 5/h, by: [ip] }')
    expect(admitted(await statuses(url, 10))).toBe(5)
    const put = await admin('/admin/v1/limits/per-ip/mode', {
      method: 'PUT',
      body: JSON.stringify({ mode: 'observe' }),
    })
    expect(put.status).toBe(200)
    await until('nobody refused', async () => admitted(await statuses(url, 10)) === 10 || undefined)
    await admin('/admin/v1/limits/per-ip/mode', { method: 'PUT', body: JSON.stringify({ mode: 'enforce' }) })
    await until('all refused', async () => admitted(await statuses(url, 10)) === 0 || undefined)
    writeFileSync(file, readFileSync(file, 'utf8').replace('5/h', '1000/h'))
    await until('room again', async () => admitted(await statuses(url, 10)) === 10 || undefined)
  })

  test.each(['memory', 'Redis'])(
    'hold rules that were put, counting in %s, and so does one that starts later',
    async (kind) => {
      const server = kind === 'Redis' ? await startRedis() : undefined
      closing.push(() => server?.stop())
      const store = server === undefined ? 'memory' : `redis://127.0.0.1:${server.port}`
      const { url, file, admin, child } = await start('  per-ip: { limit: 5/h, by: [ip] }', `store: ${store}`)
      const put = await admin('/admin/v1/rules', {
        method: 'PUT',
        body: readFileSync(file, 'utf8').replace('5/h', '1000/h'),
        headers: { 'content-type': 'application/yaml' },
      })
      expect(put.status).toBe(200)
      await until('all let through', async () => admitted(await statuses(url, 20)) === 20 || undefined)
      expect(admitted(await statuses(url, 20))).toBe(20)
      const [pid = 0] = pidsOf(child)
      process.kill(pid, 'SIGKILL')
      await until('another', () => (pidsOf(child).length === 2 && !pidsOf(child).includes(pid)) || undefined)
      await until('all let through', async () => admitted(await statuses(url, 20)) === 20 || undefined)
      expect((await (await admin('/admin/v1/rules')).text()).includes('1000/h')).toBe(true)
    },
  )

  test('obey at once while Redis is away', async () => {
    const server = await startRedis()
    closing.push(() => server.stop())
    const { url, admin } = await start('  per-ip: { limit: 5/h, by: [ip] }', `store: redis://127.0.0.1:${server.port}`)
    await server.kill()
    await until('each counts by itself', async () => admitted(await statuses(url, 20)) === 0 || undefined)
    const body = JSON.stringify({ mode: 'observe' })
    expect((await admin('/admin/v1/limits/per-ip/mode', { method: 'PUT', body })).status).toBe(200)
    await until('nobody refused', async () => admitted(await statuses(url, 20)) === 20 || undefined)
  })

  test('all let in again whose counts in Redis were reset, though each knew that it was refused', async () => {
    const server = await startRedis()
    closing.push(() => server.stop())
    const year = '  per-ip: { limit: { limit: 100, per: 1year, algorithm: fixed-window }, by: [ip] }'
    const { url, admin } = await start(year, `store: redis://127.0.0.1:${server.port}`)
    expect(admitted(await statuses(url, 140))).toBe(100)
    expect((await admin('/admin/v1/keys/per-ip/127.0.0.1', { method: 'DELETE' })).status).toBe(204)
    await until('nobody refused', async () => admitted(await statuses(url, 20)) === 20 || undefined)
  })

  test('are told of in one set of metrics', async () => {
    const { url, admin } = await start('  per-ip: { limit: 7/h, by: [ip] }')
    await statuses(url, 20)
    await until('all counted', async () => {
      const text = await (await admin('/metrics')).text()
      const count = (outcome: string) =>
        Number(new RegExp(`headgate_decisions_total\\{limit="per-ip",outcome="${outcome}"\\} (\\d+)`).exec(text)?.[1])
      return (count('allowed') === 7 && count('denied') === 13) || undefined
    })
    const top = await (await admin('/admin/v1/top?n=5')).text()
    expect(top).toContain('"count":20')
  })

  test('each protects itself, are told of as one, and all obey the kill switch', async () => {
    const overload = 'overload: { concurrency: 6, utilisation: false, fleet: { limit: 10/day, reserve: 50 } }'
    const { url, admin } = await start('  per-ip: { limit: 1000/h, by: [ip] }', overload)
    expect(admitted(await statuses(url, 20))).toBe(5)
    await until(
      'slots of both',
      async () => (await (await admin('/metrics')).text()).includes('headgate_overload_limit 12') || undefined,
    )
    await admin('/admin/v1/overload', { method: 'PUT', body: JSON.stringify({ mode: 'off' }) })
    await until('nobody refused', async () => admitted(await statuses(url, 10)) === 10 || undefined)
    await admin('/admin/v1/overload', { method: 'PUT', body: JSON.stringify({ mode: 'enforce' }) })
    await until('all refused', async () => admitted(await statuses(url, 10)) === 0 || undefined)
    await until(
      'all counted',
      async () =>
        /headgate_shed_total\{priority="normal",reason="fleet"\} \d{2}/.test(await (await admin('/metrics')).text()) ||
        undefined,
    )
  })

  test('each spare an upstream that is sick, and are told of as one', async () => {
    const { url, admin } = await start('  per-ip: { limit: 1000/h, by: [ip] }', '', 503)
    const events = (await admin('/admin/v1/events')).body as ReadableStream<Uint8Array>
    const tellers = (text: string) => new Set(text.match(/(?<=event: breaker\n.*"worker":)\d+/g))
    const told = gather(events, (text) => tellers(text).size === 2)
    await until('breakers of both', async () => {
      expect(new Set(await statuses(url, 40))).toEqual(new Set([503]))
      const text = await (await admin('/metrics')).text()
      return /headgate_breaker_open\{upstream="upstream-1",url=".*"\} 2/.test(text) || undefined
    })
    expect(tellers(await told).size).toBe(2)
  })

  test.each(['SIGTERM', 'SIGINT'] as const)(
    'finish what is under way though all of them are told %s at once',
    async (signal) => {
      let release = () => {}
      const ready = new Promise<void>((resolve) => {
        release = resolve
      })
      const { url, admin, child } = await start('  per-ip: { limit: 1000/h, by: [ip] }', '', 200, 0, ready)
      const all = statuses(url, 8)
      await until('all under way', async () =>
        /headgate_decisions_total\{limit="per-ip",outcome="allowed"\} 8/.test(await (await admin('/metrics')).text())
          ? true
          : undefined,
      )
      process.kill(-(child.pid as number), signal)
      await until('they end', async () => (await admin('/readyz')).status === 503 || undefined)
      release()
      expect(admitted(await all)).toBe(8)
      expect(await until('its end', () => child.exitCode ?? undefined)).toBe(0)
    },
  )

  test('all end at once when told so twice', async () => {
    const never = new Promise(() => {})
    const { url, admin, child } = await start('  per-ip: { limit: 1000/h, by: [ip] }', '', 200, 0, never)
    const pids = pidsOf(child)
    const cut = fetch(url).catch(() => 'cut')
    const group = -(child.pid as number)
    process.kill(group, 'SIGINT')
    await until('they end', async () => (await admin('/readyz')).status === 503 || undefined)
    process.kill(group, 'SIGINT')
    expect(await cut).toBe('cut')
    await until('all gone', () => pids.every((pid) => !isAlive(pid)) || undefined)
  })

  test('read the rules again, and go on, when all of them are told SIGHUP', async () => {
    const overload = 'overload: { concurrency: 6, utilisation: false }'
    const { url, log, admin, child } = await start('  per-ip: { limit: 1000/h, by: [ip] }', overload)
    await until('both serve', async () => {
      await statuses(url, 10)
      return (await (await admin('/metrics')).text()).includes('headgate_overload_limit 12') || undefined
    })
    const pids = pidsOf(child)
    process.kill(-(child.pid as number), 'SIGHUP')
    await until('the rules', () => log.some((line) => line.includes('"origin":"SIGHUP"')) || undefined)
    expect(admitted(await statuses(url, 10))).toBe(10)
    expect(pidsOf(child)).toEqual(pids)
  })

  test('end together, and lose no request', async () => {
    const { url, child } = await start('  per-ip: { limit: 1000/h, by: [ip] }')
    const all = statuses(url, 50)
    await Promise.race([all, until('some', () => true)])
    expect(admitted(await all)).toBe(50)
    expect(await end(child)).toBe(0)
  })
})
