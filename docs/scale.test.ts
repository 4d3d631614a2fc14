import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { read } from './fresh.ts'

const PAGE = 'docs/guides/scale.md'
const rows = read(PAGE)
  .split('\n')
  .filter((line) => /^\| .*\[✓\]/.test(line))
  .map((line) => line.split(' | '))

test('every bound that the table of modes states links to a test, which is there', () => {
  expect(rows.length).toBeGreaterThanOrEqual(6)
  for (const [mode, ...cells] of rows) {
    expect(cells, mode).toHaveLength(8)
    for (const cell of cells) {
      const [, path = '', name = ''] = /\[✓\]\((\S+) "([^"]+)"\)/.exec(cell) ?? []
      const file = join(import.meta.dirname, 'guides', path)
      expect(path !== '' && existsSync(file), `${mode}: ${cell}`).toBe(true)
      expect(readFileSync(file, 'utf8'), `${mode}: ${cell}`).toContain(name)
    }
  }
})
