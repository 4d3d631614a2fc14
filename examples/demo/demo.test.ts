import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { printed } from '../printed.ts'

const root = join(import.meta.dirname, '..', '..')

test('the demo shows bounds that hold, waits that are true and a line in order, then this machine', async () => {
  const [virtual = '', real = ''] = (await printed(() => import('./demo.ts'))).split(/(?=\n5\. )/)
  await expect(virtual).toMatchFileSnapshot('output.txt')
  for (const [, worst, bound] of virtual.matchAll(/at worst (\d+) of (\d+)/g))
    expect(Number(worst)).toBeLessThanOrEqual(Number(bound))
  expect(real.match(/[\d,]+ decisions\/s/g)).toHaveLength(3)
})

// As `npm run demo` runs it, on what was built.
const built = existsSync(join(root, 'packages', 'headgate', 'dist', 'index.js'))
test.skipIf(!built)(
  'the demo ends by itself and prints no control characters into a pipe',
  () => {
    const tsx = join(root, 'node_modules', 'tsx', 'dist', 'cli.mjs')
    const output = execFileSync(process.execPath, [tsx, 'examples/demo/demo.ts'], {
      cwd: root,
      encoding: 'utf8',
      timeout: 30_000,
    })
    expect(output).toContain('Try next')
    expect(output).not.toContain('\x1b')
  },
  30_000,
)
