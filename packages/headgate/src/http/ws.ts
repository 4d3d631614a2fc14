import type { IncomingMessage } from 'node:http'
import type { RawData, WebSocket } from 'ws'
import type { Decision } from '../decision.ts'
import { HeadgateError } from '../errors.ts'
import { Core } from './core.ts'
import type { Reader } from './identity.ts'
import { nodeReader } from './node.ts'
import type { Headgate, HttpOptions } from './options.ts'
import { CallerLeft } from './presence.ts'

export { decisionOf } from './core.ts'
export type { By, Ended, HttpLimit, Message as DeniedMessage, TrustProxy, Word } from './options.ts'

/** A message that came in, as `by`, `when` and `cost` see it. `request` is the one that opened the connection. */
export interface Message {
  readonly socket: WebSocket
  readonly request: IncomingMessage
  readonly data: RawData
  readonly isBinary: boolean
}

/** Who floods us and does not read what we say is not told any more. */
const MOST_UNREAD = 1_048_576

type Connected = (socket: WebSocket, request: IncomingMessage) => void

/** Wraps what handles connections: `wss.on('connection', limited((socket, request) => …))`. Messages that are denied do not
 *  reach it; the caller is told why in a message, or as `onDenied` says. */
export type WsMiddleware = (connected: Connected) => Connected

export const headgate: Headgate<Message, [message: Message], WsMiddleware> = (options: object) => {
  refuseOutcomes(options)
  const core = new Core<Message>(options as HttpOptions<Message, never[]>, reader)
  return (connected: Connected): Connected =>
    function limited(socket, request) {
      guard(core, socket, request)
      connected.call(socket, socket, request)
    }
}

/** A message has no response to be judged by. */
function refuseOutcomes(options: object): void {
  for (const name of ['countWhen', 'settle'])
    if ((options as Record<string, unknown>)[name] !== undefined)
      throw new HeadgateError('HG_OPTION_CONFLICT', `"${name}" asks for a response, and messages have none: use "cost"`)
  const { cost, limits = {} } = options as { cost?: unknown; limits?: Record<string, { cost?: unknown } | undefined> }
  if ([cost, ...Object.values(limits ?? {}).map((limit) => limit?.cost)].some((each) => typeof each === 'string'))
    throw new HeadgateError(
      'HG_OPTION_CONFLICT',
      '"cost" is a word for bodies, and messages come whole: give ({ data }) => data.length or the like',
    )
}

/** Stands between the connection and all who listen to it, and keeps the order of what they hear while a store is asked. */
function guard(core: Core<Message>, socket: WebSocket, request: IncomingMessage): void {
  const emit = socket.emit
  /** What came in one piece with a message that is still being decided, to its end: no more is read until all has gone on. */
  const waiting: (() => void)[] = []
  let asking = false
  /** Who is held back learns at once that the connection is gone. */
  const open = new AbortController()

  socket.emit = (event: string | symbol, ...args: unknown[]): boolean => {
    if (event === 'close') open.abort()
    if (event === 'message') {
      const [data, isBinary] = args as [RawData, boolean]
      inTurn(() => decide({ socket, request, data, isBinary }))
    } else if (event === 'close' || event === 'error') inTurn(() => emit.call(socket, event, ...args))
    else return emit.call(socket, event, ...args)
    return true
  }

  function inTurn(step: () => void): void {
    if (asking) waiting.push(step)
    else step()
  }

  function decide(message: Message): void {
    try {
      const decision = core.take(message, open)
      if (!(decision instanceof Promise)) {
        deliver(message, decision)
        return
      }
      asking = true
      socket.pause()
      decision
        .then((each) => deliver(message, each))
        .catch(fail)
        .finally(proceed)
    } catch (error) {
      fail(error)
    }
  }

  function proceed(): void {
    asking = false
    while (!asking && waiting.length > 0) waiting.shift()?.()
    if (!asking) socket.resume()
  }

  function deliver(message: Message, decision: Decision<unknown>): void {
    if (!decision.ok) {
      deny(message, decision)
      return
    }
    try {
      emit.call(socket, 'message', message.data, message.isBinary)
    } finally {
      // A message is in flight while its listeners run.
      core.release(decision)
    }
  }

  function deny(message: Message, decision: Decision<unknown>): void {
    if (core.onDenied !== undefined) {
      const said = (core.onDenied as (...args: unknown[]) => unknown)(decision, message)
      return void (said instanceof Promise && said.catch(fail))
    }
    if (socket.readyState !== socket.OPEN) return
    if (socket.bufferedAmount > MOST_UNREAD) socket.terminate()
    else socket.send(core.denial(decision, core.jitterMs(decision)).body)
  }

  /** 1008: the connection does not say who it is, or not in a way that is known. Anything else is the app's mistake. */
  function fail(error: unknown): void {
    if (error instanceof CallerLeft) return
    core.explain(error)
    socket.close(1008)
    if (socket.listenerCount('error') > 0) emit.call(socket, 'error', error)
  }
}

const reader: Reader<Message> = {
  peer: ({ request }) => nodeReader.peer(request),
  header: ({ request }, name) => nodeReader.header(request, name),
  method: () => 'MESSAGE',
  url: ({ request }) => nodeReader.url(request),
}
