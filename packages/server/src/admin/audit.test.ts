import { expect, test } from 'vitest'
import { READ, RULES, startAdmin, WRITE } from '../../test/admin.ts'
import { Audit } from './audit.ts'
import { Mask } from './mask.ts'

test('says who changed what, when, from what to what, newest first, and a line each', async () => {
  const { ask, lines } = await startAdmin()
  const [limit, key, forMs] = ['per-key', 'secret-key-1', 60_000]
  await ask('PUT', '/admin/v1/limits/per-key/mode', { body: { mode: 'observe', enforcePercent: 20 } })
  const override = await ask('POST', '/admin/v1/overrides', {
    body: { limit, key, to: '5/s', forMs, reason: 'big day' },
  })
  await ask('POST', '/admin/v1/overrides', { body: { limit, key, to: '9/s', forMs } })
  const block = await ask('POST', '/admin/v1/blocks', { body: { limit, key, forMs } })
  await ask('DELETE', block.headers.location as string)
  await ask('DELETE', '/admin/v1/keys/per-key/secret-key-1')
  await ask('PUT', '/admin/v1/rules', { body: RULES })
  await ask('GET', '/admin/v1/keys/per-key/secret-key-1?reveal=true')
  const { json } = await ask('GET', '/admin/v1/audit', { token: READ })
  const masked = override.json.key
  const entry = { at: expect.stringMatching(/^\d{4}-\d\d-\d\dT/), who: 'write 127.0.0.1' }
  expect(json.entries.toReversed()).toEqual([
    {
      ...entry,
      what: 'mode',
      limit,
      before: { mode: 'enforce', enforcePercent: 100 },
      after: { mode: 'observe', enforcePercent: 20 },
    },
    {
      ...entry,
      what: 'override',
      limit,
      key: masked,
      id: override.json.id,
      reason: 'big day',
      after: { to: '5/s', untilMs: override.json.untilMs },
    },
    expect.objectContaining({
      what: 'override',
      before: { to: '5/s', untilMs: override.json.untilMs },
      after: expect.objectContaining({ to: '9/s' }),
    }),
    expect.objectContaining({ what: 'block', id: block.json.id, after: { untilMs: block.json.untilMs } }),
    expect.objectContaining({ what: 'unblock', id: block.json.id, before: { untilMs: block.json.untilMs } }),
    expect.objectContaining({ what: 'reset', key: masked, before: expect.objectContaining({ used: 0 }) }),
    expect.objectContaining({ what: 'rules', before: { generation: 1 }, after: { generation: 2 } }),
    { ...entry, what: 'reveal', limit, key: masked },
  ])
  expect(lines.map((line) => JSON.parse(line))).toEqual(json.entries.toReversed())
  expect(lines.join('')).not.toContain(key)
  expect(lines.join('')).not.toContain(WRITE)
  expect((await ask('GET', '/admin/v1/audit?n=2')).json.entries).toHaveLength(2)
})

test('keeps the last thousand', () => {
  const audit = new Audit(undefined, new Mask(), () => 0)
  for (let i = 0; i < 1_010; i++) audit.record({ who: 'test' }, `change ${i}`)
  expect(audit.last(2_000)).toHaveLength(1_000)
  expect(audit.last(1)[0]?.what).toBe('change 1009')
})
