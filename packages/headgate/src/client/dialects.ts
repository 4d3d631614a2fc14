// What APIs say about limits in words of their own. Each adds to what the generic fields say, and believes nothing.
import type { Policy } from '../headers/parse.ts'
import { parseDuration, parseHttpDate, parseNumber, parseReset } from '../headers/times.ts'
import {
  type Answer,
  amount,
  doneOf,
  hasLimitError,
  LONGEST_WAIT_MS,
  pick,
  readGeneric,
  secondsIn,
  sound,
  type Told,
} from './told.ts'

interface Dialect {
  /** Whether an answer is in it. */
  speaks(answer: Answer): boolean
  read(answer: Answer, told: Told): Told
  /** Which calls are counted together, as far as the address says. */
  route?(method: string, path: string): string
}

export type DialectName = 'github' | 'discord' | 'openai' | 'anthropic' | 'shopify' | 'stripe'
/** A dialect of your own: what it returns wins over what was read already. */
export type ReadAnswer = (answer: Answer, told: Told) => Told | undefined

const github: Dialect = {
  speaks: ({ header }) => header('x-github-request-id') !== undefined || header('x-ratelimit-used') !== undefined,
  read(answer, told) {
    const message = String(pick(answer.body, 'message') ?? '')
    const isSecondary = /secondary rate limit|abuse detection/i.test(message)
    if (!isSecondary && !(answer.status === 403 && /rate limit/i.test(message))) return told
    // Told nothing better, it wants at least a minute.
    const waitMs = told.retryAfterMs ?? (hasNone(told) ? undefined : 60_000)
    const reason = isSecondary ? 'secondary' : 'primary'
    return { ...told, refused: true, reason, ...(waitMs !== undefined && { retryAfterMs: waitMs }) }
  },
}

/** The resources whose ids have counters of their own. */
const discordRoots = /^\/(?:api\/)?(?:v\d+\/)?((?:channels|guilds|webhooks)\/\d+)?/

const discord: Dialect = {
  speaks: ({ header }) => header('x-ratelimit-bucket') !== undefined || header('x-ratelimit-scope') !== undefined,
  read(answer, told) {
    const [, root = ''] = discordRoots.exec(pathOf(answer.url)) ?? []
    const policies = told.policies?.map((policy) => ({ ...policy, name: `${policy.name ?? ''} ${root}` }))
    const isGlobal = answer.header('x-ratelimit-global') === 'true' || pick(answer.body, 'global') === true
    const reason = answer.header('x-ratelimit-scope')
    const waitMs = told.retryAfterMs ?? secondsIn(pick(answer.body, 'retry_after'))
    return {
      ...told,
      ...(policies && { policies }),
      ...(waitMs !== undefined && { retryAfterMs: waitMs }),
      ...(reason !== undefined && { reason }),
      scope: isGlobal || reason === 'global' ? 'host' : policies?.length ? 'policies' : 'route',
    }
  },
  route(method, path) {
    const [start = '', root = ''] = discordRoots.exec(path) ?? []
    return `${method} ${root}${path.slice(start.length).replace(/\/\d{15,}/g, '/:id')}`
  },
}

const DAY_MS = 86_400_000
/** A second that is not told, and the way here. */
const AGREEMENT_MS = 2_000

/** `x-ratelimit-remaining-tokens`, `anthropic-ratelimit-tokens-remaining`: one policy for each thing that is counted. */
function byUnit(
  units: readonly string[],
  field: (kind: string, unit: string) => string | undefined,
  answer: Answer,
): Policy[] {
  const nowMs = serverNowMs(answer)
  return units.flatMap((unit): Policy[] => {
    const [limit, remaining] = [parseNumber(field('limit', unit) ?? ''), parseNumber(field('remaining', unit) ?? '')]
    const reset = field('reset', unit) ?? ''
    // A bare number would be seconds; both write durations or dates.
    const resetAfterMs = parseDuration(reset) ?? parseReset(reset, nowMs)
    if (remaining === undefined) return []
    const windowMs = fullMs(limit, remaining, resetAfterMs)
    return [{ name: unit, unit, source: 'vendor', remaining, ...defined({ limit, resetAfterMs, windowMs }) }]
  })
}

