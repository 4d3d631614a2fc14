import { type LimitState, memory } from 'headgate'
import { bytesOf, statusOf } from 'headgate/http'
import { loadRules } from '../config/load.ts'
import type { Caller } from '../rules/caller.ts'
import type { Ranked } from '../rules/priorities.ts'
import type { Decided, Explained, Unmet } from '../rules/rule-set.ts'
import { Service } from '../service.ts'
import type { Terminal } from './index.ts'
import { requestOf } from './request.ts'
import { aligned, amount, duration, json, plain } from './text.ts'

interface Options {
  readonly header: readonly string[]
  readonly ip: string
  readonly json?: boolean
}

/** What a limit makes of the request, beside whether it concerns it. */
interface Met extends Explained {
  /** Parts of the key that the request does not say. */
  readonly missing: readonly string[]
  /** As long as nothing is used. */
  readonly state?: LimitState
  /** A number, or how it is found. */
  readonly cost?: number | string
  /** Where the response says what it was. */
  readonly settle?: string
  /** Responses with these are counted, others not. */
  readonly countsStatus?: readonly number[]
}

interface Verdict {
  readonly ok: boolean
  readonly status?: number
  readonly limit?: string
  /** Of an error: what the request lacks. */
  readonly code?: string
}

/** Says what the rules make of a request, on counts that are empty. */
export async function explain(
  file: string,
  method: string,
  url: string,
  options: Options,
  { env, out }: Terminal,
): Promise<number> {
  const incoming = requestOf({ method, url, header: options.header, ip: options.ip })
  const service = new Service(loadRules(file, env).rules, memory())
  const caller = service.rules.callerOf(incoming)
  const limits = await metOf(service, caller)
  const { decision, verdict } = await verdictOf(service, caller)
  const { path, host, address: ip, tier } = caller
  const priority = service.rules.rank(caller)
  if (options.json)
    out.write(json({ method: incoming.method, path, host, ip, tier, priority, limits, verdict, decision }))
  else {
    const whose = `${host === undefined ? '' : ` on ${host}`} from ${ip}${tier === undefined ? '' : `, tier ${tier}`}`
    out.write(`${plain(`${incoming.method} ${path}${whose}`)}\n`)
    out.write(limits.length === 0 ? '  there are no limits\n' : aligned(limits.map(row), '  '))
    if (priority !== undefined) out.write(`Priority: ${priority.priority}, ${tellRank(priority)}\n`)
    out.write(`${tellVerdict(verdict, decision)}\n`)
  }
  return 0
}

async function metOf(service: Service, caller: Caller): Promise<Met[]> {
  const explained = await service.rules.explain(caller)
  return Promise.all(
    explained.map(async (each) => {
      const { cost, settle, countWhen } = service.rules.limits[each.name] ?? {}
      const missing = each.matches ? missingOf(each) : []
      const state = each.matches && missing.length === 0 ? await stateOf(service, each, caller.tier) : undefined
      return {
        ...each,
        missing,
        ...(state && { state }),
        ...(cost !== undefined && { cost }),
        ...(settle !== undefined && { settle }),
        ...(countWhen && { countsStatus: countWhen.status }),
      }
    }),
  )
}

function missingOf({ by, key }: Explained): string[] {
  const parts = Array.isArray(key) ? key : [key]
  return by.filter((_, i) => parts[i] === undefined || parts[i] === '')
}

async function stateOf(service: Service, { name, key }: Explained, tier?: string): Promise<LimitState | undefined> {
  try {
    const hasTiers = service.rules.hasTiers(name)
    return (await service.inspect(name, key, hasTiers ? tier : undefined)).limits[0]
  } catch {
    return undefined // a tier that is not known, as the verdict says
  }
}

/** Without a key, or with a tier that is not known, nothing can be decided; the rest is worth telling all the same. */
async function verdictOf({ rules }: Service, caller: Caller): Promise<{ decision?: Decided; verdict: Verdict }> {
  try {
    const decision = await rules.peek(caller)
    const { ok, limit } = decision
    return { decision, verdict: ok ? { ok, limit } : { ok, status: statusOf(decision, undefined), limit } }
  } catch (error) {
    const { code } = error as { code?: string }
    if (code === undefined) throw error
    return { verdict: { ok: false, status: 400, code } }
  }
}

function row(met: Met): string[] {
  const { name, matches, mode, because } = met
  if (mode.mode === 'off') return [name, 'off', '']
  if (!matches) return [name, 'no match', plain(because.map(tellUnmet).join('; '))]
  const watched = mode.mode === 'observe'
  return [name, watched ? 'observed' : 'matches', plain(details(met).join(', '))]
}

function tellUnmet({ part, value, is, not }: Unmet): string {
  const seen = value === undefined ? `${part} is not there` : `${part} is ${JSON.stringify(value)}`
  if (value !== undefined && not.length > 0 && is === undefined) return `${seen}, and must not be ${not.join(', ')}`
  const but = not.length > 0 ? ` but not ${not.join(', ')}` : ''
  return `${seen}, wanted is ${is?.join(' or ') ?? 'another'}${but}`
}

function details({ by, key, missing, state, mode, cost, settle, countsStatus }: Met): string[] {
  if (missing.length > 0) return [`but the request does not say its ${missing.join(' and ')}`]
  const { enforcePercent } = mode
  return [
    by.length === 0 ? 'one counter for all' : `${by.join(', ')} = ${JSON.stringify(key)}`,
    state === undefined ? 'its tier is not known' : tellState(state),
    ...(cost === undefined ? [] : [`a request costs ${costText(cost)}`]),
    ...(settle === undefined ? [] : [`settled by ${settle}`]),
    ...(countsStatus ? [`counts responses with ${countsStatus.join(', ')}`] : []),
    ...(mode.mode === 'enforce' && enforcePercent < 100 ? [`enforced for ${enforcePercent}% of keys`] : []),
  ]
}

function costText(cost: number | string): string {
  if (typeof cost === 'number') return String(cost)
  return bytesOf(cost) === undefined ? `what ${cost} says` : `its ${cost}`
}

function tellState({ limit, remaining, windowMs }: LimitState): string {
  const window = windowMs > 0 && Number.isFinite(limit) ? `, window ${duration(windowMs)}` : ''
  return `${amount(remaining)} of ${amount(limit)} left${window}`
}

function tellRank({ because }: Ranked): string {
  return because === 'default' ? 'as nothing says otherwise' : `by ${because}`
}

function tellVerdict({ ok, status, limit, code }: Verdict, decision?: Decided): string {
  if (code !== undefined) return `Verdict: refused with ${status}, ${code}`
  if (ok) return limit ? `Verdict: allowed, closest is ${limit}` : 'Verdict: allowed, no limit is enforced on it'
  const wait =
    decision?.retryAfterMs === Infinity ? 'waiting does not help' : `wait ${duration(decision?.retryAfterMs ?? 0)}`
  return `Verdict: refused with ${status} by ${limit}, ${wait}`
}
