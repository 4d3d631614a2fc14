import { expect, test } from 'vitest'
import { READ, startAdmin, WRITE } from '../../test/admin.ts'
import { withoutSecrets } from './secrets.ts'

test.each([
  ['redis://:pass@host:6379/0', 'redis://:(masked)@host:6379/0'],
  ['redis://user:p@ss:word@host', 'redis://user:(masked)@host'],
  ['redis://host?password=pass&db=1', 'redis://host?password=(masked)&db=1'],
  ['https://tiers.test/?api_key=pass&key={key}', 'https://tiers.test/?api_key=(masked)&key={key}'],
  ['http://host:3000/a@b:c', 'http://host:3000/a@b:c'],
  ['5/min', '5/min'],
])('shows %s as %s', (text, shown) => {
  expect(withoutSecrets(text)).toBe(shown)
})

test.each([
  ['includes others', 'include: limits.d\n'],
  ['cannot be read any more', 'limits: [\n'],
])('a rules file that %s tells who may only look no password', async (_what, more) => {
  const text = `store: redis://:secret-pass@host:6379\n${more}`
  const { ask } = await startAdmin({ rulesText: () => text })
  const { status, text: told } = await ask('GET', '/admin/v1/rules', { token: READ })
  expect(status).toBe(200)
  expect(told).not.toContain('secret-pass')
  expect((await ask('GET', '/admin/v1/rules?reveal=true', { token: WRITE })).text).toContain('secret-pass')
})
