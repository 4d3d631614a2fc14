import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { read } from './fresh.ts'

const source = join(import.meta.dirname, '..', 'packages', 'headgate', 'src')

test('the code map names every file and folder of the library, and only what exists', () => {
  const map = read('ARCHITECTURE.md').split('## One take')[0] ?? ''
  const named = [...map.matchAll(/^\| `([^`]+)`/gm)].map(([, name = '']) => name)
  for (const name of named) expect(existsSync(join(source, name)), name).toBe(true)
  const there = readdirSync(source).filter((name) => !/\.(test|cases)\.ts$/.test(name))
  const missing = there.filter((name) => !named.some((each) => each === name || each.startsWith(`${name}/`)))
  expect(missing).toEqual([])
})
