import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import * as z from 'zod'
import { startApi } from '../../test/api.ts'
import { openApi } from './openapi.ts'

const root = fileURLToPath(new URL('../../../..', import.meta.url))
const rules = `
limits:
  per-ip: { limit: 2/min, by: [ip] }
  free: { limit: unlimited, when: { path: /free } }
`

test('the document is a sound OpenAPI 3.1', async () => {
  const { get } = await startApi(rules)
  const folder = await mkdtemp(join(tmpdir(), 'headgate-openapi-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const { status, body } = await get('/openapi.json')
  expect(status).toBe(200)
  await writeFile(join(folder, 'openapi.json'), JSON.stringify(body))
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true', CI: 'true' }
  const lint = ['redocly', 'lint', join(folder, 'openapi.json'), '--format=stylish']
  const { stderr, stdout } = await promisify(execFile)('npx', ['--no-install', ...lint], { cwd: root, env })
  expect(`${stdout}${stderr}`).toContain('is valid')
  expect(stdout).toBe('')
}, 60_000)

type Tree = { readonly [name: string]: Tree }

/** Schemas of the document, made to check by. */
function checks(): (name: string, value: unknown) => void {
  const { schemas } = openApi().components as unknown as Tree
  return (name, value) => {
    const text = JSON.stringify({ ...schemas?.[name], $defs: schemas }).replaceAll('#/components/schemas/', '#/$defs/')
    z.fromJSONSchema(JSON.parse(text)).parse(value)
  }
}

test('answers are as the document says', async () => {
  const check = checks()
  const { post, get } = await startApi(rules)
  const free = { request: { ip: '192.0.2.1', path: '/free' } }
  const taken = await post('/v1/take', free)
  const question = { domain: 'web', descriptors: [{ entries: [{ key: 'user', value: 'ann' }], hitsAddend: '0' }] }
  check('RateLimitRequest', question)
  check('RateLimitResponse', (await post('/json', question)).body)
  check('Item', free)
  check('Decision', taken.body)
  check('Decision', (await post('/v1/peek', free)).body)
  check('Decision', (await post('/v1/take', { ...free, cost: 5 })).body)
  check('ItemError', (await post<unknown[]>('/v1/take', [{}])).body[0])
  const { reservation } = taken.body
  const settle = { reservation, actual: { 'per-ip': 2 } }
  check('Settle', settle)
  check('Corrected', (await post('/v1/settle', settle)).body)
  check('Corrected', (await post('/v1/refund', { reservation })).body)
  check('Problem', (await post('/v1/refund', { reservation: 'x' })).body)
  check('Problem', (await get('/v1/auth')).body || (await get('/v1/auth?denied=1')).body)
  check('Status', (await get('/rate_limit')).body)
  check('Status', (await get('/rate_limit?path=/free')).body)
})

test('the document refuses what the service refuses', () => {
  const check = checks()
  for (const item of [
    {},
    { request: { x: 1 } },
    { request: {}, cost: -1 },
    { limits: { a: { key: [] } } },
    { request: {}, limits: { a: { limit: '1/s', key: 'b' } } },
  ])
    expect(() => check('Item', item), JSON.stringify(item)).toThrow()
})

test('every path of the document is served', async () => {
  const { url } = await startApi(rules)
  for (const [path, operations] of Object.entries(openApi().paths as Tree)) {
    const [method = ''] = Object.keys(operations)
    const response = await fetch(url + path, { method: method.toUpperCase(), ...(method === 'post' && { body: '{}' }) })
    expect(response.status, path).not.toBe(418)
    expect(Object.keys(operations[method]?.responses ?? {}), path).toContain(String(response.status))
  }
})
