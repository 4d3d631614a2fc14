import { expect, test } from 'vitest'
import { READ, RULES, startAdmin } from '../../test/admin.ts'

const rules = `${RULES}overload: { concurrency: { max: 50 }, utilisation: false }\n`

test('who may only look may look at overload protection, and change nothing', async () => {
  const { ask, service } = await startAdmin({ rules })
  expect((await ask('GET', '/admin/v1/overload', { token: READ })).status).toBe(200)
  expect((await ask('PUT', '/admin/v1/overload', { token: READ, body: { mode: 'off' } })).status).toBe(403)
  expect((await ask('GET', '/admin/v1/overload', { token: 'wrong' })).status).toBe(401)
  expect(service.overloadSettings.tuning).toEqual({})
})

test('what is tuned is noted, from what to what, and told to who watches', async () => {
  const { ask, service, lines } = await startAdmin({ rules })
  const events: unknown[] = []
  service.watch({ onEvent: (event) => events.push(event) })
  await ask('PUT', '/admin/v1/overload', { body: { concurrency: { max: 9 } } })
  await ask('PUT', '/admin/v1/overload', { body: { mode: 'observe' } })
  const tuned = { mode: 'observe', concurrency: { max: 9 } }
  expect(events).toEqual([
    { type: 'overload', tuning: { concurrency: { max: 9 } } },
    { type: 'overload', tuning: tuned },
  ])
  const last = JSON.parse(lines.at(-1) ?? '')
  expect(last).toMatchObject({ what: 'overload', before: { concurrency: { max: 9 } }, after: tuned })
})

test('what was tuned outlives new rules', async () => {
  const { ask, service } = await startAdmin({ rules })
  await ask('PUT', '/admin/v1/overload', { body: { mode: 'off', concurrency: { max: 9 } } })
  service.replace({ ...service.rules.rules, mode: 'observe' }, 'test')
  const { json } = await ask('GET', '/admin/v1/overload')
  expect(json.settings).toMatchObject({ mode: 'off', concurrency: { min: 4, max: 9 } })
})

test('the kill switch works also where what was tuned does not fit new rules', async () => {
  const { ask, service } = await startAdmin({ rules })
  expect((await ask('PUT', '/admin/v1/overload', { body: { concurrency: { min: 40 } } })).status).toBe(200)
  const { overload } = service.rules.rules
  const concurrency = { algorithm: 'gradient2', max: 20, mode: 'enforce' } as const
  service.replace(
    { ...service.rules.rules, overload: { ...(overload as NonNullable<typeof overload>), concurrency } },
    'test',
  )
  const body = { mode: 'off', concurrency: { mode: 'off' }, utilisation: { mode: 'off' } }
  const { status, json } = await ask('PUT', '/admin/v1/overload', { body })
  expect(status).toBe(200)
  expect(json.settings).toMatchObject({ mode: 'off', concurrency: { mode: 'off', min: 4, max: 20 } })
  expect((await ask('PUT', '/admin/v1/overload', { body: { concurrency: { min: 40 } } })).status).toBe(400)
})
