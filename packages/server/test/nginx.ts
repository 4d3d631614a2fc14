import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { freePort } from '../../headgate/test/redis-server.ts'
import { until } from '../../headgate/test/until.ts'

export const hasNginx = spawnSync('nginx', ['-v']).status === 0

if (!hasNginx && process.env.CI === 'true') throw new Error('no nginx on the PATH: in CI its tests are not skipped')

/** A real nginx with these lines inside its `server`, on a free port; ends with the test. `formats` are lines of its `http`. */
export async function startNginx(lines: string, formats = ''): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-nginx-'))
  const port = await freePort()
  await writeFile(join(folder, 'nginx.conf'), configuration(folder, port, lines, formats))
  const nginx = spawn('nginx', ['-p', folder, '-e', 'stderr', '-c', join(folder, 'nginx.conf')], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const exited = once(nginx, 'exit')
  onTestFinished(async () => {
    nginx.kill('SIGTERM')
    await exited
    await rm(folder, { recursive: true, force: true })
  })
  const url = `http://127.0.0.1:${port}`
  await until('nginx', async () => ((await fetch(`${url}/-/ready`)).status === 204 ? true : undefined))
  return url
}

function configuration(folder: string, port: number, lines: string, formats: string): string {
  const scratch = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${join(folder, name)};`)
    .join('\n  ')
  return `
daemon off;
master_process off;
pid ${join(folder, 'nginx.pid')};
error_log stderr crit;
events {}
http {
  access_log off;
  ${formats}
  ${scratch}
  server {
    listen 127.0.0.1:${port};
    location = /-/ready { access_log off; return 204; }
    ${lines}
  }
}
`
}
