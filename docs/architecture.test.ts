import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { read } from './fresh.ts'

const page = read('ARCHITECTURE.md')

test.each([
  ['the library', 'packages/headgate/src', between('## Code map', '## One take')],
  ['the service', 'packages/server/src', between('## The service', '### One request')],
])('the code map of %s names every file and folder, and only what exists', (_name, folder, map) => {
  const source = join(import.meta.dirname, '..', folder)
  const rows = [...map.matchAll(/^\| (`[^|]+`) \|/gm)].map(([, names = '']) => names)
  const named = rows.flatMap((names) => [...names.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name))
  expect(named.length).toBeGreaterThan(10)
  for (const name of named) expect(existsSync(join(source, name)), name).toBe(true)
  const there = readdirSync(source).filter((name) => !/\.(test|cases)\.ts$/.test(name))
  const missing = there.filter((name) => !named.some((each) => each === name || each.startsWith(`${name}/`)))
  expect(missing).toEqual([])
})

function between(start: string, end: string): string {
  return page.slice(page.indexOf(start), page.indexOf(end))
}
