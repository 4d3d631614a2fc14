import { memory } from 'headgate'
import { loadRules } from '../config/load.ts'
import { RulesError } from '../config/problem.ts'
import type { Incoming } from '../rules/caller.ts'
import type { Explained } from '../rules/rule-set.ts'
import { Service } from '../service.ts'
import type { Terminal } from './index.ts'

interface Options {
  readonly header?: readonly string[]
  readonly ip: string
  readonly json?: boolean
}

/** Says what the rules make of a request, on counts that are empty. */
export async function explain(
  file: string,
  method: string,
  url: string,
  options: Options,
  { env, out, err }: Terminal,
): Promise<number> {
  try {
    const { rules } = loadRules(file, env)
    const { rules: ready } = new Service(rules, memory())
    const caller = ready.callerOf(incomingOf(method, url, options))
    const limits = await ready.explain(caller)
    const complaints: { code?: string; message?: string }[] = []
    // Without a key or a tier that is known nothing can be decided, and the rest is worth telling all the same.
    const decision = await Promise.resolve()
      .then(() => ready.peek(caller))
      .catch((error: { code?: string }) => void complaints.push(error))
    const { path, address, tier } = caller
    if (options.json)
      out.write(
        `${JSON.stringify({ path, ip: address, tier, limits, decision, error: complaints[0]?.code }, null, 2)}\n`,
      )
    else {
      out.write(`${method} ${path} from ${address}${tier === undefined ? '' : `, tier ${tier}`}\n`)
      for (const limit of limits)
        out.write(
          `${line(
            limit,
            decision?.limits.find(({ name }) => name === limit.name),
          )}\n`,
        )
    }
    return 0
  } catch (error) {
    if (!(error instanceof RulesError) && (error as { code?: string }).code === undefined) throw error
    err.write(`${(error as Error).message}\n`)
    return 1
  }
}

function incomingOf(method: string, url: string, { header = [], ip }: Options): Incoming {
  const headers = new Headers(
    header.map((each) => [each.slice(0, each.indexOf(':')), each.slice(each.indexOf(':') + 1)]),
  )
  if (/^https?:/.test(url)) headers.set('host', new URL(url).host)
  return { method: method.toUpperCase(), url, peer: ip, header: (name) => headers.get(name) ?? undefined }
}

function isWhole(key: Explained['key']): boolean {
  return key !== undefined && !(Array.isArray(key) && key.some((part) => part === undefined))
}

function line(
  { name, matches, because, mode, by, key }: Explained,
  state?: { limit: number; windowMs: number },
): string {
  if (mode.mode === 'off') return `  ${name}: off`
  if (!matches) return `  ${name}: does not match, because of ${because.join(', ')}`
  if (by.length > 0 && !isWhole(key)) return `  ${name}: matches, but the request does not say its ${by.join(' and ')}`
  const whose = by.length === 0 ? 'one counter for all' : `key ${JSON.stringify(key)}`
  const rate = state === undefined ? '' : `, ${state.limit} in ${state.windowMs} ms`
  return `  ${name}: matches, ${whose}${rate}${mode.mode === 'observe' ? ', only observed' : ''}`
}
