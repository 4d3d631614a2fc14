import { expect, test } from 'vitest'

test('tests run on the runtime that was asked for', () => {
  const { bun, deno } = process.versions
  expect({ bun: bun !== undefined, deno: deno !== undefined }).toEqual({
    bun: process.env.HEADGATE_RUNTIME === 'bun',
    deno: process.env.HEADGATE_RUNTIME === 'deno',
  })
})
