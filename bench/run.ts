// npm run bench -- <name> [part...] [--rounds 5] [--quick] [--json file]
// Runs bench/<name>.ts, compiled, as what is measured is in life: a loader of TypeScript is work for the process too. Ends with 0
// whether targets are met or not: figures of a shared machine are read, not gated on.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { describeEnvironment, printEnvironment } from './environment.ts'
import { type Bench, printTargets } from './harness.ts'

const here = new URL('./', import.meta.url)
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string' },
    quick: { type: 'boolean', default: false },
    json: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})
const [name, ...only] = positionals
const questions = listQuestions()
if (values.help || name === undefined || !questions.has(name)) {
  console.error('npm run bench -- <name> [part...] [--rounds 5] [--quick] [--json file]\n')
  for (const [bench, question] of questions) console.error(`  ${bench.padEnd(12)} ${question}`)
  process.exit(2)
}

const rounds = Number(values.rounds ?? (values.quick ? 1 : 5))
if (!Number.isInteger(rounds) || rounds < 1 || rounds > 100) throw new RangeError(`--rounds ${values.rounds}: 1 to 100`)

const started = performance.now()
const environment = describeEnvironment()
printEnvironment(environment, { name, rounds, quick: values.quick })
const { bench } = (await import(new URL(`${name}.js`, here).href)) as { bench: Bench }
const report = await bench({ only, rounds, quick: values.quick })
printTargets(report.targets)
const seconds = Math.round((performance.now() - started) / 1000)
console.log(`\n${seconds} s`)
if (values.json !== undefined) {
  const file = { bench: name, rounds, quick: values.quick, seconds, ...environment, ...report }
  writeFileSync(values.json, `${JSON.stringify(file, null, 2)}\n`)
}

/** A benchmark is a file whose first line asks its question. */
function listQuestions(): Map<string, string> {
  const found = new Map<string, string>()
  for (const file of readdirSync(here).sort()) {
    if (!file.endsWith('.js')) continue
    const [first = ''] = readFileSync(new URL(file, here), 'utf8').split('\n', 1)
    const question = /^\/\/ Question: (.*)$/.exec(first)?.[1]
    if (question !== undefined) found.set(file.slice(0, -3), question)
  }
  return found
}
