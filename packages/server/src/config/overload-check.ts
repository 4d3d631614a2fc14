import type { Limit } from 'headgate'
import { fleetShare } from '../rules/fleet-share.ts'
import { valueAt } from './issues.ts'
import { limitFindings, tiersOf } from './limit-check.ts'
import { neverMatches } from './never-matches.ts'
import type { OverloadRules } from './overload-schema.ts'
import type { Finding } from './problem.ts'
import type { Rules } from './schema.ts'

/** The limit that `overload.fleet` becomes. */
export const FLEET = 'fleet'

/** What the schema cannot tell: whether the library understands the limit of the fleet, and its name is free. */
export function fleetFindings(raw: unknown): Finding[] {
  const fleet = valueAt(raw, ['overload', 'fleet'])
  if (typeof fleet !== 'object' || fleet === null || Array.isArray(fleet)) return []
  const { limit, atOnce, reserve = 20 } = fleet as { limit?: unknown; atOnce?: unknown; reserve?: unknown }
  const path = ['overload', 'fleet']
  if (tiersOf(limit) !== undefined) {
    const suggestion = 'give one limit, such as 10000/s'
    return [{ code: 'HG_RULES_LIMIT', path: [...path, 'limit'], reason: 'the fleet has no tiers', suggestion }]
  }
  const found = limitFindings(FLEET, { limit, atOnce }, path)
  if (found.length > 0) return found
  return [...nameTaken(raw), ...emptyShare({ limit, atOnce } as FleetLimit, reserve)]
}

interface FleetLimit {
  readonly limit?: Limit
  readonly atOnce?: number
}

function nameTaken(raw: unknown): Finding[] {
  if (valueAt(raw, ['limits', FLEET]) === undefined) return []
  const reason = `limit "${FLEET}" has the name of what overload.fleet counts by`
  return [{ code: 'HG_RULES_DUPLICATE', path: ['limits', FLEET], atKey: true, reason, suggestion: 'rename it' }]
}

function emptyShare(limit: FleetLimit, reserve: unknown): Finding[] {
  if (typeof reserve !== 'number' || !(reserve >= 0 && reserve <= 100)) return []
  const { most } = fleetShare(limit, reserve)
  if (most > 0) return []
  const reason = `a reserve of ${reserve} leaves nothing for all that is not critical`
  return [
    {
      code: 'HG_RULES_CONFLICT',
      path: ['overload', 'fleet', 'reserve'],
      reason,
      suggestion: 'keep less, or raise the limit',
    },
  ]
}

/** What can never act. */
export function overloadWarnings(rules: Rules, raw: unknown): Finding[] {
  const { overload } = rules
  if (overload === undefined) return []
  return [...entries(rules, overload, raw), ...untrusted(rules, raw), ...idle(rules, overload, raw)]
}

function entries(rules: Rules, { priorities }: OverloadRules, raw: unknown): Finding[] {
  const all = priorities.findIndex(({ when }) => Object.values(when).every((part) => part === undefined))
  return priorities.flatMap(({ when }, i): Finding[] => {
    const path = ['overload', 'priorities', i]
    const found = neverMatches(when, [...path, 'when'], rules, raw)
    if (when.tier !== undefined && rules.identify.tier === undefined) {
      const reason = 'nothing says who has which tier'
      const suggestion = 'give identify.tier'
      found.push({ code: 'HG_RULES_NO_SOURCE', path: [...path, 'when', 'tier'], reason, suggestion })
    }
    if (all < 0 || i <= all) return found
    const reason = `overload.priorities.${all} matches all requests`
    return [...found, { code: 'HG_RULES_NEVER_MATCHES', path, reason, suggestion: 'put the one without when last' }]
  })
}

/** Headers that nobody is believed. */
function untrusted({ identify: { trustedProxies } }: Rules, raw: unknown): Finding[] {
  if (typeof trustedProxies !== 'object' || trustedProxies.length > 0) return []
  return ['header', 'deadlineHeader'].flatMap((name): Finding[] => {
    const path = ['overload', name]
    if (valueAt(raw, path) === undefined) return []
    const reason = 'nobody is believed what this header says'
    return [{ code: 'HG_RULES_NO_EFFECT', path, reason, suggestion: 'give identify.trustedProxies' }]
  })
}

function idle(rules: Rules, overload: OverloadRules, raw: unknown): Finding[] {
  const { concurrency, utilisation, fleet, mode } = overload
  const code = 'HG_RULES_NO_EFFECT'
  if (mode === 'off') return []
  const path = ['overload', 'queue']
  const findings: Finding[] = []
  if (concurrency === false && overload.queue !== false && valueAt(raw, path) !== undefined)
    findings.push({ code, path, reason: 'nobody waits where any number is let in', suggestion: 'give concurrency' })
  if (concurrency === false && utilisation === false && fleet === undefined) {
    const suggestion = 'leave overload out, or switch one on'
    findings.push({ code, path: ['overload'], atKey: true, reason: 'nothing of it can shed anybody', suggestion })
  }
  return rules.upstream.length > 0 ? findings : [...findings, ...withoutGateway(raw)]
}

/** Who asks for decisions alone does not say when the work is over. */
function withoutGateway(raw: unknown): Finding[] {
  return ['concurrency', 'queue', 'utilisation'].flatMap((part): Finding[] => {
    const path = ['overload', part]
    const value = valueAt(raw, path)
    if (value === undefined || value === false) return []
    const reason = 'only requests that go through the gateway are held against this'
    return [{ code: 'HG_RULES_NO_EFFECT', path, reason, suggestion: 'give upstream' }]
  })
}
