import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
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
    include: ['packages', 'examples', 'docs', 'scripts'].map((folder) => `${folder}/**/*.test.ts`),
    reporters: ['default', new OneLine()],
    // For what hangs. How long things take is measured by benchmarks.
    testTimeout: 30_000,
  },
})
