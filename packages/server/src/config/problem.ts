/** What is wrong with a text, and what to write instead. */
export interface Fault {
  readonly reason: string
  readonly suggestion: string
}

export const errorCodes = [
  'HG_RULES_CONFLICT',
  'HG_RULES_DUPLICATE',
  'HG_RULES_EMPTY',
  'HG_RULES_ENV',
  'HG_RULES_FILE',
  'HG_RULES_GRAPHQL',
  'HG_RULES_INCLUDE',
  'HG_RULES_LIMIT',
  'HG_RULES_MISSING',
  'HG_RULES_TOO_LARGE',
  'HG_RULES_TYPE',
  'HG_RULES_UNKNOWN_KEY',
  'HG_RULES_VALUE',
  'HG_RULES_YAML',
] as const
export const warningCodes = [
  'HG_RULES_IMPORT_DIFFERS',
  'HG_RULES_NEVER_FITS',
  'HG_RULES_NEVER_MATCHES',
  'HG_RULES_NOT_IMPORTED',
  'HG_RULES_NO_EFFECT',
  'HG_RULES_NO_SOURCE',
  'HG_RULES_SHADOWED',
] as const
export type RulesCode = (typeof errorCodes)[number] | (typeof warningCodes)[number]

/** Names from the top of the rules down. */
export type Path = readonly (string | number)[]

/** A fault in rules, by where in the rules it is. */
export interface Finding extends Fault {
  readonly code: RulesCode
  readonly path: Path
  /** The name itself is meant, not what stands behind it. */
  readonly atKey?: boolean
  /** The last name may be a secret and is not told. */
  readonly secret?: boolean
  /** How far into a text it is. */
  readonly offset?: number
}

export interface Position {
  /** Of a variable: its name after a `$`. */
  readonly file: string
  /** Both from 1. */
  readonly line: number
  readonly column: number
}

/** A fault in rules, by where in the file it is. */
export interface Problem extends Position, Fault {
  readonly code: RulesCode
  readonly severity: 'error' | 'warning'
  /** `limits.login.limit`; empty at the top. */
  readonly path: string
}

/** Not all of them: the first explain the rest, and a file of nothing but mistakes has millions. */
export const MOST_PROBLEMS = 100

export function problemAt(position: Position, { code, path, secret, reason, suggestion }: Finding): Problem {
  const severity = warningCodes.some((each) => each === code) ? 'warning' : 'error'
  return { ...position, code, severity, path: (secret ? path.slice(0, -1) : path).join('.'), reason, suggestion }
}

/** `headgate.yaml:6:5 limits.login.algoritm: unknown key; did you mean "algorithm"? (HG_RULES_UNKNOWN_KEY)` */
export function formatProblem({ file, line, column, code, severity, path, reason, suggestion }: Problem): string {
  const what = severity === 'warning' ? `warning: ${reason}` : reason
  return `${file}:${line}:${column} ${path === '' ? '' : `${path}: `}${what}; ${suggestion} (${code})`
}

export function sortProblems(problems: readonly Problem[]): Problem[] {
  const inText = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)
  return [...problems].sort(
    (a, b) => inText(a.file, b.file) || a.line - b.line || a.column - b.column || inText(a.path, b.path),
  )
}

/** Rules that cannot be used, with all that is wrong with them. Whoever has good rules goes on with those. */
export class RulesError extends Error {
  override readonly name = 'RulesError'
  readonly code: RulesCode
  readonly problems: readonly Problem[]

  constructor(problems: readonly Problem[]) {
    const sorted = sortProblems(problems).slice(0, MOST_PROBLEMS)
    super(sorted.map(formatProblem).join('\n'))
    this.code = (sorted.find(({ severity }) => severity === 'error') ?? (sorted[0] as Problem)).code
    this.problems = sorted
  }
}
