import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run } from '../packages/server/src/cli/index.ts'

const files = readdirSync(import.meta.dirname, { recursive: true, encoding: 'utf8' }).filter((name) =>
  /(headgate|held|production|sick-upstream)\.yaml$/.test(name),
)

test.each(files)('nothing is wrong with the rules in %s', async (name) => {
  let out = ''
  const code = await run(
    ['check', join(import.meta.dirname, name)],
    {},
    { write: (text) => (out += text) },
    process.stderr,
  )
  expect([code, out]).toEqual([0, expect.stringMatching(/: \d+ limits, nothing to complain about\n$/)])
})
