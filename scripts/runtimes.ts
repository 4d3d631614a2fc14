// Runs the engine's tests on Bun and on Deno: same files, same runner. `npm run test:runtimes`
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'

// No dependencies of ours: 200 MB that nothing but this script needs.
const runtimes = [
  { name: 'bun', version: '1.4.4', run: ['--bun'] },
  { name: 'deno', version: '2.9.6', run: ['run', '-A', '--no-lock'] },
]
// The second file makes sure that the workers of the runner do not fall back to Node.
const tests = ['packages/headgate/src', 'scripts/runtimes.test.ts']
// Tests with servers are tests of clients and of child processes too, which differ between runtimes in ways that are not ours.
const not = [
  'redis/**',
  'fallback.test.ts',
  'graphql/{conservation,servers}.test.ts',
  'idempotency/{outage,processes,replies}.test.ts',
  'llm/conservation.test.ts',
  'remote/{outage,processes}.test.ts',
].flatMap((path) => ['--exclude', `**/src/${path}`])

const root = join(import.meta.dirname, '..')
const cache = join(root, 'node_modules', '.cache', 'runtimes')
const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs')

if (runtimes.some(({ name, version }) => installed(name) !== version)) install()
const results = runtimes.map(({ name, version, run }) => {
  const env = { ...process.env, HEADGATE_RUNTIME: name }
  const { status } = spawnSync(program(name), [...run, vitest, 'run', ...tests, ...not], {
    cwd: root,
    env,
    stdio: 'inherit',
  })
  return { name, version, passed: status === 0 }
})
for (const { name, version, passed } of results) console.log(`${name} ${version}: ${passed ? 'passed' : 'FAILED'}`)
process.exitCode = results.every(({ passed }) => passed) ? 0 : 1

function program(name: string): string {
  return join(cache, 'node_modules', '.bin', name)
}

function installed(name: string): string | undefined {
  const { stdout } = spawnSync(program(name), ['--version'], { encoding: 'utf8' })
  return stdout?.match(/\d+\.\d+\.\d+/)?.[0]
}

function install(): void {
  const packages = runtimes.map(({ name, version }) => `${name}@${version}`)
  console.log(`Fetching ${packages.join(' and ')} ...`)
  // Their install scripts put the binary of this platform in place.
  const flags = ['--prefix', cache, '--no-save', '--no-package-lock', '--ignore-scripts=false', '--loglevel=error']
  const { status } = spawnSync('npm', ['install', ...flags, ...packages], { stdio: 'inherit' })
  if (status !== 0) throw new Error(`npm could not install ${packages.join(' and ')}`)
}
