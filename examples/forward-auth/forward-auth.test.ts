import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { serve } from 'headgate-server'
import { expect, onTestFinished, test } from 'vitest'

// What is shown for nginx runs in a real one: packages/server/src/api/nginx.test.ts. These two are asked as their documentation says.

const read = (file: string) => readFileSync(join(import.meta.dirname, file), 'utf8')

test.each([
  ['Traefik', /address: (\S+)/.exec(read('traefik.yaml'))?.[1]],
  ['Caddy', `http://${/forward_auth (\S+) \{\s+uri (\S+)/.exec(read('Caddyfile'))?.slice(1).join('')}`],
])('what %s asks is answered: may this request pass?', async (_proxy, asked) => {
  const env = { HEADGATE_PORT: '0', HEADGATE_ADMIN_PORT: '0' }
  const service = await serve({ file: join(import.meta.dirname, 'headgate.yaml'), env })
  onTestFinished(() => service.stop())
  const url = asked?.replace('127.0.0.1:8080', `127.0.0.1:${service.port}`) ?? ''
  const headers = {
    'X-Forwarded-Method': 'POST',
    'X-Forwarded-Host': 'api.example',
    'X-Forwarded-Uri': '/write/1?x=1',
    'X-Forwarded-For': '203.0.113.7',
    'X-Forwarded-Proto': 'https',
    'X-Api-Key': 'ann',
  }
  expect((await fetch(url, { headers })).status).toBe(204)
  const denied = await fetch(url, { headers })
  expect([denied.status, denied.headers.get('retry-after')]).toEqual([429, '60'])
  expect(await denied.json()).toMatchObject({ code: 'rate_limited', limit: 'writes' })
})
