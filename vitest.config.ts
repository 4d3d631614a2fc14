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
/** Tests that start nothing, wait for nothing and change nothing that others see: those that a worker runs share their modules. */
const pure = [
  'packages/headgate/src/{algorithms,headers,properties,testing}/**/*.test.ts',
  'packages/headgate/src/graphql/{cost,properties,settle}.test.ts',
  'packages/headgate/src/http/{address,client-address,identity,path}.test.ts',
  'packages/headgate/src/idempotency/{key,options,sha256}.test.ts',
  'packages/headgate/src/llm/{answer,prices,request}.test.ts',
  'packages/headgate/src/overload/{admission,breaker,estimates,evenly,options,retry-budget,simulation,throttle}.test.ts',
  'packages/headgate/src/stores/{beside,lending,memory}.test.ts',
  'packages/headgate/src/{async-store,departures,expiring,gate,limit,quick-decision,tidy}.test.ts',
  'packages/server/src/{config,envoy}/**/*.test.ts',
  'packages/dashboard/src/{model,chaos/run,playground/run,rules/diff}.test.ts',
  'packages/server/src/replay/formats.test.ts',
]

/** Tests of what takes how long at most, or of what happens at some pace, on real clocks; and those that make much work. They have the
 *  machine to themselves. All others wait for what is to happen, however long that takes, and may run beside each other. */
const alone = [
  'packages/headgate/src/client/servers.test.ts',
  'packages/headgate/src/idempotency/outage.test.ts',
  'packages/headgate/src/redis/{cluster,lease-processes,network,outage,refusals,sentinel}.test.ts',
  'packages/headgate/src/remote/{leases,outage}.test.ts',
  'packages/server/src/proof/{outage,overload}.test.ts',
]

const cores = availableParallelism()
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
      project('pure', { include: pure, isolate: false, maxWorkers: cores, sequence: { groupOrder: 1 } }),
      project('beside', {
        include: all,
        exclude: [...defaultExclude, ...pure, ...alone],
        maxWorkers: cores,
        sequence: { groupOrder: 2 },
      }),
      project('alone', { include: alone, maxWorkers: 1, sequence: { groupOrder: 3 } }),
    ],
    reporters: ['default', new OneLine()],
    // For what hangs. How long things take is measured by benchmarks.
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
})
