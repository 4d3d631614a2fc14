import { costWarnings, unusedSchema } from './cost-check.ts'
import { valueAt } from './issues.ts'
import { knownTiers, neverMatches, unreachable } from './never-matches.ts'
import { overloadWarnings } from './overload-check.ts'
import type { Finding, Path } from './problem.ts'
import type { Rules } from './schema.ts'
import { type Sized, shadowFindings, sized } from './shadows.ts'

/** What is allowed in rules and hardly ever meant. `raw` is the rules as they were written. */
export function warningsOf(rules: Rules, raw: unknown): Finding[] {
  const limits = Object.entries(rules.limits).map(([name, rule]) => sized(name, rule))
  const each = limits.flatMap((limit) => {
    const path = ['limits', limit.name]
    const found = [
      ...neverFits(limit),
      ...noSource(limit, rules, raw),
      ...noEffect(limit),
      ...costWarnings(limit.rule, rules),
    ]
    return [
      ...neverMatches(limit.rule.when, [...path, 'when'], rules, raw),
      ...found.map((finding) => ({ ...finding, path: [...path, ...finding.path] })),
    ]
  })
  const others = [...overloadWarnings(rules, raw), ...noLimits(rules), ...unusedSchema(rules)]
  return [...each, ...shadowFindings(limits, rules), ...unreachable(rules, raw), ...others]
}

function neverFits({ rule, sizes }: Sized): Finding[] {
  const code = 'HG_RULES_NEVER_FITS'
  return [...sizes].flatMap(([tier, { most }]): Finding[] => {
    const path = rule.atOnce !== undefined ? ['atOnce'] : tier === '' ? ['limit'] : ['limit', tier]
    if (most === 0) {
      const suggestion = 'that blocks whom it counts; mode: off switches a limit off'
      return [{ code, path, reason: 'a limit of 0 refuses every request', suggestion }]
    }
    if (typeof rule.cost !== 'number' || rule.cost <= most) return []
    const what = tier === '' ? 'the limit' : `the tier "${tier}"`
    const reason = `cost ${rule.cost} can never fit: ${what} lets ${most} through at once`
    return [{ code, path: ['cost'], reason, suggestion: 'lower the cost or raise the burst' }]
  })
}

function noSource({ rule, sizes }: Sized, rules: Rules, raw: unknown): Finding[] {
  const findings: Finding[] = []
  const add = (path: Path, reason: string, suggestion: string) =>
    findings.push({ code: 'HG_RULES_NO_SOURCE', path, reason, suggestion })
  const { user, org, tier } = rules.identify
  for (const [name, source] of Object.entries({ user, org, tier })) {
    if (rule.by.includes(name) && source === undefined)
      add(['by'], `nothing says who the ${name} is, so it cannot count anybody`, `give identify.${name}`)
  }
  if (rule.by.includes('api-key') && valueAt(raw, ['identify', 'apiKey']) === undefined)
    add(['by'], 'the API key is taken from Authorization or X-API-Key, as nothing else is said', 'give identify.apiKey')
  const unknown = 'nothing says who has which tier'
  if (rule.when.tier !== undefined && tier === undefined) add(['when', 'tier'], unknown, 'give identify.tier')
  if (sizes.has('')) return findings
  if (tier === undefined) add(['limit'], unknown, 'give identify.tier')
  for (const each of knownTiers(rules) ?? [])
    if (!sizes.has(each))
      add(['limit'], `the tier "${each}" of identify.tier has no limit here`, 'add it, such as unlimited')
  return findings
}

function noEffect({ rule, sizes }: Sized): Finding[] {
  const findings: Finding[] = []
  const add = (path: Path, reason: string, suggestion: string) =>
    findings.push({ code: 'HG_RULES_NO_EFFECT', path, reason, suggestion })
  const isUnlimited = [...sizes.values()].every(({ most }) => most === Infinity)
  if (isUnlimited && rule.onStoreError === 'deny')
    add(['onStoreError'], 'this limit refuses nobody, unless the store is away', 'write allow, or drop the limit')
  if (rule.mode !== 'enforce' && rule.enforcePercent !== 100)
    add(['enforcePercent'], `mode ${rule.mode} enforces nothing`, 'write mode: enforce, or leave it out')
  for (const [i, status] of (rule.countWhen?.status ?? []).entries()) {
    if (status < 100 || status > 599)
      add(['countWhen', 'status', i], `no response has the status ${status}`, 'statuses are 100 to 599')
  }
  return findings
}

function noLimits({ overload, limits, envoy }: Rules): Finding[] {
  if (envoy !== undefined) return []
  if (overload !== undefined || Object.keys(limits).length > 0) return []
  const suggestion = 'add one, such as per-ip: { limit: 10/s, by: [ip] }'
  return [{ code: 'HG_RULES_NO_EFFECT', path: ['limits'], reason: 'there are no limits', suggestion }]
}
