import { AdminClient } from './admin.ts'
import type { Terminal } from './index.ts'
import { Misuse } from './misuse.ts'
import { aligned, amount, duration, json, plain } from './text.ts'

interface Options {
  readonly admin: string
  readonly json?: boolean
  readonly tier?: string
}

type Parts = readonly string[]

interface State {
  readonly ok: boolean
  readonly limit: number | null
  readonly used: number
  readonly remaining: number | null
  readonly retryAfterMs: number | null
  readonly resetAfterMs: number
  readonly windowMs: number
  readonly degraded: string | false
}

interface Exception {
  readonly until: string
  readonly reason: string
  readonly by: string
  readonly to?: string | { readonly atOnce: number }
}

interface Inspected extends Partial<State> {
  readonly name: string
  readonly key?: string | Parts
  readonly mode: string
  readonly enforcePercent: number
  readonly tiers?: Readonly<Record<string, State>>
  readonly override: Exception | null
  readonly block: Exception | null
}

export async function inspect(limit: string, key: Parts, options: Options, { env, out }: Terminal): Promise<number> {
  const query = options.tier === undefined ? '' : `?tier=${encodeURIComponent(options.tier)}`
  const answer = await new AdminClient(options.admin, env).ask('GET', pathOf(limit, key) + query)
  out.write(options.json ? json(answer) : aligned(rowsOf(answer as Inspected)))
  return 0
}

export async function reset(limit: string, key: Parts, options: Options, { env, out }: Terminal): Promise<number> {
  await new AdminClient(options.admin, env).ask('DELETE', pathOf(limit, key))
  if (options.json) out.write(json({ limit, key, reset: true }))
  else out.write(`${plain(limit)}: counts and block of ${plain(key.join(', ')) || 'all'} are forgotten\n`)
  return 0
}

/** A segment for each part. What stands for a folder in a URL would not arrive. */
function pathOf(limit: string, key: Parts): string {
  const odd = [limit, ...key].find((part) => /^\.{0,2}$/.test(part))
  if (odd !== undefined) throw new Misuse(`"${odd}" cannot be part of a key here.`)
  return `/admin/v1/keys/${[limit, ...key].map(encodeURIComponent).join('/')}`
}

function rowsOf(answer: Inspected): string[][] {
  const { name, key, mode, enforcePercent, tiers, override, block } = answer
  const share = mode === 'enforce' && enforcePercent < 100 ? ` for ${enforcePercent}% of keys` : ''
  const states = Object.entries(tiers ?? { state: answer as State })
  const rows = [
    ['limit', name],
    ['key', key === undefined ? 'one counter for all' : [key].flat().join(', ')],
    ['mode', mode + share],
    ...states.map(([label, state]) => [tiers === undefined ? label : `tier ${label}`, stateText(state)]),
    ...(override ? [['override', `${limitText(override.to)} ${exceptionText(override)}`]] : []),
    ...(block ? [['block', exceptionText(block)]] : []),
  ]
  return rows.map((row) => row.map(plain))
}

function stateText({ ok, limit, used, remaining, retryAfterMs, resetAfterMs, windowMs, degraded }: State): string {
  return [
    `${amount(remaining)} of ${amount(limit)} left`,
    `${used} used`,
    ...(windowMs > 0 ? [`window ${duration(windowMs)}`] : []),
    ...(resetAfterMs > 0 ? [`all back in ${duration(resetAfterMs)}`] : []),
    ...(ok ? [] : [retryAfterMs === null ? 'refused' : `refused for ${duration(retryAfterMs)}`]),
    ...(degraded ? [`the store is down: ${degraded}`] : []),
  ].join(', ')
}

function limitText(to: Exception['to']): string {
  return typeof to === 'object' ? `${to.atOnce} at once` : String(to)
}

function exceptionText({ until, reason, by }: Exception): string {
  return `until ${until}, by ${by}${reason === '' ? '' : `: ${reason}`}`
}
