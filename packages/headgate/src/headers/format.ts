import type { LimitState } from '../decision.ts'
import { checkChoice } from '../errors.ts'

/** `ietf` is the current draft of RateLimit header fields (-11); its names still change, and only this file knows them. */
const headerStyles = ['ietf', 'draft-7', 'draft-6', 'legacy', 'none'] as const
export type HeaderStyle = (typeof headerStyles)[number]

interface HeaderState extends LimitState {
  /** Until `remaining` next grows. */
  readonly growAfterMs: number
  readonly inFlight: boolean
}

interface Decided {
  readonly ok: boolean
  readonly limit: string
  readonly retryAfterMs: number
}

/** Structured fields carry integers of at most 15 digits. */
const LARGEST = 999_999_999_999_999

/** Header fields of a decision; several styles are sent together. `none` sends nothing, not even Retry-After. */
export function formatHeaders(
  decided: Decided,
  states: readonly HeaderState[],
  nowMs: number,
  style: HeaderStyle | readonly HeaderStyle[] = ['ietf', 'legacy'],
): Record<string, string> {
  const styles = Array.isArray(style) ? style : [style]
  for (const each of styles) checkChoice(each ?? null, headerStyles, 'a style of headers')
  const headers: Record<string, string> = {}
  if (styles.includes('none')) return headers
  const shown = inOrder(states.filter((state) => state.limit !== Infinity))
  const deciding = shown.find((state) => state.name === decided.limit) ?? shown[0]
  for (const each of styles)
    if (deciding !== undefined) formats[each as keyof typeof formats]?.(headers, deciding, shown, nowMs)
  if (!decided.ok && decided.retryAfterMs !== Infinity) headers['Retry-After'] = String(seconds(decided.retryAfterMs))
  return headers
}

/** Violated limits first, then the one with the least left. */
function inOrder(states: HeaderState[]): HeaderState[] {
  const left = (state: HeaderState) => (state.ok ? state.remaining / (state.limit || 1) : -1)
  return states.sort((a, b) => left(a) - left(b))
}

const formats = {
  ietf(headers: Record<string, string>, _deciding: HeaderState, shown: readonly HeaderState[]) {
    headers.RateLimit = shown.map((state) => `"${state.name}";r=${whole(state.remaining)}${growth(state)}`).join(', ')
    headers['RateLimit-Policy'] = shown
      .map((state) => `"${state.name}";q=${whole(state.limit)}${window(state)}`)
      .join(', ')
  },
  'draft-7'(headers: Record<string, string>, deciding: HeaderState) {
    headers.RateLimit = `limit=${whole(deciding.limit)}, remaining=${whole(deciding.remaining)}, reset=${seconds(deciding.resetAfterMs, 0)}`
    headers['RateLimit-Policy'] = `${whole(deciding.limit)};w=${seconds(deciding.windowMs)}`
  },
  'draft-6'(headers: Record<string, string>, deciding: HeaderState, shown: readonly HeaderState[]) {
    headers['RateLimit-Limit'] = String(whole(deciding.limit))
    headers['RateLimit-Remaining'] = String(whole(deciding.remaining))
    headers['RateLimit-Reset'] = String(seconds(deciding.resetAfterMs, 0))
    headers['RateLimit-Policy'] ??= shown
      .map((state) => `${whole(state.limit)};w=${seconds(state.windowMs)}`)
      .join(', ')
  },
  legacy(headers: Record<string, string>, deciding: HeaderState, _shown: readonly HeaderState[], nowMs: number) {
    headers['X-RateLimit-Limit'] = String(whole(deciding.limit))
    headers['X-RateLimit-Remaining'] = String(whole(deciding.remaining))
    headers['X-RateLimit-Reset'] = String(Math.ceil((nowMs + deciding.resetAfterMs) / 1000))
    headers['X-RateLimit-Resource'] = deciding.name
  },
}

/** Seconds until the quota next grows; nothing to say for a full limit, or one that never grows. */
function growth(state: HeaderState): string {
  return Number.isFinite(state.growAfterMs) ? `;t=${seconds(state.growAfterMs, 0)}` : ''
}

/** In-flight limits have no window, they have another unit. */
function window(state: HeaderState): string {
  return state.inFlight ? ';qu="concurrent-requests"' : `;w=${seconds(state.windowMs)}`
}

function whole(value: number): number {
  return Math.min(value, LARGEST)
}

function seconds(ms: number, least = 1): number {
  return Math.min(LARGEST, Math.max(least, Math.ceil(ms / 1000)))
}
