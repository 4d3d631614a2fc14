// The load: wrk, which costs far less than a client in Node would and so leaves the machine to the server.
import { execFile, spawnSync } from 'node:child_process'
import { promisify } from 'node:util'
import { besides } from '../cores.ts'

export interface Load {
  readonly requests: number
  readonly perSecond: number
  readonly p50: number
  readonly p99: number
}

/** Says which. Where it is missing and may be installed, it is. */
export function findWrk(): string {
  if (version() === undefined && process.platform === 'linux' && process.getuid?.() === 0) {
    console.log('wrk is not on the PATH: apt-get install -y wrk')
    spawnSync('apt-get', ['install', '-y', 'wrk'], { stdio: 'ignore' })
  }
  const found = version()
  if (found === undefined) throw new Error('wrk is not on the PATH: apt-get install wrk, or brew install wrk')
  return found
}

function version(): string | undefined {
  const { error, stdout } = spawnSync('wrk', ['-v'], { encoding: 'utf8' }) // ends with 1, also where all is well
  return error === undefined ? stdout.split(' Copyright')[0] : undefined
}

export async function load(port: number, seconds: number, connections = 64): Promise<Load> {
  const options = ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', `http://127.0.0.1:${port}/`]
  const { stdout } = await promisify(execFile)(...besides('wrk', options))
  const wrong = /Non-2xx.*|Socket errors.*/.exec(stdout)?.[0]
  if (wrong !== undefined) throw new Error(`not all requests were answered as they should: ${wrong}`)
  return {
    requests: Number(found(stdout, /(\d+) requests in/)),
    perSecond: Number(found(stdout, /Requests\/sec: +([\d.]+)/)),
    p50: milliseconds(found(stdout, /50% +([\d.]+[mu]?s)/)),
    p99: milliseconds(found(stdout, /99% +([\d.]+[mu]?s)/)),
  }
}

function found(text: string, pattern: RegExp): string {
  const [, match] = pattern.exec(text) ?? []
  if (match === undefined) throw new Error(`wrk printed no ${pattern}:\n${text}`)
  return match
}

function milliseconds(text: string): number {
  const factor = text.endsWith('us') ? 0.001 : text.endsWith('ms') ? 1 : 1000
  return Number.parseFloat(text) * factor
}
