// Writes the JSON Schema of rules files, which editors read: `npx tsx scripts/schema.ts`. A test says when it is stale.
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { jsonSchema } from '../packages/server/src/config/json-schema.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const file = `${root}packages/server/headgate.schema.json`
writeFileSync(file, JSON.stringify(jsonSchema(), null, 2))
const { status } = spawnSync(`${root}node_modules/.bin/biome`, ['format', '--write', file], {
  cwd: root,
  stdio: 'inherit',
})
process.exitCode = status ?? 1
