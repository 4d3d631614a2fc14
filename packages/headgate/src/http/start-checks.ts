import { warn } from './warn.ts'

/** Frames of those who call handlers: Node's own server, and what frameworks call handlers from after an await. */
const HANDLING =
  /\(?(?:node:_http_server|node:internal\/http2\/|.*\/node_modules\/(?:express|router|koa-compose|hono|fastify|@nestjs\/core)\/)/
/** They also call functions while an app is put together. */
const STARTING = /\/node_modules\/(?:avvio|fastify\/lib\/pluginOverride)/
const FRAMES = 40
let told = false

/** A gate made for every request starts with empty counts each time and limits nothing. */
export function warnIfInHandler(): void {
  if (told) return
  const place = handlerIn(stack())
  if (place === undefined) return
  told = true
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

/** The place outside of this package that called, if some frame further out handles requests. */
function handlerIn(frames: readonly string[]): string | undefined {
  if (!frames.some((frame) => HANDLING.test(frame)) || frames.some((frame) => STARTING.test(frame))) return undefined
  const caller = frames.find((frame) => !/[/\\](?:headgate|packages[/\\]headgate)[/\\](?:src|dist)[/\\]/.test(frame))
  return caller?.trim().replace(/^at /, '')
}
