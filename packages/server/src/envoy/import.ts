import { type Path, type Problem, problemAt, sortProblems } from '../config/problem.ts'
import { LIMIT_NAME } from '../config/schema.ts'
import type { EnvoyConfig, EnvoyDescriptor, EnvoyRateLimit } from './config.ts'
import type { Unit } from './schema.ts'
import { type Asked, START, stepInto, type Way } from './steps.ts'
import { isGuessed, partOf, wordOf } from './words.ts'

/** Rules as they are written. */
export interface ImportedRules {
  readonly identify?: { readonly ipv6Prefix: 128 }
  readonly limits: Readonly<Record<string, ImportedLimit>>
}

export interface ImportedLimit {
  readonly limit: string
  readonly algorithm: 'fixed-window'
  readonly by?: readonly string[]
  readonly when?: Readonly<Record<string, unknown>>
  readonly mode?: 'observe'
}

export interface Imported {
  readonly rules: ImportedRules
  /** What was not carried over, or means something else here. */
  readonly problems: readonly Problem[]
}

const MOST_LIMITS = 1000
const LONGEST_NAME = 60

/** The rules that mean the same as configurations of envoyproxy/ratelimit, if every request has a descriptor for each of their limits
 *  that it can have one for. */
export function importEnvoy(configs: readonly EnvoyConfig[], map: ReadonlyMap<string, string> = new Map()): Imported {
  const writer = new Writer(configs, map)
  for (const config of configs) writer.write(config)
  return writer.imported()
}

class Writer {
  readonly #map: ReadonlyMap<string, string>
  readonly #hasDomains: boolean
  readonly #limits = new Map<string, ImportedLimit>()
  readonly #problems: Problem[] = []
  /** What is said of a file once. */
  readonly #said = new Set<string>()

  constructor(configs: readonly EnvoyConfig[], map: ReadonlyMap<string, string>) {
    this.#map = map
    this.#hasDomains = configs.length > 1
  }

  imported(): Imported {
    const limits = Object.fromEntries(this.#limits)
    const countsAddresses = Object.values(limits).some(({ by }) => by?.includes('ip'))
    // Envoy counts each address by itself.
    const identify = countsAddresses ? ({ identify: { ipv6Prefix: 128 } } as const) : {}
    return { rules: { ...identify, limits }, problems: sortProblems(this.#problems) }
  }

  write(config: EnvoyConfig): void {
    if (this.#hasDomains)
      this.#differs(
        config,
        ['domain'],
        'an Envoy asks for one domain, and here the limits of all hold for every request',
        'say by when.host or when.path which requests are meant',
      )
    this.#writeLevel(config, config.descriptors, START, this.#hasDomains ? [config.domain] : [])
  }

  #writeLevel(config: EnvoyConfig, level: readonly EnvoyDescriptor[], way: Way, names: readonly string[]): void {
    for (const step of level) {
      const further = stepInto(way, step, level, this.#map)
      const own = [...names, step.value === undefined ? step.key : `${step.key}-${step.value}`]
      if (step.rateLimit !== undefined) this.#writeLimit(config, step, step.rateLimit, further, own)
      this.#writeLevel(config, step.descriptors, further, own)
    }
  }

  #writeLimit(
    config: EnvoyConfig,
    step: EnvoyDescriptor,
    limit: EnvoyRateLimit,
    way: Way,
    names: readonly string[],
  ): void {
    const { rate } = limit
    // Nothing is written for whom nothing is limited: siblings leave them out.
    if (rate === undefined) return
    const fault = way.fault ?? this.#faultOf(step)
    if (fault !== undefined) {
      this.#lost(config, [...step.path, 'rate_limit'], fault.reason, fault.suggestion)
      return
    }
    this.#limits.set(this.#nameOf(limit.name ?? names.join('-')), {
      limit: `${rate.requests}/${periods[rate.unit]}`,
      algorithm: 'fixed-window',
      ...(way.by.length > 0 && { by: way.by }),
      ...(way.when.size > 0 && { when: whenOf(way) }),
      ...(step.shadowMode && { mode: 'observe' }),
    })
    this.#remark(config, step, limit, way)
  }

  #faultOf({ quotaMode }: EnvoyDescriptor): Way['fault'] {
    if (quotaMode)
      return {
        reason: 'in quota_mode it refuses only when all such limits are used up, and here each holds by itself',
        suggestion: 'write the limit by hand',
      }
    if (this.#limits.size < MOST_LIMITS) return undefined
    return { reason: `rules have at most ${MOST_LIMITS} limits`, suggestion: 'use tiers and keys' }
  }

