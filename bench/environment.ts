// A figure without its machine, versions and commit says nothing.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { cpus, loadavg, release, totalmem } from 'node:os'
import { join } from 'node:path'

export interface Environment {
  readonly machine: string
  readonly node: string
  readonly commit: string
  readonly loadBefore: number
  readonly versions: Readonly<Record<string, string>>
}

export function describeEnvironment(): Environment {
  const cores = cpus()
  const gibibytes = Math.round(totalmem() / 2 ** 30)
  return {
    machine: `${cores[0]?.model.trim() ?? 'unknown processor'}, ${cores.length} cores, ${gibibytes} GiB, ${process.platform} ${release()}`,
    node: process.version,
    commit: commit(),
    loadBefore: loadavg()[0],
    versions: versions(),
  }
}

export function printEnvironment(
  { machine, node, commit, loadBefore, versions }: Environment,
  { name, rounds, quick }: { name: string; rounds: number; quick: boolean },
): void {
  const packages = Object.entries(versions).map(([name, version]) => `${name} ${version}`)
  console.log(
    `${name}: ${rounds === 1 ? '1 round' : `${rounds} rounds`}${quick ? ', quick: too short to quote' : ''}, commit ${commit}, node ${node}`,
  )
  console.log(`${machine}; load before ${loadBefore.toFixed(2)}${loadBefore > 0.5 ? ' (not quiet)' : ''}`)
  console.log(packages.join(', '))
}

function commit(): string {
  try {
    const git = (...args: string[]) =>
      execFileSync('git', args, { cwd: import.meta.dirname, encoding: 'utf8', stdio: 'pipe' })
    const changed = git('status', '--porcelain', '--untracked-files=no') !== ''
    return git('rev-parse', '--short', 'HEAD').trim() + (changed ? ' with changes' : '')
  } catch {
    return 'unknown'
  }
}

function versions(): Record<string, string> {
  const own = readJson(join(import.meta.dirname, '../package.json')) as { devDependencies: Record<string, string> }
  return Object.fromEntries(Object.keys(own.devDependencies).map((name) => [name, installedVersion(name)]))
}

/** Looked up as a file: several packages do not export their package.json. */
function installedVersion(name: string): string {
  const folders = createRequire(import.meta.url).resolve.paths(name) ?? []
  const file = folders.map((folder) => join(folder, name, 'package.json')).find((path) => existsSync(path))
  return file === undefined ? 'missing' : (readJson(file) as { version: string }).version
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(path, 'utf8'))
}
