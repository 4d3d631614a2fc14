import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, test } from 'vitest'
import type { LeaseJob } from '../../test/lease-worker.ts'
import { startProxy } from '../../test/proxy.ts'
import { canStartRedis } from '../../test/redis-server.ts'
import { rig } from '../../test/redis-store.ts'
import { until } from '../../test/until.ts'

const worker = fileURLToPath(new URL('../../test/lease-worker.ts', import.meta.url))
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
const RATE = 4_000
const BURST = 2_000
const LIFE_MS = 1_000

interface Span {
  readonly startUs: number
  readonly endUs: number
}

function read(file: string): Span[] {
  const bytes = readFileSync(file)
  const numbers = new Float64Array(
    bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length - (bytes.length % 16)),
  )
  return Array.from({ length: numbers.length / 2 }, (_, i) => ({
    startUs: numbers[2 * i] as number,
    endUs: numbers[2 * i + 1] as number,
  }))
}

/** By how much the takes that began and ended within some span of time, whichever, are more than the limit allows in it. */
function excess(spans: readonly Span[]): number {
  const ended = [...spans].sort((a, b) => a.endUs - b.endUs)
  let most = -Infinity
  for (let i = 0; i < spans.length; i += 7) {
    const fromUs = (spans[i] as Span).startUs
    let count = 0
    for (const { startUs, endUs } of ended) {
      if (startUs < fromUs) continue
      count++
      most = Math.max(most, count - BURST - ((endUs - fromUs) * RATE) / 1e6)
    }
  }
  return most
}

describe.skipIf(!canStartRedis)('four processes with leases of one key', { timeout: 120_000 }, () => {
  const own = rig()
  const folder = mkdtempSync(join(tmpdir(), 'headgate-leases-'))
  const children: ChildProcess[] = []
  afterAll(() => {
    for (const child of children) child.kill('SIGKILL')
    rmSync(folder, { recursive: true })
  })

  async function start(name: string, port = own.server.port): Promise<ChildProcess> {
    const child = fork(worker, { execArgv: ['--import', 'tsx'] })
    children.push(child)
    await once(child, 'message')
    const job: LeaseJob = {
      port,
      limit: `${RATE}/s burst ${BURST}`,
      lifeMs: LIFE_MS,
      file: join(folder, name),
      rates: [600, 600, 3_000, 100, 900, 0],
    }
    const atWork = once(child, 'message')
    child.send(job)
    await atWork
    return child
  }

  async function stop(child: ChildProcess): Promise<number> {
    const said = once(child, 'message')
    child.send('stop')
    const [{ atOnce }] = (await said) as [{ atOnce: number }]
    return atOnce
  }

  test('let through no more than burst + rate x time, though one is killed and one is stopped for longer than leases last', async () => {
    const [killed, stopped, third, fourth] = (await Promise.all(['0', '1', '2', '3'].map((name) => start(name)))) as [
      ChildProcess,
      ChildProcess,
      ChildProcess,
      ChildProcess,
    ]
    await sleep(1_700)
    killed.kill('SIGKILL')
    await sleep(300)
    stopped.kill('SIGSTOP')
    await sleep(1.6 * LIFE_MS)
    stopped.kill('SIGCONT')
    await sleep(1_500)
    const atOnce = (await Promise.all([stopped, third, fourth].map(stop))).reduce((sum, each) => sum + each, 0)
    const spans = [0, 1, 2, 3].flatMap((n) => read(join(folder, String(n))))
    // Clocks of one machine are told alike, to a part in a thousand.
    expect(excess(spans)).toBeLessThanOrEqual(1 + RATE * 0.005)
    expect(spans.length).toBeGreaterThan(RATE)
    expect(atOnce).toBeGreaterThan(spans.length / 4)
    // All is back once nobody holds any: what the killed one held is taken for spent, and comes back as such.
    await until('all to be back', async () => ((await own.server.call('DBSIZE')) === 0 ? true : undefined))
  })

  test('let through no more than that, though connections are cut, commands and replies are lost or late, and clients send again', async () => {
    const [first, second] = await Promise.all([startProxy(own.server), startProxy(own.server)])
    const names = ['cut', 'cut too', 'stalled', 'untouched']
    const ports = [first.port, first.port, second.port, own.server.port]
    const all = await Promise.all(names.map((name, i) => start(name, ports[i])))
    await sleep(1_200)
    await first.cut()
    await sleep(0.4 * LIFE_MS)
    await first.heal()
    // What was asked is done, and nobody hears of it until their leases are over; then the answers are lost.
    second.stall('replies')
    await sleep(1.3 * LIFE_MS)
    await second.cut()
    await second.heal()
    first.delay(40)
    second.stall('commands')
    await sleep(0.5 * LIFE_MS)
    await second.heal()
    await first.cut()
    await first.heal()
    await sleep(1_000)
    const atOnce = (await Promise.all(all.map(stop))).reduce((sum, each) => sum + each, 0)
    const spans = names.flatMap((name) => read(join(folder, name)))
    expect(first.accepted).toBeGreaterThan(4)
    expect(excess(spans)).toBeLessThanOrEqual(1 + RATE * 0.005)
    expect(spans.length).toBeGreaterThan(RATE)
    expect(atOnce).toBeGreaterThan(spans.length / 4)
    await until('all to be back', async () => ((await own.server.call('DBSIZE')) === 0 ? true : undefined))
    await Promise.all([first.stop(), second.stop()])
  })
})
