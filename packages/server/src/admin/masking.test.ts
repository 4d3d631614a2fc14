import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import { type AdminRig, READ, startAdmin } from '../../test/admin.ts'
import { Mask } from './mask.ts'

const path = encodeURIComponent('/export/**')

type Step = (rig: AdminRig, key: string) => Promise<{ text: string } | unknown>

const forMs = 60_000
/** What can be done with a key, rightly and wrongly. */
const steps: Readonly<Record<string, Step>> = {
  take: ({ take }, key) => take(key),
  export: ({ take }, key) => take(key, '/export/x'),
  inspect: ({ ask }, key) => ask('GET', `/admin/v1/keys/per-key/${encodeURIComponent(key)}`),
  'inspect parts': ({ ask }, key) => ask('GET', `/admin/v1/keys/exports/${encodeURIComponent(key)}/${path}`),
  reset: ({ ask }, key) => ask('DELETE', `/admin/v1/keys/per-key/${encodeURIComponent(key)}`),
  block: ({ ask }, key) => ask('POST', '/admin/v1/blocks', { body: { limit: 'per-key', key, forMs } }),
  'block parts': ({ ask }, key) =>
    ask('POST', '/admin/v1/blocks', { body: { limit: 'exports', key: [key, 'x'], forMs } }),
  override: ({ ask }, key) => ask('POST', '/admin/v1/overrides', { body: { limit: 'per-key', key, to: '2/s', forMs } }),
  top: ({ ask }) => ask('GET', '/admin/v1/top'),
  list: ({ ask }) => ask('GET', '/admin/v1/overrides'),
  blocks: ({ ask }) => ask('GET', '/admin/v1/blocks'),
  audit: ({ ask }) => ask('GET', '/admin/v1/audit'),
  metrics: ({ ask }) => ask('GET', '/metrics'),
  tick: async ({ clock }) => clock.advance(1_000),
  'key for a limit': ({ ask }, key) => ask('GET', `/admin/v1/keys/${encodeURIComponent(key)}/x`),
  'key for an id': ({ ask }, key) => ask('DELETE', `/admin/v1/blocks/${encodeURIComponent(key)}`),
  'key for a mode': ({ ask }, key) => ask('PUT', '/admin/v1/limits/busy/mode', { body: { mode: key } }),
  'key for a time': ({ ask }, key) => ask('POST', '/admin/v1/blocks', { body: { limit: 'per-key', key, forMs: key } }),
  'key for a token': ({ ask }, key) => ask('GET', '/admin/v1/limits', { token: encodeURIComponent(key) }),
  'key in broken JSON': ({ ask }, key) => ask('POST', '/admin/v1/blocks', { body: `{"key": ${key}` }),
  'key for a tier': ({ ask }, key) => ask('GET', `/admin/v1/keys/per-key/x?tier=${encodeURIComponent(key)}`),
  'key too many': ({ ask }, key) => ask('GET', `/admin/v1/keys/busy/${encodeURIComponent(key)}`),
}

const keys = fc.uniqueArray(fc.stringMatching(/^[a-z0-9_.:%/ -]{9,40}[A-Z]$/), { minLength: 3, maxLength: 6 })
const runs = fc.array(fc.tuple(fc.constantFrom(...Object.keys(steps)), fc.nat(5)), { minLength: 30, maxLength: 60 })

test('no key appears as it is in any output, whatever is done', async () => {
  await fc.assert(
    fc.asyncProperty(keys, runs, async (keys, run) => {
      const rig = await startAdmin()
      const outputs: string[] = []
      const stream = await listen(rig.port)
      for (const [name, i] of run) {
        const output = await steps[name]?.(rig, keys[i % keys.length] as string)
        if (name !== 'take' && name !== 'export') outputs.push(JSON.stringify(output ?? ''))
      }
      rig.service.tell({ type: 'rules-refused', origin: 'test', reason: 'the end' })
      await until('the end of the stream', () => stream().includes('the end') || undefined)
      const all = [...outputs, ...rig.lines, stream()].join('\n')
      for (const key of keys) expect(all).not.toContain(key)
      expect(rig.errors).toEqual([])
    }),
    { numRuns: 25, seed: 4711 },
  )
}, 60_000)

async function listen(port: number): Promise<() => string> {
  const req = get({ port, host: '127.0.0.1', path: '/admin/v1/events', headers: { authorization: `Bearer ${READ}` } })
  const [res] = (await once(req, 'response')) as [IncomingMessage]
  onTestFinished(() => void req.destroy())
  res.on('error', () => {})
  let text = ''
  res.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  return () => text
}

test('masks know a key again, show half of a short one at most, and cannot be worked out without the secret', () => {
  const mask = new Mask('one')
  expect(mask.key('secret-key-1')).toBe(mask.encoded('secret-key-1'))
  expect(mask.key('secret-key-1')).not.toBe(new Mask('two').key('secret-key-1'))
  expect(mask.key('abc')).toMatch(/^a…/)
  expect(mask.key(7)).toMatch(/^…/)
  expect(mask.key(['a', 'secret-key-1'])).toEqual([mask.key('a'), mask.key('secret-key-1')])
  expect(mask.key('secret-key-1', true)).toBe('secret-key-1')
})
