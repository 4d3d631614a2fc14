import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { canStartRedis } from '../../test/redis-server.ts'
import { rig } from '../../test/redis-store.ts'
import { until } from '../../test/until.ts'

const file = fileURLToPath(new URL('../../test/idempotency-worker.ts', import.meta.url))

describe.skipIf(!canStartRedis)('two processes that share a Redis', { timeout: 60_000 }, () => {
  const redis = rig()

  async function start(lockMs: number): Promise<{ child: ChildProcess; url: string }> {
    const child = fork(file, { execArgv: ['--import', 'tsx'] })
    onTestFinished(() => void child.kill('SIGKILL'))
    child.send({ redisPort: redis.server.port, lockMs })
    const [port] = await once(child, 'message')
    return { child, url: `http://127.0.0.1:${port}` }
  }

  const runs = async () => Number(await redis.server.call('GET', 'runs'))
  const started = () => until('a handler to start', async () => ((await runs()) > 0 ? true : undefined))
  const send = (url: string) => fetch(url, { method: 'POST', body: 'pay', headers: { 'idempotency-key': '"k"' } })

  test('run one of many requests with one key, and both replay it', async () => {
    const all = await Promise.all([start(60_000), start(60_000)])
    let refused = 0
    const statuses = Array.from({ length: 40 }, async (_, i) => {
      const response = await send(all[i % 2]?.url as string)
      // The others are all refused before the first may end.
      if (response.status === 409 && ++refused === 39) for (const { child } of all) child.send('go on')
      return response.status
    })
    expect((await Promise.all(statuses)).sort()).toEqual([200, ...Array(39).fill(409)])
    expect(await runs()).toBe(1)
    for (const { url } of all) expect(await (await send(url)).text()).toBe('run 1')
  })

  test('free the key of a process that was killed, when its time is over', async () => {
    const [first, second] = await Promise.all([start(3_000), start(3_000)])
    const lost = send(first.url).catch(() => 'lost')
    await started()
    first.child.kill('SIGKILL')
    expect(await lost).toBe('lost')
    expect((await send(second.url)).status).toBe(409)
    second.child.send('go on')
    const answer = await until('the key to be free', async () => {
      const response = await send(second.url)
      return response.status === 409 ? undefined : response
    })
    expect(await answer.text()).toBe('run 2')
    expect(await (await send(second.url)).text()).toBe('run 2')
  })
})
