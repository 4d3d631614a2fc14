import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { defaultExclude, defineConfig } from 'vitest/config'
import library from './packages/headgate/package.json' with { type: 'json' }
import { OneLine } from './scripts/reporter.ts'

const packageUrl = new URL('packages/headgate/', import.meta.url)

/** Tests import what users import and get the sources behind it, so no test can pass on a stale build. */
const sources = Object.entries(library.exports).map(([subpath, { default: built }]) => ({
  find: new RegExp(`^headgate${subpath.slice(1)}$`),
  replacement: fileURLToPath(new URL(built.replace('dist', 'src').replace(/js$/, 'ts'), packageUrl)),
}))

/** Bundlers and Node would each load a copy of their own of it, and copies do not know each other's schemas. */
const graphql = fileURLToPath(new URL('node_modules/graphql/index.js', import.meta.url))
const server = fileURLToPath(new URL('packages/server/src/index.ts', import.meta.url))

const all = ['packages', 'examples', 'docs', 'scripts'].map((folder) => `${folder}/**/*.test.ts`)
/** Tests that start nothing and wait for nothing: as many at a time as there are cores. The others have the machine to themselves,
 *  one after the other, as servers, clocks and bounds of time are real there. */
const pure = [
  'packages/headgate/src/{algorithms,headers,properties,testing}/**/*.test.ts',
  'packages/headgate/src/graphql/{cost,properties}.test.ts',
  'packages/headgate/src/overload/{admission,estimates,simulation}.test.ts',
  'packages/server/src/{config,envoy}/**/*.test.ts',
]

const project = (name: string, test: object) => ({ extends: true as const, test: { name, ...test } })

export default defineConfig({
  resolve: {
    alias: [
      ...sources,
      { find: /^headgate-server$/, replacement: server },
      { find: /^graphql$/, replacement: graphql },
    ],
  },
  // The decorators that Nest is written with.
  oxc: { decorator: { legacy: true } },
  test: {
    projects: [
      project('pure', { include: pure, maxWorkers: availableParallelism(), sequence: { groupOrder: 1 } }),
      project('real', {
        include: all,
        exclude: [...defaultExclude, ...pure],
        maxWorkers: 1,
        sequence: { groupOrder: 2 },
      }),
    ],
    reporters: ['default', new OneLine()],
    // For what hangs. How long things take is measured by benchmarks.
    testTimeout: 30_000,
  },
})
