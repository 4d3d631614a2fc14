// What the server itself says about its work. A connection of its own, so that asking does not touch the one that is measured.
import { Redis } from 'ioredis'
import { parseInfo } from './server.ts'

export function connect(port: number): Redis {
  return new Redis({ port, host: '127.0.0.1' })
}

/** Nothing is left of the variant before: keys, scripts, counts. */
export async function empty(control: Redis): Promise<void> {
  await control.flushall('SYNC')
  await control.script('FLUSH', 'SYNC')
  await control.config('RESETSTAT')
}

/** The whole process and not the main thread alone: what is freed in the background was also caused by decisions. */
export async function redisCpuUs(control: Redis): Promise<number> {
  const info = parseInfo(await control.info('cpu'))
  return (Number(info.used_cpu_user) + Number(info.used_cpu_sys)) * 1e6
}

/** Calls from outside: what a script calls inside is counted under other names. */
export async function scriptCalls(control: Redis): Promise<number> {
  const info = parseInfo(await control.info('commandstats'))
  const calls = ['eval', 'evalsha', 'fcall'].map(
    (name) => /calls=(\d+)/.exec(info[`cmdstat_${name}`] ?? '')?.[1] ?? '0',
  )
  return calls.reduce((sum, count) => sum + Number(count), 0)
}
