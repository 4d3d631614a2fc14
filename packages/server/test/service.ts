import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type OwnRedis, startRedis } from '../../headgate/test/redis-server.ts'
import { type Running, serve } from '../src/serve.ts'
import { type Child, startChild } from './child.ts'
import { startUpstream, type Upstream } from './upstream.ts'

/** Whatever a test starts here ends with it. */
export function ends<T>(started: T, end: (started: T) => unknown): T {
  onTestFinished(async () => void (await end(started)))
  return started
}

export function folder(): string {
  return ends(mkdtempSync(join(tmpdir(), 'headgate-')), (path) => rmSync(path, { recursive: true, force: true }))
}

export async function ownRedis(): Promise<OwnRedis> {
  return ends(await startRedis(), (redis) => redis.stop())
}

export async function behind(...args: Parameters<typeof startUpstream>): Promise<Upstream> {
  return ends(await startUpstream(...args), (upstream) => upstream.close())
}

/** A rules file on free ports of the loopback interface. */
export function rulesOf(limits: string, more = '', server = ''): string {
  const ports = `port: 0, adminPort: 0, grpcPort: false, host: 127.0.0.1, drainMs: 5000${server && `, ${server}`}`
  return `${more}\nserver: { ${ports} }\nlimits:\n${limits}\n`
}

export function rulesFile(text: string): string {
  const file = join(folder(), 'headgate.yaml')
  writeFileSync(file, text)
  return file
}

/** As deployments do it: readers find the old text or the new one. */
export function swapFile(file: string, text: string): void {
  writeFileSync(`${file}.new`, text)
  renameSync(`${file}.new`, file)
}

export interface Instance extends Running {
  readonly url: string
  readonly adminUrl: string
  readonly file: string
}

export async function instance(text: string, env: Readonly<Record<string, string>> = {}): Promise<Instance> {
  const file = rulesFile(text)
  const running = ends(await serve({ file, env }), (each) => each.stop())
  const [url, adminUrl] = [running.port, running.adminPort].map((port) => `http://127.0.0.1:${port}`)
  return Object.assign(running, { file, url: url as string, adminUrl: adminUrl as string })
}

export async function child(file: string, env?: Readonly<Record<string, string>>): Promise<Child> {
  return ends(await startChild(file, env), (each) => each.kill())
}
