import { expect, test } from 'vitest'

test('one object stands in front of every framework', async () => {
  const ways = await import('./frameworks.ts')
  expect(Object.keys(ways)).toHaveLength(5)
  expect(await (await ways.onFetch(new Request('https://shop.test/pay'))).text()).toBe('paid for https://shop.test/pay')
})
