import { looksInside } from './cost-words.ts'
import type { LimitRules } from './limit-schema.ts'
import type { Finding, Path } from './problem.ts'
import type { Rules } from './schema.ts'

/** Methods whose requests have no body that a server would read. */
const BARE = ['GET', 'HEAD', 'OPTIONS', 'TRACE', 'CONNECT']

/** Costs that are asked for where nobody can tell them. */
export function costWarnings({ cost, settle, when }: LimitRules, { upstream }: Rules): Finding[] {
  const findings: Finding[] = []
  const add = (path: Path, reason: string, suggestion: string) =>
    findings.push({ code: 'HG_RULES_NO_EFFECT', path, reason, suggestion })
  if (upstream.length === 0) {
    if (looksInside(cost))
      add(
        ['cost'],
        'without an upstream nobody sees bodies, and each request costs what its caller says',
        'say upstream',
      )
    if (settle !== undefined)
      add(['settle'], 'without an upstream there are no responses', 'say upstream, or leave it to POST /v1/settle')
  }
  const methods = when.method?.is ?? []
  if (isItems(cost) && methods.length > 0 && methods.every((each) => BARE.includes(each)))
    add(['cost'], `a ${methods.join(' or ')} has no body, so each costs 1`, 'count POST, PUT or PATCH, or drop it')
  return findings
}

/** A schema that nobody asks. */
export function unusedSchema({ graphql, limits }: Rules): Finding[] {
  if (graphql === undefined || Object.values(limits).some(({ cost }) => cost === 'graphql')) return []
  const reason = 'no limit has cost: graphql'
  return [
    { code: 'HG_RULES_NO_EFFECT', path: ['graphql'], atKey: true, reason, suggestion: 'give it to one, or drop it' },
  ]
}

function isItems(cost: LimitRules['cost']): boolean {
  return typeof cost === 'string' && cost.startsWith('items:')
}