  #remark(config: EnvoyConfig, step: EnvoyDescriptor, { replaces }: EnvoyRateLimit, way: Way): void {
    const { path } = step
    for (const [i, name] of replaces.entries())
      this.#differs(
        config,
        [...path, 'rate_limit', 'replaces', i],
        `"${name}" holds beside this limit, and is not replaced by it`,
        'leave one out, or make their "when" exclude each other',
        name,
      )
    if (way.by.includes('path') || way.when.has('path'))
      this.#differs(
        config,
        path,
        'paths are compared and counted without their query, and in one spelling',
        'leave it so, unless queries matter',
      )
    if (way.when.get('method')?.is.includes('GET'))
      this.#differs(config, path, 'a limit on GET is one on HEAD too', 'leave it so, unless that matters')
    for (const word of way.by)
      if (partOf(word) === undefined)
        this.#differs(
          config,
          path,
          `requests that do not tell their ${word} are refused with 400, where Envoy would let them pass`,
          'leave it so, if all of them do',
          word,
        )
    for (const field of ['detailed_metric', 'value_to_metric', 'metadata'] as const)
      if (hasField(step, field)) this.#lostOnce(config, [...path, field])
    for (const key of keysTo(config, path))
      if (isGuessed(key, this.#map) && 'word' in wordOf(key, this.#map))
        this.#differs(
          config,
          path,
          `"${key}" is taken for the header of that name`,
          `say what it is by --map ${key}=…, if it is not`,
          key,
        )
  }

  /** Once for a file and a thing. */
  #differs({ file, where }: EnvoyConfig, path: Path, reason: string, suggestion: string, thing = reason): void {
    if (this.#isNews(`${file} ${thing} ${reason}`))
      this.#problems.push(problemAt(where(path), { code: 'HG_RULES_IMPORT_DIFFERS', path, reason, suggestion }))
  }

  #lostOnce(config: EnvoyConfig, path: Path): void {
    const reason = `${path.at(-1)} has no meaning here`
    if (this.#isNews(`${config.file} ${reason}`))
      this.#lost(config, path, reason, 'see docs/operating/metrics.md for what is measured')
  }

  #lost({ where }: EnvoyConfig, path: Path, reason: string, suggestion: string): void {
    this.#problems.push(problemAt(where(path), { code: 'HG_RULES_NOT_IMPORTED', path, reason, suggestion }))
  }

  #isNews(text: string): boolean {
    const isNews = !this.#said.has(text)
    this.#said.add(text)
    return isNews
  }

  #nameOf(text: string): string {
    const plain = text
      .toLowerCase()
      .replaceAll(/[^a-z\d_]+/g, '-')
      .replaceAll(/^[^a-z]+|-+$/g, '')
      .slice(0, LONGEST_NAME)
    const name = LIMIT_NAME.test(plain) ? plain : `limit-${plain}`.replace(/-$/, '')
    for (let i = 1; ; i++) {
      const each = i === 1 ? name : `${name}-${i}`
      if (!this.#limits.has(each)) return each
    }
  }
}

const periods: Readonly<Record<Unit, string>> = {
  second: 's',
  minute: 'min',
  hour: 'h',
  day: 'day',
  week: 'week',
  month: 'month',
  year: 'year',
}

function whenOf({ when }: Way): Record<string, unknown> {
  const result: Record<string, unknown> = {}
  const header: Record<string, unknown> = {}
  for (const [part, asked] of when) {
    if (part.startsWith('header ')) header[part.slice('header '.length)] = matchOf(asked)
    else result[part] = matchOf(asked)
  }
  return Object.keys(header).length === 0 ? result : { ...result, header }
}

function matchOf({ is, not }: Asked): unknown {
  const short = (values: readonly string[]) => (values.length === 1 ? values[0] : values)
  if (not.length === 0) return short(is)
  return { ...(is.length > 0 && { is: short(is) }), not: short(not) }
}

const fields = { detailed_metric: 'detailedMetric', value_to_metric: 'valueToMetric', metadata: 'metadata' } as const

function hasField(step: EnvoyDescriptor, field: keyof typeof fields): boolean {
  const value = step[fields[field]]
  return value !== undefined && value !== false
}

/** Keys on the way to a step. */
function keysTo({ descriptors }: EnvoyConfig, path: Path): string[] {
  const keys: string[] = []
  let level = descriptors
  for (const index of path) {
    if (typeof index !== 'number') continue
    const step = level[index]
    if (step === undefined) break
    keys.push(step.key)
    level = step.descriptors
  }
  return keys
}
