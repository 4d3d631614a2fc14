import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const src = fileURLToPath(new URL('.', import.meta.url))

/** Which folders a folder may import; the files at the top count as `.`, and leaf files of it may be used anywhere. */
const mayImport: Record<string, readonly string[]> = {
  algorithms: ['algorithms'],
  stores: ['stores', 'algorithms'],
  '.': ['.', 'stores', 'algorithms', 'headers', 'overload'],
  client: ['client', 'headers', 'overload', '.', 'stores'],
  graphql: ['graphql', 'http', 'idempotency', '.', 'stores', 'algorithms'],
  headers: ['headers', '.'],
  http: ['http', 'headers', '.', 'stores', 'algorithms', 'overload'],
  idempotency: ['idempotency', 'redis', '.', 'stores', 'algorithms'],
  llm: ['llm', 'headers', '.', 'stores', 'algorithms'],
  overload: ['overload', '.', 'stores'],
  redis: ['redis', '.', 'stores', 'algorithms'],
  remote: ['remote', '.', 'stores', 'algorithms'],
  testing: ['testing', '.', 'stores', 'algorithms', 'redis'],
}
/** What middlewares know by type, and the one framework whose decorators need it at run time. */
const frameworks = ['node:http', 'express', 'fastify', 'hono', 'koa', 'ws']
const leaves = ['errors.ts', 'clock.ts', 'expiring.ts']

function sources(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts') && !/\.(test|cases)\.ts$/.test(entry.name))
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .filter((file) => !relative(src, file).startsWith('properties'))
}

test('folders import only what is below them, and nothing from outside the package', () => {
  const wrong: string[] = []
  for (const file of sources(src)) {
    const from = relative(src, file)
    const folder = dirname(from).split('/')[0] as string
    for (const [text, target = ''] of readFileSync(file, 'utf8').matchAll(
      /^(?:import|export)[^'\n]*(?:\n[^'\n]*)*? from '([^']+)'/gm,
    )) {
      const to = relative(src, join(dirname(file), target))
      const allowed =
        target.startsWith('.') &&
        (mayImport[folder]?.includes(dirname(to).split('/')[0] as string) || leaves.includes(to))
      const known = folder === 'http' && text.startsWith('import type') && frameworks.includes(target)
      const nest = from === 'http/nest.ts' && target === '@nestjs/common'
      const graphql =
        folder === 'graphql' && target === 'graphql' && (text.startsWith('import type') || from === 'graphql/peer.ts')
      if (!allowed && !known && !nest && !graphql) wrong.push(`${from} imports ${target}`)
    }
  }
  expect(wrong).toEqual([])
})

test('the library names no runtime: no node: import, no process, no Buffer, but for middlewares that run on Node', () => {
  for (const file of sources(src)) {
    if (/http\/(express|fastify|koa|nest|node|node-one-piece|ws)\.ts$/.test(file)) continue
    const code = readFileSync(file, 'utf8').replace(/^import type .*$/gm, '')
    expect(code, relative(src, file)).not.toMatch(/'node:|\bprocess\.\w+\(|\bprocess\.env|\bBuffer\b/)
  }
})
