import { memory } from 'headgate'
import { expect, test } from 'vitest'
import { until } from '../../../headgate/test/until.ts'
import { behind } from '../../test/service.ts'
import { parseRules } from '../config/load.ts'
import { Service } from '../service.ts'

/** A service whose tiers come from a server that can be told to fail. */
async function start() {
  const state = { fails: false, asked: 0 }
  const server = await behind((_req, res) => {
    state.asked++
    if (state.fails) res.destroy()
    else res.end('pro')
  })
  const rules = (more: string) =>
    parseRules(`identify: { apiKey: header:x-api-key, tier: { url: ${server.url}, cacheMs: 3600000, default: free${more} } }
limits: { plan: { limit: { free: 1/min, pro: 1000/min }, by: [api-key] } }`).rules
  const service = new Service(rules(''), memory())
  const limitOf = async () => {
    const header = (name: string) => (name === 'x-api-key' ? 'paying' : undefined)
    const caller = service.rules.callerOf({ method: 'GET', url: '/', peer: '192.0.2.1', header })
    return (await service.rules.peek(caller)).limits[0]?.limit
  }
  return { state, service, rules, limitOf }
}

test('tiers that were asked for stay known when rules, modes or tuning change', async () => {
  const { state, service, rules, limitOf } = await start()
  expect(await limitOf()).toBe(1000)
  state.fails = true
  service.setMode('plan', { mode: 'observe', enforcePercent: 100 })
  service.setTuning({ mode: 'off' })
  service.replace(rules(''), 'test')
  expect([await limitOf(), state.asked]).toEqual([1000, 1])
})

test('tiers are asked for anew when the rules say of them something else', async () => {
  const { state, service, rules, limitOf } = await start()
  expect(await limitOf()).toBe(1000)
  service.replace(rules(', timeoutMs: 900'), 'test')
  expect([await limitOf(), state.asked]).toEqual([1000, 2])
})

test('who did not answer for a tier is asked again soon, however long an answer holds, and not at once', async () => {
  const { state, limitOf } = await start()
  state.fails = true
  expect(await limitOf()).toBe(1)
  state.fails = false
  expect([await limitOf(), state.asked]).toEqual([1, 1])
  await until('the answer', async () => (await limitOf()) === 1000 || undefined)
  expect(state.asked).toBe(2)
})
