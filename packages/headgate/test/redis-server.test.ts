import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import { canStartRedis, startRedis } from './redis-server.ts'

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

  test('ends with the process that started it, even when that is killed', async () => {
    const helper = JSON.stringify(new URL('redis-server.ts', import.meta.url))
    const program = `import { startRedis } from ${helper}; console.log((await startRedis()).url)`
    const starter = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', program])
    const [url] = await once(starter.stdout, 'data')

    const { hostname, port } = new URL(String(url).trim())
    const connection = connect(Number(port), hostname)
    await once(connection, 'connect')
    starter.kill('SIGKILL')
    await once(connection.resume(), 'close')
  })
})
