import { warn } from './warn.ts'

/** Frames of those who call handlers: Node's own server, and what frameworks call handlers from after an await. */
const HANDLING =
  /\(?(?:node:_http_server|node:internal\/http2\/|.*\/node_modules\/(?:express|router|koa-compose|hono|fastify)\/)/
/** They also call functions while an app is put together. */
const STARTING = /\/node_modules\/(?:avvio|fastify\/lib\/pluginOverride)/
const FRAMES = 40
/** Where it was told already. One place is enough to find the others. */
const told = new Set<string>()
const MOST_TOLD = 10

/** A gate made for every request starts with empty counts each time and limits nothing. */
export function warnIfInHandler(): void {
  if (told.size === MOST_TOLD) return
  const place = handlerIn(stack())
  if (place === undefined || told.has(place)) return
  told.add(place)
  warn(
    'HG_GATE_IN_HANDLER',
    `headgate() was called while a request was handled (${place}): such a gate starts from nothing each time and limits nothing. Make it once, outside of handlers`,
  )
}

function stack(): string[] {
  const errors = Error as { stackTraceLimit?: number }
  const before = errors.stackTraceLimit
  errors.stackTraceLimit = FRAMES
  const lines = new Error().stack?.split('\n') ?? []
  errors.stackTraceLimit = before ?? 10
  return lines.slice(1)
}

/** Our own files between the caller and here. */
const OURS = /[/\\]http[/\\](?:core|express|fastify|fetch|hono|koa|node|start-checks|ws)\.[jt]s/

/** The place that called us, if some frame further out handles requests. */
function handlerIn(frames: readonly string[]): string | undefined {
  if (!frames.some((frame) => HANDLING.test(frame)) || frames.some((frame) => STARTING.test(frame))) return undefined
  const caller = frames.find((frame) => !OURS.test(frame))
  return caller?.trim().replace(/^at /, '')
}

/** What the limits of a store's gates were, by the names of their counters. */
const definitions = new WeakMap<object, Map<string, string>>()

/** Gates with one store, prefix and name share counters. With other limits under that name, one of them was not meant to. */
export function warnIfPrefixShared(store: object, limits: ReadonlyMap<string, string>): void {
  const known = definitions.get(store) ?? new Map<string, string>()
  definitions.set(store, known)
  for (const [space, definition] of limits) {
    const other = known.get(space)
    known.set(space, definition)
    if (other === undefined || other === definition) continue
    warn(
      'HG_PREFIX_SHARED',
      `two middlewares count "${space}" in one place, with ${other} and ${definition}: give each a "prefix" of its own, or name the limits`,
    )
  }
}
