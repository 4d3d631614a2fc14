import { expect, test } from 'vitest'
import { urlOf } from '../serving.ts'
import { app } from './app.ts'

test('a bulk call costs as many units as it has items, and is done as a whole or not at all', async () => {
  const url = await urlOf(app.listen(0, '127.0.0.1'))
  const order = (count: number) =>
    fetch(`${url}/orders`, {
      method: 'POST',
      headers: { 'x-api-key': 'alice', 'content-type': 'application/json' },
      body: JSON.stringify({ items: Array(count).fill({ sku: 1 }) }),
    })
  const first = await order(60)
  expect(first.headers.get('ratelimit')).toMatch(/^"default";r=40;/)
  expect(await first.json()).toEqual({ made: 60 })
  const denied = await order(50)
  expect(denied.status).toBe(429)
  expect(Number(denied.headers.get('retry-after'))).toBeGreaterThanOrEqual(5)
  expect((await order(40)).status).toBe(201)
  expect(await (await order(101)).json()).toMatchObject({ code: 'cost_never_fits' })
})
