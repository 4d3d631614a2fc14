import { type Bare, type Item, LONGEST_FIELD, MOST_MEMBERS, parseDictionary, parseList } from './structured.ts'
import { durationMs, parseDuration, parseHttpDate, parseNumber, parseReset, parseRetryAfter, resetMs } from './times.ts'

export { parseDuration, parseHttpDate, parseReset, parseRetryAfter, parseRfc3339, resetMs, untilMs } from './times.ts'

/** One limit as a server tells it. What it does not say, or says in a way that makes no sense, is absent. */
export interface Policy {
  readonly name?: string
  readonly limit?: number
  readonly remaining?: number
  readonly windowMs?: number
  /** Until more is available: some servers mean the next unit, others all of them. */
  readonly resetAfterMs?: number
  /** Whose part of the limit it is, in base64, where a server counts several apart under one name. */
  readonly partition?: string
  /** Of the request that was answered. */
  readonly cost?: number
  /** What is counted; requests, if nothing else is said. */
  readonly unit?: string
  readonly source: 'ietf' | 'draft-7' | 'draft-6' | 'legacy' | 'vendor'
}

export interface Reported {
  readonly retryAfterMs?: number
  /** In the order of the fields that tell what is left; one limit told in two dialects is there twice. */
  readonly policies: readonly Policy[]
}

type Read = (name: string) => string

/** What the header fields of a response say about limits, in all generic dialects at once. Never throws, whatever they hold.
 *  Fields are asked for in lower case. Instants count from the server's own `Date`, else from `nowMs`. */
export function parseHeaders(get: (name: string) => string | null | undefined, nowMs: number): Reported {
  const read: Read = (name) => {
    const text: unknown = get(name)
    return typeof text === 'string' ? text : ''
  }
  const dateMs = parseHttpDate(read('date'), nowMs) ?? nowMs
  const waits = values(read('retry-after')).flatMap((text) => parseRetryAfter(text, dateMs) ?? [])
  return {
    ...(waits.length > 0 && { retryAfterMs: Math.max(...waits) }),
    policies: [...ietf(read), ...unnamed(read, dateMs), ...legacy(read, dateMs)].filter(saysSomething),
  }
}

/** Drafts from -08 on, and what is proposed after -11: `a` for `r`, `w` for `t`, and `c`. */
function ietf(read: Read): Policy[] {
  const byName = new Map<string, Policy>()
  for (const [id, item] of identified(read('ratelimit'))) byName.set(id, stateOf(item))
  for (const [id, item] of identified(read('ratelimit-policy')))
    byName.set(id, { ...quotaOf(item, 'ietf'), ...byName.get(id) })
  return [...byName.values()]
}

/** Names compare without case, and the token `daily` is the string `"daily"`. Where two servers on the way use one name, the first
 *  state belongs to the first policy. */
function* identified(field: string): Iterable<[id: string, item: Item]> {
  const seen = new Map<string, number>()
  for (const item of parseList(field)) {
    if (item.type !== 'string' && item.type !== 'token') continue
    const name = item.value.toLowerCase()
    const times = seen.get(name) ?? 0
    seen.set(name, times + 1)
    yield [`${times} ${name}`, item]
  }
}

function stateOf({ value, params }: Item): Policy {
  return known({
    name: String(value),
    remaining: count(params.get('r') ?? params.get('a')),
    // Here `w` is the effective window: how long what is left has to last. The window of the policy stands in its own field.
    resetAfterMs: timeMs(params.get('t') ?? params.get('w')),
    cost: count(params.get('c')),
    partition: bytesIn(params.get('pk')),
    source: 'ietf',
  })
}

/** A policy of any draft: `"name";q=100;w=60` or `100;w=60`. */
function quotaOf(item: Item, source: Policy['source']): Policy {
  const { params } = item
  const isNamed = item.type === 'string' || item.type === 'token'
  return known({
    name: isNamed ? item.value : undefined,
    limit: count(isNamed ? params.get('q') : item),
    // No window is 0 long.
    windowMs: timeMs(params.get('w') ?? params.get('window')) || undefined,
    unit: unitOf(params.get('qu')),
    partition: bytesIn(params.get('pk')),
    source,
  })
}

function bytesIn(bare: Bare | undefined): string | undefined {
  return bare?.type === 'bytes' && bare.value !== '' ? bare.value : undefined
}

/** The drafts call it `requests` in one place and `request` in another. */
function unitOf(unit: Bare | undefined): string | undefined {
  if (unit?.type !== 'string' && unit?.type !== 'token') return undefined
  return unit.value === 'request' ? 'requests' : unit.value
}

/** Drafts up to -07, whose policies have no names. */
function unnamed(read: Read, nowMs: number): Policy[] {
  const dictionary = draft7(read('ratelimit'), nowMs)
  const quotas = quotasIn(read('ratelimit-policy'), dictionary.length > 0 ? 'draft-7' : 'draft-6')
  const states = [...dictionary, ...threeFields(read, 'ratelimit', nowMs, 'draft-6')]
  return byQuota(states, [...quotas, ...behindLimit(read('ratelimit-limit'), 'draft-6')])
}

