// Says hello: nginx, which takes so little of the machine that a proxy in front of it is what is measured.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** Says which. Where it is missing and may be installed, it is. */
export function findNginx(): string {
  if (version() === undefined && process.platform === 'linux' && process.getuid?.() === 0) {
    console.log('nginx is not on the PATH: apt-get install -y nginx-light')
    spawnSync('apt-get', ['install', '-y', 'nginx-light'], { stdio: 'ignore' })
  }
  const found = version()
  if (found === undefined)
    throw new Error('nginx is not on the PATH: apt-get install nginx-light, or brew install nginx')
  return found
}

function version(): string | undefined {
  const { error, stderr } = spawnSync('nginx', ['-v'], { encoding: 'utf8' })
  return error === undefined ? stderr.replace('nginx version: ', '').trim() : undefined
}

export async function startUpstream(port: number): Promise<ChildProcess> {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-bench-'))
  writeFileSync(join(folder, 'nginx.conf'), configuration(folder, port))
  const nginx = spawn('nginx', ['-p', folder, '-e', 'stderr', '-c', 'nginx.conf'], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  for (let tries = 0; ; tries++) {
    try {
      if ((await fetch(`http://127.0.0.1:${port}`)).ok) return nginx
    } catch (error) {
      if (tries === 100) throw error
    }
    await sleep(50)
  }
}

function configuration(folder: string, port: number): string {
  const scratch = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${join(folder, name)};`)
    .join('\n  ')
  return `
daemon off;
master_process off;
pid nginx.pid;
error_log stderr crit;
events { worker_connections 1024; }
http {
  access_log off;
  ${scratch}
  keepalive_requests 1000000000;
  server {
    listen 127.0.0.1:${port};
    location / { return 200 'Hello, world'; }
  }
}
`
}
