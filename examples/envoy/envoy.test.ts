import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Running, serve } from 'headgate-server'
import { describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../packages/headgate/test/until.ts'
import { hasEnvoy, startEnvoyWith } from '../../packages/server/test/envoy-proxy.ts'
import { startUpstream } from '../../packages/server/test/upstream.ts'

const here = import.meta.dirname

async function start(): Promise<Running> {
  const env = { HEADGATE_PORT: '0', HEADGATE_ADMIN_PORT: '0', HEADGATE_GRPC_PORT: '0' }
  const service = await serve({ file: join(here, 'headgate.yaml'), env })
  onTestFinished(() => service.stop())
  return service
}

test('what the guide shows of /json is what it answers', async () => {
  const { port } = await start()
  const lines: string[] = []
  const ask = async (...entries: readonly (readonly [key: string, value: string])[]) => {
    const descriptors = entries.map(([key, value]) => ({ entries: [{ key, value }] }))
    const body = JSON.stringify({ domain: 'web', descriptors })
    const response = await fetch(`http://127.0.0.1:${port}/json`, { method: 'POST', body })
    // How long the window lasts depends on when it is asked.
    const text = (await response.text()).replaceAll(/"durationUntilReset":"\d+s"/g, '"durationUntilReset":"…s"')
    lines.push(`POST /json\n${spaced(body)}\n${response.status}\n${spaced(text)}\n`)
  }
  await ask(['user', 'ann'], ['path', '/export/1'])
  for (let i = 0; i < 2; i++) await ask(['user', 'ann'])
  await ask(['user', 'ann'], ['path', '/export/2'])
  await expect([lines[0], lines[3]].join('\n')).toMatchFileSnapshot('json.txt')
})

function spaced(json: string): string {
  return json
    .replaceAll(/([:,])(?=["{[\d])/g, '$1 ')
    .replaceAll(/([{[])(?=["{])/g, '$1 ')
    .replaceAll(/(?<=["\d}\]])([}\]])/g, ' $1')
}

describe.skipIf(!hasEnvoy)('an Envoy as the guide configures it', () => {
  async function envoy() {
    const { grpcPort } = await start()
    const upstream = await startUpstream((_req, res) => void res.writeHead(200, { 'x-tokens': '20000' }).end('hello'))
    onTestFinished(() => upstream.close())
    const text = readFileSync(join(here, 'envoy.yaml'), 'utf8')
      .replace('port_value: 3000', `port_value: ${new URL(upstream.url).port}`)
      .replace('port_value: 8081', `port_value: ${grpcPort}`)
    const url = await startEnvoyWith((port) => text.replace('port_value: 10000', `port_value: ${port}`))
    return (path: string, headers: Record<string, string>) => fetch(url + path, { headers })
  }

  test('limits users, lets partners have more, and watches the rest', async () => {
    const get = await envoy()
    const ann = () => get('/', { 'x-user': 'ann' }).then(({ status }) => status)
    expect(await until('a limit', async () => ((await ann()) === 429 ? 429 : undefined))).toBe(429)
    expect((await get('/', { 'x-user': 'ann', 'x-plan': 'partner' })).status).toBe(200)
    expect((await get('/health', {})).status).toBe(200)
  })

  test('looks before a call of a model, and charges its tokens after it', async () => {
    const get = await envoy()
    const call = () => get('/v1/chat', { 'x-user': 'ann' })
    expect((await call()).status).toBe(200)
    await until('the budget is used up', async () => ((await call()).status === 429 ? true : undefined))
  })
})