/** Instants count by the clock of the server, which tells whole seconds: ours tells more where they agree. */
function serverNowMs({ header, nowMs }: Answer): number {
  const dateMs = parseHttpDate(header('date') ?? '', nowMs) ?? nowMs
  return nowMs >= dateMs && nowMs < dateMs + AGREEMENT_MS ? nowMs : dateMs
}

/** Both say how long it takes until all is there again: so much is missing, so long would all of it take. */
function fullMs(limit = 0, remaining: number, resetAfterMs = 0): number | undefined {
  const windowMs = Math.ceil((resetAfterMs * limit) / (limit - remaining))
  return limit > remaining && windowMs > 0 ? Math.min(windowMs, DAY_MS) : undefined
}

const openai: Dialect = {
  speaks: ({ header }) =>
    header('x-ratelimit-remaining-requests') !== undefined || header('x-ratelimit-remaining-tokens') !== undefined,
  read(answer, told) {
    const field = (kind: string, unit: string) => answer.header(`x-ratelimit-${kind}-${unit}`)
    const found = byUnit(['requests', 'tokens'], field, answer)
    return { ...told, policies: [...(told.policies ?? []), ...found] }
  },
  // Models have limits of their own, and the address is all that is known before a call.
  route: (_method, path) => path,
}

const anthropic: Dialect = {
  speaks: ({ header }) =>
    ['requests', 'tokens', 'input-tokens'].some((unit) => header(`anthropic-ratelimit-${unit}-remaining`)),
  read(answer, told) {
    const units = ['requests', 'tokens', 'input-tokens', 'output-tokens']
    const field = (kind: string, unit: string) => answer.header(`anthropic-ratelimit-${unit}-${kind}`)
    return { ...told, policies: [...(told.policies ?? []), ...byUnit(units, field, answer)] }
  },
}

/** What a shop lets through while it is idle comes back within this, on every plan. */
const SHOPIFY_WINDOW_MS = 20_000

const shopify: Dialect = {
  speaks: ({ header, body }) =>
    header('x-shopify-shop-api-call-limit') !== undefined || throttleStatus(body) !== undefined,
  read({ header, body }, told) {
    const [, used = '', limit = ''] = /^(\d{1,9})\/(\d{1,9})$/.exec(header('x-shopify-shop-api-call-limit') ?? '') ?? []
    const policies = [...(told.policies ?? [])]
    if (limit !== '')
      policies.push({
        name: 'calls',
        limit: Number(limit),
        remaining: Math.max(0, Number(limit) - Number(used)),
        windowMs: SHOPIFY_WINDOW_MS,
        source: 'vendor',
      })
    const cost = costOf(body)
    return cost === undefined ? { ...told, policies } : { ...told, ...cost, policies: [...policies, cost.policy] }
  },
}

function throttleStatus(body: unknown): unknown {
  return pick(pick(pick(body, 'extensions'), 'cost'), 'throttleStatus')
}

/** Points of a GraphQL query: what it asked for, what there is, and how fast that comes back. */
function costOf(body: unknown): { policy: Policy; retryAfterMs?: number } | undefined {
  const status = throttleStatus(body)
  const [limit, remaining] = [amount(pick(status, 'maximumAvailable')), amount(pick(status, 'currentlyAvailable'))]
  const perSecond = amount(pick(status, 'restoreRate'))
  if (limit === undefined || remaining === undefined || !perSecond) return undefined
  const extension = pick(pick(body, 'extensions'), 'cost')
  const cost = amount(pick(extension, 'actualQueryCost')) ?? amount(pick(extension, 'requestedQueryCost'))
  const backMs = (points: number) => Math.min(Math.ceil((Math.max(0, points) / perSecond) * 1000), LONGEST_WAIT_MS)
  const policy: Policy = {
    name: 'points',
    unit: 'points',
    limit,
    remaining,
    windowMs: backMs(limit),
    resetAfterMs: backMs(limit - remaining),
    source: 'vendor',
    ...defined({ cost }),
  }
  return hasLimitError(body) ? { policy, retryAfterMs: backMs((cost ?? limit) - remaining) } : { policy }
}