/** The spelling with a dash only where the other is missing: who sends both says the same twice. */
function legacy(read: Read, nowMs: number): Policy[] {
  for (const prefix of ['x-ratelimit', 'x-rate-limit']) {
    const states = threeFields(read, prefix, nowMs, 'legacy')
    const found = byQuota(states, behindLimit(read(`${prefix}-limit`), 'legacy'))
    if (found.length > 0) return found
  }
  return []
}

/** `limit=100, remaining=50, reset=5`; a key that comes again begins the field line of another server. */
function draft7(field: string, nowMs: number): Policy[] {
  const lines: Map<string, Bare>[] = []
  for (const member of parseDictionary(field)) {
    if (!['limit', 'remaining', 'reset'].includes(member.key) || typeof member.value !== 'number') continue
    if (lines.at(-1)?.has(member.key) !== false) lines.push(new Map())
    lines.at(-1)?.set(member.key, member)
  }
  return lines.map((line) => {
    const reset = count(line.get('reset'))
    return known({
      limit: count(line.get('limit')),
      remaining: count(line.get('remaining')),
      resetAfterMs: reset === undefined ? undefined : resetMs(reset, nowMs),
      source: 'draft-7',
    })
  })
}

/** One field per number. Joined field lines belong together by position. */
function threeFields(read: Read, prefix: string, nowMs: number, source: Policy['source']): Policy[] {
  const column = <T>(name: string, parse: (text: string) => T) => values(read(`${prefix}-${name}`)).map(parse)
  const limit = values(read(`${prefix}-limit`))
    .filter((text) => !text.includes(';'))
    .map(countIn)
  const remaining = column('remaining', countIn)
  const reset = column('reset', (text) => parseReset(text, nowMs))
  const after = column('reset-after', parseDuration)
  const resource = column('resource', String)
  const name = resource.length > 0 ? resource : column('bucket', String)
  return Array.from({ length: Math.max(limit.length, remaining.length, reset.length, after.length) }, (_, row) =>
    known<Policy>({
      name: name[row] || undefined,
      limit: limit[row],
      remaining: remaining[row],
      // The one that needs no clock is to be trusted more.
      resetAfterMs: after[row] ?? reset[row],
      source,
    }),
  ).filter(saysSomething)
}

/** Some list their policies behind the limit: `100, 100;w=60`. */
function behindLimit(field: string, source: Policy['source']): Policy[] {
  return quotasIn(field, source).filter(({ windowMs }) => windowMs !== undefined)
}

function quotasIn(field: string, source: Policy['source']): Policy[] {
  return parseList(field)
    .filter((item) => item.type === 'integer' && item.value >= 0)
    .map((item) => quotaOf(item, source))
}

/** Gives each state the window of its policy, as far as the limit tells which that is; then the policies without state. */
function byQuota(states: readonly Policy[], quotas: readonly Policy[]): Policy[] {
  const byLimit = new Map<number | undefined, Policy | 'several'>()
  for (const quota of quotas) {
    const other = byLimit.get(quota.limit)
    const isSame = other === undefined || (other !== 'several' && other.windowMs === quota.windowMs)
    byLimit.set(quota.limit, isSame ? quota : 'several')
  }
  const told = new Set<number | undefined>()
  const merged = states.map((state) => {
    const limit = state.limit ?? (quotas.length === 1 ? quotas[0]?.limit : undefined)
    const quota = byLimit.get(limit)
    if (quota === undefined || quota === 'several') return state
    told.add(limit)
    return { ...quota, ...state }
  })
  return [...merged, ...quotas.filter(({ limit }) => !told.has(limit))]
}

/** Joined field lines, apart: at each comma but the one in a date. */
function values(field: string): string[] {
  if (field === '') return []
  const parts = field.slice(0, LONGEST_FIELD).split(',', MOST_MEMBERS)
  if (field.length > LONGEST_FIELD) parts.pop()
  const found: string[] = []
  for (const part of parts) {
    const last = found.at(-1)
    if (last !== undefined && /^(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*$/i.test(last))
      found[found.length - 1] = `${last}, ${part.trim()}`
    else found.push(part.trim())
  }
  return found
}

function countIn(text: string): number | undefined {
  const value = parseNumber(text)
  return value === undefined ? undefined : Math.floor(value)
}

function count(bare: Bare | undefined): number | undefined {
  return typeof bare?.value === 'number' && bare.value >= 0 ? Math.floor(bare.value) : undefined
}

function timeMs(seconds: Bare | undefined): number | undefined {
  return typeof seconds?.value === 'number' ? durationMs(seconds.value) : undefined
}

/** What is unknown is absent, so that it hides nothing when entries are merged. */
function known<T extends object>(entry: T): T {
  const found: Partial<T> = {}
  for (const key in entry) if (entry[key] !== undefined) found[key] = entry[key]
  return found as T
}

function saysSomething(policy: Policy): boolean {
  return Object.values(policy).some((value) => typeof value === 'number')
}
