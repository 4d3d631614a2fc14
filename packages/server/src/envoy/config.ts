import { readSource, type Source } from '../config/document.ts'
import { readRulesFile } from '../config/include.ts'
import { findingsOf } from '../config/issues.ts'
import { type Finding, type Path, type Position, type Problem, problemAt, RulesError } from '../config/problem.ts'
import { envoySchema, type RawConfig, type RawDescriptor, type RawRateLimit, type Unit } from './schema.ts'

/** A configuration of envoyproxy/ratelimit: which limits hold for the descriptors that an Envoy sends. */
export interface EnvoyConfig {
  readonly file: string
  readonly domain: string
  readonly descriptors: readonly EnvoyDescriptor[]
  /** As it is written. */
  readonly raw: RawConfig
  /** Where a part of it is written. */
  where(path: Path): Position
}

/** A step of the tree that the entries of a descriptor are followed through. */
export interface EnvoyDescriptor {
  readonly key: string
  /** Absent: any value that no sibling names. */
  readonly value: string | undefined
  /** Whether the value is a start that others may follow. */
  readonly isWildcard: boolean
  readonly rateLimit: EnvoyRateLimit | undefined
  readonly descriptors: readonly EnvoyDescriptor[]
  /** Counts and tells, and refuses nobody. */
  readonly shadowMode: boolean
  /** Over only when all that are so are over. */
  readonly quotaMode: boolean
  /** All values that a wildcard stands for are one counter. */
  readonly shareThreshold: boolean
  readonly detailedMetric: boolean
  readonly valueToMetric: boolean
  readonly metadata: unknown
  readonly path: Path
}

export interface EnvoyRateLimit {
  /** Undefined: unlimited. */
  readonly rate: { readonly requests: number; readonly unit: Unit } | undefined
  readonly name: string | undefined
  /** Names of limits that do not hold where this one does. */
  readonly replaces: readonly string[]
}

/** Reads configurations as envoyproxy/ratelimit does: what it would refuse to start with is refused. Throws a RulesError with all
 *  that is wrong. */
export function readEnvoyFiles(paths: readonly string[]): EnvoyConfig[] {
  const problems: Problem[] = []
  const configs = paths.flatMap((path) => {
    try {
      return [configOf(readRulesFile(path, 'texts'))]
    } catch (error) {
      if (!(error instanceof RulesError)) throw error
      problems.push(...error.problems.map(inTheirWords))
      return []
    }
  })
  problems.push(...sameDomain(configs))
  if (problems.length > 0) throw new RulesError(problems)
  return configs
}

export function readEnvoyConfig(text: string, name = 'config'): EnvoyConfig {
  try {
    return configOf(readSource(text, name, 'texts'))
  } catch (error) {
    throw error instanceof RulesError ? new RulesError(error.problems.map(inTheirWords)) : error
  }
}

/** What is empty has no domain, whereas rules would have no limits. */
function inTheirWords(problem: Problem): Problem {
  if (problem.code === 'HG_RULES_EMPTY')
    return { ...problem, reason: 'there is nothing in it', suggestion: 'write domain and descriptors' }
  return problem.path === '' && problem.code === 'HG_RULES_TYPE'
    ? { ...problem, reason: 'a configuration is a map', suggestion: 'write domain and descriptors' }
    : problem
}

function configOf(source: Source): EnvoyConfig {
  const { data, error } = envoySchema.safeParse(source.value)
  const found = findingsOf(error?.issues ?? [], source.value)
  const findings = data === undefined ? found : [...found, ...levelFindings(data.descriptors ?? [], ['descriptors'])]
  if (data === undefined || findings.length > 0)
    throw new RulesError(findings.map((finding) => problemAt(source.position(finding), finding)))
  return {
    file: source.file,
    domain: data.domain,
    descriptors: descriptorsOf(data.descriptors),
    raw: data,
    where: (path) => source.position({ path }),
  }
}

