import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { canStartRedis, freePort, startRedis } from './redis-server.ts'
import { call, callAll } from './resp.ts'
import { until } from './until.ts'

describe.skipIf(!canStartRedis)('a Redis for tests', () => {
  test('answers commands and runs Lua', async () => {
    const redis = await startRedis()
    expect(await redis.call('PING')).toBe('PONG')
    expect(await redis.call('EVAL', 'return 1', '0')).toBe(1)
    expect(await redis.call('EVAL', 'return {1, ARGV[1], {false}}', '0', 'é')).toEqual([1, 'é', [null]])
    await expect(redis.call('NONSENSE')).rejects.toThrow('unknown command')
    await redis.stop()
  })

  test('never forgets a key to make room and writes nothing to disk', async () => {
    const redis = await startRedis()
    expect(await redis.call('CONFIG', 'GET', 'maxmemory-policy')).toEqual(['maxmemory-policy', 'noeviction'])
    expect(await redis.call('CONFIG', 'GET', 'save')).toEqual(['save', ''])
    expect(await redis.call('CONFIG', 'GET', 'appendonly')).toEqual(['appendonly', 'no'])
    await redis.stop()
  })

  test('gives its port back when it is stopped', async () => {
    const redis = await startRedis()
    await redis.stop()
    await expect(redis.call('PING')).rejects.toThrow('ECONNREFUSED')
  })

  test('two of them do not share keys', async () => {
    const [one, other] = await Promise.all([startRedis(), startRedis()])
    await one.call('SET', 'key', 'value')
    expect(await one.call('GET', 'key')).toBe('value')
    expect(await other.call('GET', 'key')).toBe(null)
    await Promise.all([one.stop(), other.stop()])
  })

  test('takes the port and the settings that it is given', async () => {
    const port = await freePort()
    const redis = await startRedis({ port, args: ['--maxmemory', '3mb'] })
    expect(redis.url).toBe(`redis://127.0.0.1:${port}`)
    expect(await redis.call('CONFIG', 'GET', 'maxmemory')).toEqual(['maxmemory', String(3 << 20)])
    await redis.stop()
  })

  test('answers nothing while it is paused, and then all', async () => {
    const redis = await startRedis()
    redis.pause()
    const answer = redis.call('PING')
    expect(await Promise.race([answer, sleep(50, 'silence')])).toBe('silence')
    redis.resume()
    expect(await answer).toBe('PONG')
    redis.pause()
    await redis.stop()
    await expect(redis.call('PING')).rejects.toThrow('ECONNREFUSED')
  })

  test('can be killed, and comes back on its port without its keys', async () => {
    const redis = await startRedis()
    await redis.call('SET', 'key', 'value')
    const { pid } = redis
    await redis.kill()
    await expect(redis.call('PING')).rejects.toThrow('ECONNREFUSED')
    await redis.restart()
    expect(await redis.call('GET', 'key')).toBe(null)
    expect(redis.pid).not.toBe(pid)
    await redis.restart()
    expect(await redis.call('PING')).toBe('PONG')
    await redis.stop()
  })

  test('takes commands that need one connection', async () => {
    const redis = await startRedis()
    const commands = [['MULTI'], ['SET', 'key', '1'], ['LPUSH', 'key', '1'], ['EXEC'], ['NONSENSE'], ['GET', 'key']]
    expect(await callAll(redis.url, commands)).toEqual([
      'OK',
      'QUEUED',
      'QUEUED',
      ['OK', expect.objectContaining({ message: expect.stringContaining('WRONGTYPE') })],
      expect.objectContaining({ message: expect.stringContaining('unknown command') }),
      '1',
    ])
    const long = 'é'.repeat(500_000)
    expect(
      await callAll(redis.url, [
        ['SET', 'key', long],
        ['GET', 'key'],
      ]),
    ).toEqual(['OK', long])
    await redis.stop()
  })

  test('ends with the process that started it and leaves no files, even when that is killed and this is paused', async () => {
    const helper = JSON.stringify(new URL('redis-server.ts', import.meta.url))
    const program = `import { startRedis } from ${helper}; console.log((await startRedis()).url)`
    const starter = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', program])
    const [line] = await once(starter.stdout, 'data')

    const url = String(line).trim()
    const [, folder] = (await call(url, ['CONFIG', 'GET', 'dir'])) as string[]
    const [, pid] = /process_id:(\d+)/.exec(String(await call(url, ['INFO', 'server']))) ?? []
    expect(existsSync(folder as string)).toBe(true)
    process.kill(Number(pid), 'SIGSTOP')
    starter.kill('SIGKILL')
    await until('the server to be gone', () =>
      call(url, ['PING']).then(
        () => undefined,
        (error) => error.code === 'ECONNREFUSED' || undefined,
      ),
    )
    await until('the folder to be gone', () => !existsSync(folder as string) || undefined)
  })
})
