import { readSource, type Source } from './document.ts'
import { type Environment, withEnvironment } from './environment.ts'
import { withEnvoy } from './envoy-check.ts'
import { withSchema } from './graphql-check.ts'
import { holdFindings } from './hold-check.ts'
import { type Included, readIncluded, readRulesFile } from './include.ts'
import { findingsOf, valueAt } from './issues.ts'
import { limitFindings, tiersOf } from './limit-check.ts'
import { fleetFindings } from './overload-check.ts'
import { type Finding, type Path, type Position, type Problem, problemAt, RulesError, sortProblems } from './problem.ts'
import { type Rules, rulesSchema } from './schema.ts'
import { holdsOf } from './store-schema.ts'
import { warningsOf } from './warnings.ts'

export interface Loaded {
  readonly rules: Rules
  readonly warnings: readonly Problem[]
  /** What was read; a change of one of these, or of what is in the folders, changes the rules. */
  readonly files: readonly string[]
  readonly folders: readonly string[]
  /** Whether the rules or the environment give it, and it is no default. */
  isGiven(path: Path): boolean
  /** Where a part of the rules is written, or would be. */
  where(path: Path): Position
  /** All of it in one text, with what was included. */
  whole(): string
}

const MOST_LIMITS = 1000
const MOST_TIERS = 10_000

/** What may stand beside rules: configurations of envoyproxy/ratelimit, or folders of them. */
export interface Beside {
  readonly envoy?: readonly string[] | undefined
}

/** Reads a rules file with what it includes and what the environment says. Throws a RulesError with all that is wrong. */
export function loadRules(path: string, environment: Environment = {}, beside: Beside = {}): Loaded {
  const main = readRulesFile(path)
  return resolveRules(main, readIncluded(main), environment, true, beside)
}

/** Reads rules that come from elsewhere, and may not have files read. */
export function parseRules(text: string, name = 'rules', environment: Environment = {}, beside: Beside = {}): Loaded {
  const main = readSource(text, name)
  const { include = [] } = main.value as { include?: unknown }
  const at = { path: ['include'], atKey: true }
  const refusal: Finding = {
    code: 'HG_RULES_INCLUDE',
    ...at,
    reason: 'only files can include files',
    suggestion: 'put the limits here',
  }
  const isAsked = !Array.isArray(include) || include.length > 0
  const problems = isAsked ? [problemAt(main.position(at), refusal)] : []
  return resolveRules(main, { sources: [], folders: [], problems }, environment, false, beside)
}

type Raw = Readonly<Record<string, unknown>>

function resolveRules(
  main: Source,
  { sources, folders, problems: found }: Included,
  environment: Environment,
  mayRead: boolean,
  { envoy: more }: Beside,
): Loaded {
  const merged = mergeLimits(main, sources)
  const { rules: raw, problems: fromOutside } = withEnvironment(merged.raw, environment)
  const homeOf = (path: Path) => (path[0] === 'limits' && merged.homes.get(String(path[1]))) || main
  const locate = (finding: Finding) => problemAt(homeOf(finding.path).position(finding), finding)
  const { data, findings } = understand(raw)
  const envoy = data && withEnvoy(data, main, mayRead, more)
  const read = envoy && withSchema(envoy.rules, main, homeOf, mayRead)
  const later = [...(envoy?.problems ?? []), ...(read?.problems ?? [])]
  const problems = [...found, ...merged.problems, ...fromOutside, ...findings.map(locate), ...later]
  if (read === undefined || problems.some(({ severity }) => severity === 'error')) throw new RulesError(problems)
  return {
    rules: read.rules,
    warnings: sortProblems([...problems, ...warningsOf(read.rules, raw).map(locate)]),
    files: [
      ...[main, ...sources].map(({ file }) => file),
      ...(read.file === undefined ? [] : [read.file]),
      ...(envoy?.files ?? []),
    ],
    folders: [...folders, ...(envoy?.folders ?? [])],
    isGiven: (path) => valueAt(raw, path) !== undefined,
    where: (path) => homeOf(path).position({ path }),
    whole: () =>
      JSON.stringify({ ...merged.raw, include: undefined, graphql: read.rules.graphql, envoy: read.rules.envoy }),
  }
}

