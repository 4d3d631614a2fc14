import { METHODS } from 'node:http'
import { pathGlobHint } from './glob.ts'
import { valueAt } from './issues.ts'
import type { Match, WhenRules } from './limit-schema.ts'
import { contradiction } from './narrower.ts'
import type { Fault, Finding, Path } from './problem.ts'
import type { Rules } from './schema.ts'
import { choose } from './suggest.ts'

const COMMON = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'CONNECT', 'TRACE']

/** What no request can match, of one `when`. `raw` is the rules as they were written. */
export function neverMatches(when: WhenRules, path: Path, rules: Rules, raw: unknown): Finding[] {
  const tiers = knownTiers(rules)
  const checks: [part: 'path' | 'method' | 'tier', check: (value: string) => Fault | undefined][] = [
    ['path', pathGlobHint],
    ['method', methodFault],
    ['tier', (tier) => (tiers === undefined ? undefined : tierFault(tier, tiers))],
  ]
  const found = checks.flatMap(([part, check]) => faultsOf(when[part], check, [...path, part], raw))
  const part = contradiction(when, rules.caseSensitive)
  if (part === undefined) return found
  const reason = 'all that it asks for is excluded by its "not"'
  return [
    ...found,
    { code: 'HG_RULES_NEVER_MATCHES', path: [...path, ...part], reason, suggestion: 'mend or drop the limit' },
  ]
}

function faultsOf(
  match: Match | undefined,
  check: (value: string) => Fault | undefined,
  path: Path,
  raw: unknown,
): Finding[] {
  const of = (values: readonly string[], key: string) =>
    values.flatMap((value, i): Finding[] => {
      const fault = check(value)
      return fault === undefined ? [] : [{ code: 'HG_RULES_NEVER_MATCHES', path: written(raw, path, key, i), ...fault }]
    })
  return [...of(match?.is ?? [], 'is'), ...of(match?.not ?? [], 'not')]
}

/** Where a value stands that may be written alone, in a list, or in `is` and `not`. */
function written(raw: unknown, path: Path, key: string, i: number): Path {
  const inner = valueAt(raw, [...path, key]) === undefined ? path : [...path, key]
  return Array.isArray(valueAt(raw, inner)) ? [...inner, i] : inner
}

function methodFault(method: string): Fault | undefined {
  if (METHODS.includes(method)) return undefined
  return { reason: `no request has the method ${method}`, suggestion: choose(method, COMMON) }
}

function tierFault(tier: string, tiers: readonly string[]): Fault | undefined {
  return tiers.includes(tier) ? undefined : { reason: `nobody has the tier "${tier}"`, suggestion: choose(tier, tiers) }
}

/** The tiers that callers can have, where the rules say so. */
export function knownTiers({ identify: { tier } }: Rules): string[] | undefined {
  if (tier === undefined || !('byKey' in tier)) return undefined
  return [...new Set([...Object.values(tier.byKey), ...(tier.default === undefined ? [] : [tier.default])])]
}

/** Behind an upstream that takes all requests no other gets one. */
export function unreachable({ upstream }: Rules, raw: unknown): Finding[] {
  const all = upstream.findIndex(({ match }) => match.path === undefined && match.host === undefined)
  const isList = Array.isArray(valueAt(raw, ['upstream']))
  return upstream.flatMap(({ match }, i): Finding[] => {
    const path = isList ? ['upstream', i] : ['upstream']
    const paths = match.path === undefined ? undefined : { is: match.path, not: [] }
    if (all < 0 || i <= all) return faultsOf(paths, pathGlobHint, [...path, 'match', 'path'], raw)
    const reason = `upstream.${all} takes all requests`
    return [{ code: 'HG_RULES_NEVER_MATCHES', path, reason, suggestion: 'put the one without match last' }]
  })
}
