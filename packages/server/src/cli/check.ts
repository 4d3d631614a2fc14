import { jsonSchema } from '../config/json-schema.ts'
import { loadRules } from '../config/load.ts'
import { formatProblem, type Problem, RulesError } from '../config/problem.ts'
import { envoyLimits } from '../rls/limits.ts'
import type { Terminal } from './index.ts'
import { Misuse } from './misuse.ts'
import { json, plain } from './text.ts'

interface Options {
  readonly json?: boolean
  readonly schema?: boolean
}

/** Exit code 1 if the rules cannot be used. */
export function check(file: string | undefined, options: Options, { env, out }: Terminal): number {
  if (options.schema) {
    out.write(json(jsonSchema()))
    return 0
  }
  if (file === undefined) throw new Misuse('which rules file? Give its name, or --schema.')
  const { problems, limits } = read(file, env)
  const ok = !problems.some(({ severity }) => severity === 'error')
  if (options.json) out.write(json({ ok, limits, problems }))
  else {
    for (const problem of problems) out.write(`${plain(formatProblem(problem))}\n`)
    if (ok) out.write(`${plain(file)}: ${summary(limits.length, problems.length)}\n`)
  }
  return ok ? 0 : 1
}

function read(file: string, env: Terminal['env']): { problems: readonly Problem[]; limits: readonly string[] } {
  try {
    const { warnings, rules } = loadRules(file, env)
    return { problems: warnings, limits: [...Object.keys(rules.limits), ...envoyLimits(rules).map(({ name }) => name)] }
  } catch (error) {
    if (error instanceof RulesError) return { problems: error.problems, limits: [] }
    throw error
  }
}

function summary(limits: number, warnings: number): string {
  const told = warnings === 0 ? 'nothing to complain about' : counted(warnings, 'warning')
  return `${counted(limits, 'limit')}, ${told}`
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}
