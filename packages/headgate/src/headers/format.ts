import { checkChoice } from '../errors.ts'
import { Templates } from './lines.ts'
import { epoch, seconds, whole } from './numbers.ts'
import { addOwn, type HeaderFields, rethrow } from './own.ts'

/** `ietf` is the current draft of RateLimit header fields (-11); its names still change, and only this folder knows them. */
const headerStyles = ['ietf', 'draft-7', 'draft-6', 'legacy', 'none'] as const
export type HeaderStyle = (typeof headerStyles)[number]
type HeaderChoice = HeaderStyle | HeaderFields
/** A style, fields of one's own, or several of these. */
export type HeaderOption = HeaderChoice | readonly HeaderChoice[]

/** What the header fields tell of one limit. */
export interface HeaderState {
  readonly name: string
  readonly ok: boolean
  readonly limit: number
  readonly remaining: number
  readonly resetAfterMs: number
  /** When that will be, in seconds since the epoch. */
  readonly resetAtS: number
  readonly windowMs: number
  /** Until `remaining` next grows. */
  readonly growAfterMs: number
  readonly inFlight: boolean
}

/** What they tell of a decision. */
export interface Told {
  /** Name of the limit that decided. */
  readonly limit: string
  /** Undefined where nobody needs to wait, or waiting cannot help. */
  readonly retryAfterMs: number | undefined
  readonly states: HeaderState[]
  /** There is less than the limits say. */
  readonly short?: Shortage
}

/** How much of what limits grant there is right now. */
export interface Shortage {
  /** How many may be in flight at once. */
  readonly limit: number
  /** How many more. */
  readonly free: number
  /** Of requests as important as this one, the share that is let in. */
  readonly share: number
}

export type SetHeader = (name: string, value: string) => void
type Format = (set: SetHeader, deciding: HeaderState, shown: readonly HeaderState[]) => void

/** As documents write them. Writers say them in lower case: on the wire it is all the same, and frameworks that keep fields by
 *  their lower-case names need not convert six per request. */
const spellings = new Map(
  [
    ...['RateLimit', 'RateLimit-Policy', 'RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset', 'Retry-After'],
    ...['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset', 'X-RateLimit-Resource'],
  ].map((name) => [name.toLowerCase(), name]),
)

export function spelled(name: string): string {
  return spellings.get(name) ?? name
}

/** Writes the fields of decisions, in the styles that it was made for. */
export interface HeaderWriter {
  write(told: Told, set: SetHeader): void
  /** The same as text: a line for each field, each ended by CRLF. Absent: there are fields of one's own among them. */
  readonly lines: ((told: Told) => string) | undefined
}

/** Checks the styles once and returns what writes the fields of a decision in all of them, each name once. `none` is nothing,
 *  not even Retry-After. `onError` is told what fields of one's own throw. */
export function headerWriter(
  option: HeaderOption = ['ietf', 'legacy'],
  onError: (error: unknown) => void = rethrow,
): HeaderWriter {
  const choices: readonly HeaderChoice[] = typeof option === 'object' && option !== null ? option : [option]
  const own = choices.filter((each) => typeof each === 'function')
  const styles = choices.filter((each) => typeof each !== 'function')
  for (const each of styles) checkChoice(each ?? null, headerStyles, 'a style of headers')
  if (styles.includes('none')) return { write: () => {}, lines: () => '' }
  const formats: readonly Format[] = [...new Set(styles)].map((each) => formatOf(each, styles))
  const usual = (shown: readonly HeaderState[], deciding: number, set: SetHeader) => {
    for (const format of formats) format(set, shown[deciding] as HeaderState, shown)
  }

  function write(told: Told, set: SetHeader): void {
    const shown = shownOf(told)
    const deciding = decidingOf(shown, told)
    const fields = own.length === 0 ? undefined : new Map<string, string>()
    const put: SetHeader = fields === undefined ? set : (name, value) => void fields.set(name, value)
    if (shown.length > 0) usual(shown, deciding, put)
    if (told.retryAfterMs !== undefined) put('retry-after', String(seconds(told.retryAfterMs)))
    if (fields === undefined) return
    if (shown.length > 0) for (const each of own) addOwn(fields, each, shown[deciding] as HeaderState, shown, onError)
    for (const [name, value] of fields) set(name, value)
  }

  const templates = new Templates(usual)

  function lines(told: Told): string {
    const shown = shownOf(told)
    const text = shown.length === 0 ? '' : templates.lines(shown, decidingOf(shown, told))
    return told.retryAfterMs === undefined ? text : `${text}retry-after: ${seconds(told.retryAfterMs)}\r\n`
  }

  return { write, lines: own.length === 0 ? lines : undefined }
}

function shownOf(told: Told): HeaderState[] {
  return inOrder(told.short === undefined ? told.states : shrunk(told, told.short))
}

/** Where the limit is that decided. */
function decidingOf(shown: readonly HeaderState[], told: Told): number {
  for (let i = 0; i < shown.length; i++) if ((shown[i] as HeaderState).name === told.limit) return i
  return 0
}

