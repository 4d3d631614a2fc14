import type * as z from 'zod'
import { type Finding, MOST_PROBLEMS, type Path } from './problem.ts'
import { choose } from './suggest.ts'

type Issue = z.core.$ZodIssue

/** What zod found, in our words. */
export function findingsOf(issues: readonly Issue[], rules: unknown): Finding[] {
  return issues.slice(0, MOST_PROBLEMS).flatMap((issue) => translate(issue, [], rules))
}

function translate(issue: Issue, above: Path, rules: unknown): Finding[] {
  const path = [...above, ...(issue.path as Path)]
  const value = valueAt(rules, path)
  switch (issue.code) {
    case 'unrecognized_keys':
      return unknownKeys(issue.keys, issue.message.split(' '), path)
    case 'invalid_union':
      return closest(issue.errors, value).flatMap((each) => translate(each, path, rules))
    case 'invalid_key':
      return [
        {
          code: 'HG_RULES_VALUE',
          path,
          atKey: true,
          secret: true,
          reason: 'this name cannot stand here',
          suggestion: issue.issues[0]?.message ?? 'use another name',
        },
      ]
    case 'custom':
      return [
        {
          code: issue.params?.code ?? 'HG_RULES_VALUE',
          path,
          reason: issue.message,
          suggestion: issue.params?.suggestion ?? 'see the schema',
          ...(issue.params?.offset !== undefined && { offset: issue.params.offset }),
        },
      ]
    default:
      return [value === undefined ? missing(path, issue) : { ...wrong(issue, value, path), path }]
  }
}

function unknownKeys(keys: readonly string[], known: readonly string[], path: Path): Finding[] {
  return keys.slice(0, MOST_PROBLEMS).map((key) => ({
    code: 'HG_RULES_UNKNOWN_KEY',
    path: [...path, key],
    atKey: true,
    reason: 'unknown key',
    suggestion: hints.get(key) ?? choose(key, known),
  }))
}

/** What people write who know other tools. */
const hints: ReadonlyMap<string, string> = new Map([
  ['<<', 'merge keys are not read; repeat what is meant'],
  ['not', 'write it where it belongs: path: { not: /health }'],
  ['$schema', 'name the schema in a comment: # yaml-language-server: $schema=./headgate.schema.json'],
])

/** Of several forms, the one that was meant: that of the same kind, with the fewest faults. */
function closest(branches: readonly (readonly Issue[])[], value: unknown): readonly Issue[] {
  const sameKind = branches.filter((issues) => !issues.some((issue) => isOtherKind(issue, value)))
  const sorted = [...sameKind].sort((a, b) => faults(a) - faults(b))
  if (sorted[0] !== undefined) return sorted[0]
  const expected = branches.flat().filter((issue) => issue.path.length === 0)
  const words = new Set(expected.flatMap(kindOf))
  return [{ code: 'invalid_type', expected: [...words].join(' or ') as 'string', path: [], message: '', input: value }]
}

/** A form that the value is not, whatever it says. */
function isOtherKind(issue: Issue, value: unknown): boolean {
  if (issue.path.length > 0) return false
  if (issue.code === 'invalid_union')
    return issue.errors.every((branch) => branch.some((each) => isOtherKind(each, value)))
  if (issue.code === 'invalid_type' && String(issue.expected) === 'int' && typeof value === 'number') return false
  return issue.code === 'invalid_type' || (issue.code === 'invalid_value' && issue.values.length === 1)
}

function faults(issues: readonly Issue[]): number {
  return issues.reduce((sum, issue) => sum + (issue.code === 'unrecognized_keys' ? issue.keys.length : 1), 0)
}

function kindOf(issue: Issue): string[] {
  if (issue.code === 'invalid_union') return issue.errors.flat().flatMap(kindOf)
  if (issue.code === 'invalid_value') return issue.values.map((value) => show(value))
  return issue.code === 'invalid_type' ? [kinds.get(issue.expected) ?? issue.expected] : []
}

const kinds: ReadonlyMap<string, string> = new Map([
  ['string', 'a text'],
  ['number', 'a number'],
  ['int', 'a whole number'],
  ['boolean', 'true or false'],
  ['object', 'a map'],
  ['record', 'a map'],
  ['array', 'a list'],
])

function missing(path: Path, issue: Issue): Finding {
  const expected = kindOf(issue)[0] ?? 'it'
  return { code: 'HG_RULES_MISSING', path, reason: `"${path.at(-1)}" is missing`, suggestion: `give ${expected}` }
}

const SECRET = /password|hashKeys/i

type Said = Pick<Finding, 'code' | 'reason' | 'suggestion'>

function wrong(issue: Issue, value: unknown, path: Path): Said {
  const isSecret = SECRET.test(String(path.at(-1)))
  const shown = isSecret ? 'this' : show(value)
  if (issue.code === 'invalid_type') return wrongKind(issue.expected, shown, isSecret ? undefined : value)
  const said = (reason: string, suggestion: string): Said => ({
    code: 'HG_RULES_VALUE',
    reason: `${shown} ${reason}`,
    suggestion,
  })
  if (issue.code === 'invalid_value') return said('is not known here', choose(String(value), issue.values.map(String)))
  if (issue.code === 'too_big') return said('is too large', `give at most ${issue.maximum}`)
  if (issue.code !== 'too_small') return said('does not fit', issue.message)
  return typeof value === 'number'
    ? said('is too small', `give at least ${issue.minimum}`)
    : said('is too short', 'leave it out, or give something')
}

function wrongKind(kind: string, shown: string, value: unknown): Said {
  const expected = kinds.get(kind) ?? kind
  const isUnquoted = expected.startsWith('a text') && ['number', 'boolean'].includes(typeof value)
  const suggestion = isUnquoted ? `write "${value}" in quotes` : `give ${expected}`
  return { code: 'HG_RULES_TYPE', reason: `${shown} stands where ${expected} belongs`, suggestion }
}

/** Short, and never a secret: what stands in a map or list is not told. */
export function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 60 ? `${value.slice(0, 57)}...` : value)
  if (value === null) return 'nothing'
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object' ? 'a map' : String(value)
}

export function valueAt(rules: unknown, path: Path): unknown {
  let value = rules
  for (const name of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as Record<string | number, unknown>)[name]
  }
  return value
}