interface Merged {
  readonly raw: Raw
  /** Where each limit is written. */
  readonly homes: ReadonlyMap<string, Source>
  readonly problems: readonly Problem[]
}

function mergeLimits(main: Source, included: readonly Source[]): Merged {
  const homes = new Map<string, Source>()
  const limits: Record<string, unknown> = {}
  const problems: Problem[] = []
  for (const source of [main, ...included]) {
    const own = (source.value as Raw).limits
    if (own === undefined) continue
    if (!isObject(own)) {
      if (source === main) return { raw: main.value as Raw, homes, problems } // told by the schema
      problems.push(problemAt(source.position({ path: ['limits'] }), NO_MAP))
      continue
    }
    for (const [name, limit] of Object.entries(own)) {
      const first = homes.get(name)
      if (first !== undefined) problems.push(twice(name, first, source))
      else {
        homes.set(name, source)
        limits[name] = limit
      }
    }
  }
  return { raw: { ...(main.value as Raw), ...(homes.size > 0 && { limits }) }, homes, problems }
}

const NO_MAP: Finding = {
  code: 'HG_RULES_TYPE',
  path: ['limits'],
  reason: 'limits are a map',
  suggestion: 'write names and limits',
}

function twice(name: string, first: Source, second: Source): Problem {
  const at = { path: ['limits', name], atKey: true }
  const { file, line, column } = first.position(at)
  const reason = `limit "${name}" is defined at ${file}:${line}:${column} too`
  return problemAt(second.position(at), {
    code: 'HG_RULES_DUPLICATE',
    ...at,
    reason,
    suggestion: 'rename one, or drop it',
  })
}

function isObject(value: unknown): value is Raw {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function understand(raw: Raw): { data: Rules | undefined; findings: Finding[] } {
  const tooMany = countFinding(raw.limits)
  if (tooMany !== undefined) return { data: undefined, findings: [tooMany] }
  const { data, error } = rulesSchema.safeParse(raw)
  const findings = findingsOf(error?.issues ?? [], raw)
  const fleet = findings.some(({ path }) => path[0] === 'overload' && path[1] === 'fleet') ? [] : fleetFindings(raw)
  // Rules that say nothing of the store are for one that is open already.
  const holds = data === undefined || raw.store === undefined ? [] : holdFindings(data.limits, holdsOf(data.store))
  return { data, findings: [...findings, ...limitFaults(raw.limits, findings), ...fleet, ...holds] }
}

function countFinding(limits: unknown): Finding | undefined {
  if (!isObject(limits)) return undefined
  const tiers = Object.values(limits).map((each) => Object.keys((isObject(each) && tiersOf(each.limit)) || {}).length)
  if (tiers.length <= MOST_LIMITS && tiers.reduce((sum, each) => sum + each, 0) <= MOST_TIERS) return undefined
  const reason = `more than ${MOST_LIMITS} limits, or ${MOST_TIERS} tiers`
  return {
    code: 'HG_RULES_TOO_LARGE',
    path: ['limits'],
    atKey: true,
    reason,
    suggestion: 'every request is held against all of them: use tiers and keys',
  }
}

/** What the library says of each limit, unless something is wrong already with what it would be shown. */
function limitFaults(limits: unknown, findings: readonly Finding[]): Finding[] {
  if (!isObject(limits)) return []
  const shown = ['limit', 'atOnce', 'holdMs', 'algorithm', 'align', 'zone', 'hold']
  const isWrong = (name: string) =>
    findings.some(
      ({ path: [top, limit, part = ''] }) => top === 'limits' && limit === name && shown.includes(String(part)),
    )
  return Object.entries(limits).flatMap(([name, rule]) =>
    isObject(rule) && !isWrong(name) ? limitFindings(name, rule, ['limits', name]) : [],
  )
}
