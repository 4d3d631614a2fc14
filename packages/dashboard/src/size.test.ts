import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import server from '../../server/package.json' with { type: 'json' }
import { buildDashboard, FOLDER } from '../build.ts'

test('all of it is less than 80 kB packed, the simulator aside', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'dashboard-old.js'), 'gone')
  const files = await buildDashboard(folder)
  expect(readdirSync(folder).sort()).toEqual([...files].sort())
  const size = (name: string) => gzipSync(readFileSync(join(folder, name))).length
  const sizes = Object.fromEntries(files.map((name) => [name.replace(/-[0-9a-f]{12}/, ''), size(name)]))
  const { 'chaos.js': worker, 'licenses.txt': _, ...rest } = sizes
  expect(worker).toBeGreaterThan(10_000)
  expect(Object.keys(rest).sort()).toEqual(['dashboard.css', 'dashboard.js', 'icon.svg', 'index.html'])
  expect(Object.values(rest).reduce((sum, each) => sum + each, 0)).toBeLessThan(80_000)
})

test('a second build writes nothing, and names change only with what is in them', async () => {
  const before = await buildDashboard()
  const times = before.map((name) => statSync(join(FOLDER, name)).mtimeMs)
  expect(await buildDashboard()).toEqual(before)
  expect(before.map((name) => statSync(join(FOLDER, name)).mtimeMs)).toEqual(times)
})

test('the package of the service brings it along', () => {
  expect(server.files).toContain('dist')
  expect(server.scripts.prepack).toContain('dashboard/build.ts')
  expect(FOLDER).toMatch(/packages[/\\]server[/\\]dist[/\\]dashboard$/)
})