/**
 * Nobody is promised more than there is. What is left of each limit is told as the share of it that is let in, and how many
 * requests fit at once as an item of its own, unless a limit has its name.
 */
function shrunk({ states, retryAfterMs }: Told, { limit, free, share }: Shortage): HeaderState[] {
  const told = states.map((state) => ({ ...state, remaining: Math.floor(state.remaining * share) }))
  if (states.some(({ name }) => name === 'overload')) return told
  const [growAfterMs, resetAfterMs] = [retryAfterMs ?? Infinity, retryAfterMs ?? 0]
  const resetAtS = Math.ceil((Date.now() + resetAfterMs) / 1000)
  const ok = retryAfterMs === undefined || states.length > 0
  const slots = { limit, remaining: Math.floor(free * share), windowMs: 0, inFlight: true }
  return [...told, { name: 'overload', ok, ...slots, growAfterMs, resetAfterMs, resetAtS }]
}

/** So many are put in order sooner by hand than by `sort`, which copies them first. */
const FEW = 8

/** Violated limits first, then the one with the least left; none that is unlimited. */
function inOrder(states: HeaderState[]): HeaderState[] {
  if (states.length === 1 && isLimited(states[0] as HeaderState)) return states
  const shown = states.every(isLimited) ? states : states.filter(isLimited)
  if (shown.length > FEW) return shown.sort((a, b) => left(a) - left(b))
  for (let i = 1; i < shown.length; i++) {
    const state = shown[i] as HeaderState
    const own = left(state)
    let at = i
    for (; at > 0 && left(shown[at - 1] as HeaderState) > own; at--) shown[at] = shown[at - 1] as HeaderState
    shown[at] = state
  }
  return shown
}

function isLimited({ limit }: HeaderState): boolean {
  return limit !== Infinity
}

function left({ ok, remaining, limit }: HeaderState): number {
  return ok ? remaining / (limit || 1) : -1
}

/** The newest of the styles asked for owns a name that several have. */
function formatOf(style: HeaderStyle, styles: readonly HeaderStyle[]): Format {
  if (style === 'draft-7') return styles.includes('ietf') ? () => {} : draft7
  if (style === 'draft-6') return styles.includes('ietf') || styles.includes('draft-7') ? fields6 : draft6
  return style === 'legacy' ? legacy : ietf
}

const ietf: Format = (set, _deciding, shown) => {
  set('ratelimit', joined(shown, item))
  set('ratelimit-policy', policiesOf(shown))
}

const draft7: Format = (set, { limit, remaining, resetAfterMs, windowMs }) => {
  set('ratelimit', `limit=${whole(limit)}, remaining=${whole(remaining)}, reset=${seconds(resetAfterMs, 0)}`)
  set('ratelimit-policy', `${whole(limit)};w=${seconds(windowMs)}`)
}

const draft6: Format = (set, deciding, shown) => {
  fields6(set, deciding, shown)
  set(
    'ratelimit-policy',
    joined(shown, ({ limit, windowMs }) => `${whole(limit)};w=${seconds(windowMs)}`),
  )
}

const fields6: Format = (set, { limit, remaining, resetAfterMs }) => {
  set('ratelimit-limit', String(whole(limit)))
  set('ratelimit-remaining', String(whole(remaining)))
  set('ratelimit-reset', String(seconds(resetAfterMs, 0)))
}

const legacy: Format = (set, { name, limit, remaining, resetAtS }) => {
  set('x-ratelimit-limit', String(whole(limit)))
  set('x-ratelimit-remaining', String(whole(remaining)))
  set('x-ratelimit-reset', epoch(resetAtS))
  set('x-ratelimit-resource', name)
}

/** Not `map` and `join`: nearly always there is one. */
function joined(states: readonly HeaderState[], format: (state: HeaderState) => string): string {
  let text = format(states[0] as HeaderState)
  for (let i = 1; i < states.length; i++) text += `, ${format(states[i] as HeaderState)}`
  return text
}

/** Seconds until the quota next grows: nothing to say for one that never does. */
function item({ name, remaining, growAfterMs }: HeaderState): string {
  const start = `"${name}";r=${whole(remaining)}`
  return Number.isFinite(growAfterMs) ? `${start};t=${seconds(growAfterMs, 0)}` : start
}

let last: readonly HeaderState[] = []
let lastPolicies = ''

/** The same for all requests, nearly always. */
function policiesOf(shown: readonly HeaderState[]): string {
  if (shown.length !== last.length || !shown.every(isAsLast)) {
    last = shown
    lastPolicies = joined(shown, policyItem)
  }
  return lastPolicies
}

function isAsLast({ name, limit, windowMs, inFlight }: HeaderState, i: number): boolean {
  const other = last[i] as HeaderState
  return other.limit === limit && other.windowMs === windowMs && other.name === name && other.inFlight === inFlight
}

/** In-flight limits have no window, they have another unit. */
function policyItem({ name, limit, inFlight, windowMs }: HeaderState): string {
  return `"${name}";q=${whole(limit)}${inFlight ? ';qu="concurrent-requests"' : `;w=${seconds(windowMs)}`}`
}
