import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { startApi } from '../../test/api.ts'
import { ask as askAs, startUpstream } from '../../test/gateway.ts'
import { hasNginx, startNginx } from '../../test/nginx.ts'

const example = join(import.meta.dirname, '../../../../examples/forward-auth')
const rules = readFileSync(join(example, 'headgate.yaml'), 'utf8')

/** As the guide has it: who is refused gets 429 with what Headgate says of the wait. */
const lines = (api: string, upstream: string) =>
  readFileSync(join(example, 'nginx.conf'), 'utf8')
    .replace('http://127.0.0.1:8080', api)
    .replace('http://127.0.0.1:3000', upstream)

// Where nginx is not installed there is nothing to ask; in CI it is, see scripts/setup.mjs.
describe.skipIf(!hasNginx)('behind a real nginx', () => {
  async function start() {
    const api = await startApi(rules)
    const upstream = await startUpstream((req, res) => res.end(`served ${req.url}`))
    const url = await startNginx(lines(api.url, upstream.url))
    const ask = (path: string, key: string, headers: Record<string, string> = {}) =>
      fetch(url + path, { headers: { 'X-Api-Key': key, ...headers } })
    return { url, ask }
  }

  test('requests pass with the header fields of their limits, until they are refused with 429 and a wait', async () => {
    const { ask } = await start()
    const first = await ask('/read?x=1', 'a')
    expect([first.status, await first.text()]).toEqual([200, 'served /read?x=1'])
    expect(first.headers.get('ratelimit')).toBe('"per-key";r=1;t=30')
    expect(first.headers.get('ratelimit-policy')).toBe('"per-key";q=2;w=60')
    await ask('/read', 'a')
    const denied = await ask('/read', 'a')
    expect([denied.status, await denied.text()]).toEqual([429, 'slow down'])
    expect(denied.headers.get('retry-after')).toMatch(/^(2[5-9]|30)$/) // some of 30 seconds may have passed since
    expect(denied.headers.get('ratelimit')).toContain('"per-key";r=0')
    expect((await ask('/read', 'b')).status).toBe(200)
  })

  test('limits see the method, path and host of the request', async () => {
    const { url } = await start()
    const write = { method: 'POST', headers: { Host: 'API.example', 'X-Api-Key': 'a' }, body: 'x'.repeat(1000) }
    expect((await askAs(`${url}/write/1`, write)).status).toBe(200)
    const denied = await askAs(`${url}/write/1`, write)
    expect([denied.status, denied.headers.ratelimit]).toEqual([429, expect.stringMatching(/^"writes";r=0/)])
  })

  test('a client cannot choose what is judged', async () => {
    const { ask } = await start()
    const spoof = { 'X-Original-URI': '/free', 'X-Forwarded-Uri': '/free', 'X-Original-Method': 'GET' }
    expect((await ask('/read', 'a', spoof)).status).toBe(200)
    await ask('/read', 'a', spoof)
    expect((await ask('/read', 'a', spoof)).status).toBe(429)
  })
})
