// Runs the engine's tests on Bun and on Deno: same files, same runner. `npm run test:runtimes`
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'

// No dependencies of ours: 200 MB that nothing but this script needs.
const runtimes = [
  {
    name: 'bun',
    version: '1.4.4',
    run: ['--bun'],
    not: /client.(adapters|sharing)|http.(conformance|node-bytes|node-lines)/,
  },
  {
    name: 'deno',
    version: '2.9.6',
    run: ['run', '-A', '--no-lock'],
    not: /client.sharing|http.(node-)?bytes|http.(node-lines|streams)/,
  },
]
// Tests with Redis are tests of child processes and of clients too, and those above tests of what a runtime has in place of
// `node:http` and undici: all differ from Node in ways that are not ours.
const nowhere =
  /redis.|fallback|graphql.(conservation|servers)|idempotency.(outage|processes|replies)|llm.conservation|remote.(outage|processes)/

const root = join(import.meta.dirname, '..')
const cache = join(root, 'node_modules', '.cache', 'runtimes')
const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs')
// Named one by one, as patterns of what to leave out do not reach the projects of the runner.
const engine = readdirSync(join(root, 'packages/headgate/src'), { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.test.ts'))
  .map((path) => join('packages/headgate/src', path))

if (runtimes.some(({ name, version }) => installed(name) !== version)) install()
// The last file makes sure that the workers of the runner do not fall back to Node.
const results = runtimes.map(({ name, version, run, not }) => {
  const tests = engine.filter((path) => !nowhere.test(path) && !not.test(path))
  const env = { ...process.env, HEADGATE_RUNTIME: name }
  const { status } = spawnSync(program(name), [...run, vitest, 'run', ...tests, 'scripts/runtimes.test.ts'], {
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
