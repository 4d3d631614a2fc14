import { once } from 'node:events'
import { get } from 'node:http'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import { type AdminRig, READ, RULES, startAdmin } from '../../test/admin.ts'
import { parseRules } from '../config/index.ts'
import { wouldHave } from './preview.ts'
import { Recent } from './recent.ts'

/** Somebody who looks on. */
async function watch(rig: AdminRig): Promise<() => Promise<void>> {
  const headers = { authorization: `Bearer ${READ}` }
  const req = get({ port: rig.port, host: '127.0.0.1', path: '/admin/v1/events', headers })
  const [res] = await once(req, 'response')
  res.on('error', () => {}).resume()
  onTestFinished(() => void req.destroy())
  return async () => {
    req.destroy()
    await until('the reader to be gone', async () => {
      await rig.take('nobody')
      return (await check(rig, RULES)).wouldHave === null || undefined
    })
  }
}

async function check({ ask }: Pick<AdminRig, 'ask'>, body: string) {
  const { status, json } = await ask('POST', '/admin/v1/rules/check', {
    body,
    headers: { 'content-type': 'application/yaml' },
  })
  expect(status).toBe(200)
  return json
}

test('a token is told what it may do', async () => {
  const { ask } = await startAdmin()
  expect((await ask('GET', '/admin/v1/whoami')).json).toEqual({ scope: 'write' })
  expect((await ask('GET', '/admin/v1/whoami', { token: READ })).json).toEqual({ scope: 'read' })
  expect((await ask('GET', '/admin/v1/whoami', { token: 'x' })).status).toBe(401)
})

test('rules are checked without being put', async () => {
  const rig = await startAdmin()
  const wrong = await check(rig, 'limits: { a: { limt: 1/s } }')
  expect(wrong).toMatchObject({ ok: false, generation: 1 })
  expect(wrong.problems).toContainEqual(expect.objectContaining({ file: 'rules.yaml', line: 1, column: 16 }))
  const changed = RULES.replace('10/min', '20/min')
    .replace('mode: observe', 'mode: enforce')
    .replace('  busy:', '  fresh:')
  const right = await check(rig, `${changed}server: { port: 1 }\n`)
  expect(right).toMatchObject({ ok: true, generation: 1, needsRestart: ['server'], wouldHave: null })
  expect(right.changes.map((each: { name: string; change: string }) => [each.name, each.change])).toEqual([
    ['per-key', 'changed'],
    ['watched', 'changed'],
    ['busy', 'removed'],
    ['fresh', 'added'],
  ])
  expect(right.changes[0]).toMatchObject({ before: { limit: '10/min' }, after: { limit: '20/min' } })
  expect(rig.service.rules.generation).toBe(1)
  expect((await rig.ask('POST', '/admin/v1/rules/check', { token: READ, body: RULES })).status).toBe(403)
})

test('what other rules would have done is worked out by the engine, from requests that somebody looked on at', async () => {
  const rig = await startAdmin()
  await watch(rig)
  for (let i = 0; i < 25; i++) await rig.take(i % 5 === 0 ? 'bob' : 'ann')
  // Ten of the twenty of ann's pass, all five of bob's; twenty-five of busy's 1,000.
  const same = await check(rig, RULES)
  expect(same.wouldHave).toMatchObject({ requests: 25, refused: { before: 10, after: 10 } })
  const { wouldHave } = await check(rig, RULES.replace('10/min', '4/min'))
  expect(wouldHave.refused).toEqual({ before: 10, after: 17 })
  expect(wouldHave.limits).toContainEqual({
    name: 'per-key',
    before: { asked: 25, denied: 10, observed: 0 },
    after: { asked: 25, denied: 17, observed: 0 },
  })
  // Only watches: two of each pass, the rest would have been denied, and is charged nothing by what others refuse.
  const watched = wouldHave.limits.find(({ name }: { name: string }) => name === 'watched')
  expect(watched).toMatchObject({ before: { asked: 25, denied: 0, observed: 21 } })
  expect(wouldHave.leftOut).toEqual([{ name: 'plan', reason: 'the tiers of callers are not known' }])
  const enforced = await check(rig, RULES.replace(', mode: observe', ''))
  expect(enforced.wouldHave.refused).toEqual({ before: 10, after: 21 })
})

