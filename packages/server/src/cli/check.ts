import { jsonSchema } from '../config/json-schema.ts'
import { loadRules } from '../config/load.ts'
import { formatProblem, type Problem, RulesError } from '../config/problem.ts'
import type { Terminal } from './index.ts'

/** Exit code 1 if the rules cannot be used. */
export function check(
  file: string | undefined,
  options: { readonly json?: boolean; readonly schema?: boolean },
  { env, out, err }: Terminal,
): number {
  if (options.schema) {
    out.write(`${JSON.stringify(jsonSchema(), null, 2)}\n`)
    return 0
  }
  if (file === undefined) {
    err.write('headgate check: which rules file? Give its name, or --schema.\n')
    return 2
  }
  const { problems, limits } = read(file, env)
  const isWrong = problems.some(({ severity }) => severity === 'error')
  if (options.json) out.write(`${JSON.stringify({ ok: !isWrong, limits, problems }, null, 2)}\n`)
  else {
    for (const problem of problems) out.write(`${formatProblem(problem)}\n`)
    if (!isWrong)
      out.write(`${file}: ${limits.length} limits${problems.length > 0 ? '' : ', nothing to complain about'}\n`)
  }
  return isWrong ? 1 : 0
}

function read(file: string, env: Terminal['env']): { problems: readonly Problem[]; limits: readonly string[] } {
  try {
    const { warnings, rules } = loadRules(file, env)
    return { problems: warnings, limits: Object.keys(rules.limits) }
  } catch (error) {
    if (error instanceof RulesError) return { problems: error.problems, limits: [] }
    throw error
  }
}
