import { dirname, resolve } from 'node:path'
import { levelFindings, readEnvoyFiles } from '../envoy/config.ts'
import type { RawConfig, RawDescriptor } from '../envoy/schema.ts'
import type { Source } from './document.ts'
import { type EnvoyRules, envoyRulesSchema } from './envoy-schema.ts'
import { filesOf } from './include.ts'
import { type Finding, type Path, type Problem, problemAt, RulesError } from './problem.ts'
import type { Rules } from './schema.ts'

/** Rules with the configurations of envoyproxy/ratelimit in place of their names. */
export interface WithEnvoy {
  readonly rules: Rules
  readonly problems: readonly Problem[]
  readonly files: readonly string[]
  readonly folders: readonly string[]
}

const MOST_LIMITS = 10_000
const FILES: Path = ['envoy', 'files']

type Fault = Pick<Finding, 'code' | 'reason' | 'suggestion'>

/** @param mayRead whether the rules may name files @param more files that whoever started the service named */
export function withEnvoy(rules: Rules, main: Source, mayRead: boolean, more: readonly string[] = []): WithEnvoy {
  const { envoy = more.length > 0 ? envoyRulesSchema.parse({}) : undefined } = rules
  if (envoy === undefined) return { rules, problems: [], files: [], folders: [] }
  const problems = inlineFindings(envoy).map((each) => problemAt(main.position(each), each))
  const at = (path: Path) => (fault: Fault) => {
    problems.push(problemAt(main.position({ path }), { ...fault, path }))
  }
  if (envoy.files.length > 0 && !mayRead) at(FILES)(ONLY_FILES)
  const folders: string[] = []
  const home = dirname(main.file)
  const files = [
    ...(mayRead ? envoy.files : []).flatMap((each) => filesOf(resolve(home, each), folders, at(FILES))),
    ...more.flatMap((each) => filesOf(resolve(each), folders, at([]))),
  ]
  const read = readAll(files, problems)
  const domains = [...envoy.domains, ...read]
  if (problems.length === 0) for (const fault of wholeFaults(domains)) at(['envoy'])(fault)
  return { rules: { ...rules, envoy: { ...envoy, files: [], domains } }, problems, files, folders }
}

const ONLY_FILES: Fault = {
  code: 'HG_RULES_INCLUDE',
  reason: 'only rules in a file can name a file',
  suggestion: 'put its domain and descriptors under domains',
}

function inlineFindings({ domains }: EnvoyRules): Finding[] {
  return domains.flatMap(({ descriptors = [] }, i) =>
    levelFindings(descriptors, ['envoy', 'domains', i, 'descriptors']),
  )
}

function readAll(files: readonly string[], problems: Problem[]): RawConfig[] {
  try {
    return readEnvoyFiles(files).map(({ raw }) => raw)
  } catch (error) {
    if (!(error instanceof RulesError)) throw error
    problems.push(...error.problems)
    return []
  }
}

function wholeFaults(domains: readonly RawConfig[]): Fault[] {
  const twice = domains.find(({ domain }, i) => domains.findIndex((each) => each.domain === domain) < i)
  const limits = domains.reduce((sum, { descriptors }) => sum + countOf(descriptors), 0)
  return [
    ...(twice === undefined
      ? []
      : [
          {
            code: 'HG_RULES_DUPLICATE' as const,
            reason: `the domain "${twice.domain}" stands here twice`,
            suggestion: 'put all its descriptors in one place',
          },
        ]),
    ...(limits <= MOST_LIMITS
      ? []
      : [
          {
            code: 'HG_RULES_TOO_LARGE' as const,
            reason: `more than ${MOST_LIMITS} limits`,
            suggestion: 'use keys alone',
          },
        ]),
  ]
}

function countOf(descriptors: readonly RawDescriptor[] = []): number {
  return descriptors.reduce((sum, each) => sum + (each.rate_limit === undefined ? 0 : 1) + countOf(each.descriptors), 0)
}