test('limits that requests tell too little of are left out, with the reason', async () => {
  const rig = await startAdmin()
  await watch(rig)
  await rig.take('ann', '/export/1')
  const rules = `limits:
  per-key: { limit: 10/min, by: [ip] }
  exports: { limit: 4/min, by: [api-key, route], when: { path: /export/** }, cost: bytes }
  watched: { limit: 2/min, by: [api-key], mode: observe, countWhen: { status: 401 } }
  busy: { atOnce: 5 }
  fresh: { limit: 1/min }
`
  const { wouldHave } = await check(rig, rules)
  expect(wouldHave.limits).toEqual([])
  expect(wouldHave.leftOut.map(({ name }: { name: string }) => name)).toEqual([
    'per-key',
    'exports',
    'watched',
    'plan',
    'busy',
    'fresh',
  ])
})

test('requests are decided again at the times at which they came', async () => {
  const { service, take } = await startAdmin()
  let nowMs = 1_000_000
  const recent = new Recent(
    () => true,
    () => nowMs,
  )
  onTestFinished(service.watch(recent))
  for (let i = 0; i < 20; i++, nowMs += 10_000) await take('ann')
  const { rules } = parseRules(RULES.replace('10/min', '3/min'))
  // Three at once, then one every twenty seconds.
  expect(await wouldHave(service.rules.rules, rules, new Map(), recent)).toMatchObject({
    refused: { before: 0, after: 8 },
  })
})

test('a limit that was off is left out, whoever has said so', async () => {
  const rig = await startAdmin()
  await watch(rig)
  await rig.ask('PUT', '/admin/v1/limits/busy/mode', { body: { mode: 'off' } })
  await rig.take('ann')
  const { leftOut } = (await check(rig, RULES)).wouldHave
  expect(leftOut).toContainEqual({ name: 'busy', reason: 'it is off: whose requests it would count is not known' })
})

test('of requests the last 20,000 are remembered, and none for more than 15 minutes', async () => {
  const { take } = await startAdmin()
  const decision = await take('ann')
  let nowMs = 1_000_000
  const recent = new Recent(
    () => true,
    () => nowMs,
  )
  for (let i = 0; i < 70_000; i++, nowMs++) recent.onDecision(decision)
  expect(recent.requests).toHaveLength(20_000)
  expect(recent.sinceMs).toBe(recent.requests[0]?.atMs)
  nowMs += 890_000
  expect(recent.requests).toHaveLength(10_000)
  nowMs += 890_000
  expect(recent.requests).toEqual([])
})

test('keys may be as long as they are: what is remembered of them has a bound', async () => {
  const { take } = await startAdmin()
  const decision = await take('x'.repeat(2_000)) // a key of three limits
  const recent = new Recent(
    () => true,
    () => 1_000_000,
  )
  for (let i = 0; i < 20_000; i++) recent.onDecision(decision)
  expect(recent.requests.length).toBeGreaterThan(1_000)
  expect(recent.requests.length * 4_000).toBeLessThan(16_000_000)
})

test('requests are remembered for those who look on only, and forgotten with the last of them', async () => {
  const rig = await startAdmin()
  await rig.take('ann')
  expect((await check(rig, RULES)).wouldHave).toBe(null)
  const leave = await watch(rig)
  await rig.take('ann')
  expect((await check(rig, RULES)).wouldHave.requests).toBe(1)
  await leave()
  await watch(rig)
  await rig.take('ann')
  expect((await check(rig, RULES)).wouldHave.requests).toBe(1)
})

test('secrets that the rules bring are not told again', async () => {
  const { ask } = await startAdmin()
  const { text } = await ask('POST', '/admin/v1/rules/check', {
    body: 'store: redis://:hunter2@127.0.0.1:6379\nlimits: {}',
    headers: { 'content-type': 'application/yaml' },
  })
  expect(text).not.toContain('hunter2')
})