export function descriptorsOf(
  raw: readonly RawDescriptor[] | undefined,
  path: Path = ['descriptors'],
): EnvoyDescriptor[] {
  return (raw ?? []).map((each, i) => descriptorOf(each, [...path, i]))
}

function descriptorOf(raw: RawDescriptor, path: Path): EnvoyDescriptor {
  return {
    key: raw.key,
    value: raw.value,
    isWildcard: raw.value?.endsWith('*') === true,
    rateLimit: raw.rate_limit && rateLimitOf(raw.rate_limit),
    descriptors: descriptorsOf(raw.descriptors, [...path, 'descriptors']),
    shadowMode: raw.shadow_mode === true,
    quotaMode: raw.quota_mode === true,
    shareThreshold: raw.share_threshold === true,
    detailedMetric: raw.detailed_metric === true,
    valueToMetric: raw.value_to_metric === true,
    metadata: raw.metadata,
    path,
  }
}

function rateLimitOf({
  unit,
  requests_per_unit: requests = 0,
  unlimited,
  name,
  replaces = [],
}: RawRateLimit): EnvoyRateLimit {
  return {
    rate: unlimited === true || unit === undefined ? undefined : { requests, unit },
    name,
    replaces: replaces.map((each) => each.name ?? ''),
  }
}

/** What the schema cannot say: what must hold between siblings, and between parts of a limit. */
export function levelFindings(descriptors: readonly RawDescriptor[], path: Path): Finding[] {
  const seen = new Set<string>()
  return descriptors.flatMap((each, i) => {
    const own = [...path, i]
    const name = JSON.stringify([each.key, each.value])
    const again = seen.has(name)
    seen.add(name)
    return [
      ...(again ? [twice(each, own)] : []),
      ...limitFindings(each, own),
      ...levelFindings(each.descriptors ?? [], [...own, 'descriptors']),
    ]
  })
}

function twice({ key, value }: RawDescriptor, path: Path): Finding {
  const what = value === undefined ? `"${key}"` : `"${key}" with the value "${value}"`
  return { code: 'HG_RULES_DUPLICATE', path, reason: `${what} stands here twice`, suggestion: 'keep one' }
}

function limitFindings({ value, rate_limit: limit, share_threshold }: RawDescriptor, path: Path): Finding[] {
  const findings: Finding[] = []
  const add = (code: Finding['code'], at: Path, reason: string, suggestion: string) =>
    findings.push({ code, path: [...path, ...at], reason, suggestion })
  if (share_threshold && !value?.includes('*'))
    add('HG_RULES_CONFLICT', ['share_threshold'], 'only values with a * are shared', 'add a *, or drop it')
  if (limit === undefined) return findings
  if (limit.unlimited && limit.unit !== undefined)
    add('HG_RULES_CONFLICT', ['rate_limit', 'unit'], 'what is unlimited has no unit', 'drop one of them')
  if (!limit.unlimited && limit.unit === undefined)
    add('HG_RULES_MISSING', ['rate_limit', 'unit'], '"unit" is missing', 'give one such as minute, or unlimited: true')
  for (const [i, { name }] of (limit.replaces ?? []).entries()) {
    const at = ['rate_limit', 'replaces', i]
    if (name === undefined) add('HG_RULES_MISSING', at, 'it does not say what is replaced', 'give a name')
    else if (name === limit.name) add('HG_RULES_CONFLICT', at, 'a limit cannot replace itself', 'name another one')
  }
  return findings
}

function sameDomain(configs: readonly EnvoyConfig[]): Problem[] {
  return configs.flatMap(({ domain, where }, i) => {
    const first = configs.findIndex((each) => each.domain === domain)
    if (first === i) return []
    const reason = `the domain "${domain}" is in ${configs[first]?.file} too`
    const suggestion = 'put all its descriptors in one file'
    return [problemAt(where(['domain']), { code: 'HG_RULES_DUPLICATE', path: ['domain'], reason, suggestion })]
  })
}