const stripe: Dialect = {
  speaks: ({ header }) => header('stripe-rate-limited-reason') !== undefined || header('stripe-version') !== undefined,
  read({ header, status }, told) {
    const reason = header('stripe-rate-limited-reason')
    if (status !== 429) return told
    // Without a reason somebody else holds the object: nothing is wrong with how much is sent.
    if (reason === undefined) return { ...told, scope: 'call' }
    return { ...told, reason, scope: reason.startsWith('global') ? 'host' : 'route' }
  },
}

/** The type of a problem that names capacity as the reason for turning a request down, as Headgate does. */
const SHORT_OF_CAPACITY = '/http-problem-types#temporary-reduced-capacity'

export const dialects: Readonly<Record<DialectName, Dialect>> = { github, discord, openai, anthropic, shopify, stripe }

/** What an answer says, in the dialect that was named or in all that it speaks. */
export function readAnswer(answer: Answer, dialect: DialectName | ReadAnswer | undefined): Told {
  let told: Told = { ...readGeneric(answer) }
  const named = typeof dialect === 'string' ? [dialects[dialect]] : Object.values(dialects)
  for (const each of named) if (typeof dialect === 'string' || each.speaks(answer)) told = each.read(answer, told)
  if (typeof dialect === 'function') told = sound({ ...told, ...dialect(answer, told) })
  if (told.refused !== undefined) return told
  const refused = isRefusal(answer, told)
  const done = refused ? doneBy(answer) : undefined
  return { ...told, refused, ...(done !== undefined && { done }) }
}

/** Of a refusal. Any program on the way may answer 503, also when what it had sent on was done: only one that says why has done nothing. */
function doneBy({ status, body }: Answer): Told['done'] {
  if (status === 503) return String(pick(body, 'type')).endsWith(SHORT_OF_CAPACITY) ? undefined : 'perhaps'
  return status === 200 ? doneOf(body) : undefined
}

/** 429, or what stands for it: a 403 that shows a limit, a 503 that says when to come back, an error of GraphQL. */
function isRefusal({ status, body }: Answer, told: Told): boolean {
  if (status === 429) return true
  if (status === 403) return told.retryAfterMs !== undefined || hasNone(told)
  if (status === 503) return told.retryAfterMs !== undefined
  return status === 200 && hasLimitError(body)
}

function hasNone({ policies = [] }: Told): boolean {
  return policies.some(({ remaining }) => remaining === 0)
}

/** The dialect of an answer that also says which addresses are counted together. */
export function routingDialect(answer: Answer): DialectName | undefined {
  const known = Object.entries(dialects) as [DialectName, Dialect][]
  return known.find(([, { route, speaks }]) => route !== undefined && speaks(answer))?.[0]
}

/** Which calls are likely to be counted together, before a server has said so: those whose paths differ by ids only. */
export function routeOf(method: string, url: string, dialect: DialectName | undefined): string {
  const path = pathOf(url)
  const own = dialect === undefined ? undefined : dialects[dialect].route
  return (
    own?.(method, path) ??
    path
      .split('/', 7)
      .join('/')
      .replace(/\/(?:\d+|[\da-f-]{16,})(?=\/|$)/gi, '/:id')
  )
}

function pathOf(url: string): string {
  const [, path = ''] = /^[a-z][a-z\d+.-]*:\/\/[^/?#]*([^?#]*)/i.exec(url) ?? []
  return path
}

function defined<T extends object>(entry: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== undefined)) as never
}
