import type { DocumentNode, GraphQLSchema } from 'graphql'
import { HeadgateError, show } from '../errors.ts'
import type { Meter } from './meter.ts'
import { unknownVariables } from './values.ts'
import type { Visit } from './visit.ts'

/** Chosen by the caller, for as long as its connection lasts. */
export type SubscriptionId = string | number | undefined

interface Socket {
  readonly destroyed: boolean
  once(event: 'close', listener: () => void): unknown
}

/** Subscriptions from their charge to their end. Mercurius tells of one that its caller stops; the others end with the connection. */
export class Subscriptions<C> {
  readonly #meter: Meter<C>
  /** Of contexts: their documents came as a text, which was looked through. */
  readonly #read = new WeakSet<object>()
  /** By connection. An id may be used again while the first is running: the last one is stopped then. */
  readonly #running = new WeakMap<Socket, Map<SubscriptionId, Visit[]>>()

  constructor(meter: Meter<C>) {
    this.#meter = meter
  }

  read(source: string, context: C): void {
    this.#meter.checkText(source)
    this.#read.add(context as object)
  }

  async start(schema: GraphQLSchema, document: DocumentNode, context: C, id: SubscriptionId): Promise<Visit> {
    if (!this.#read.has(context as object))
      throw new HeadgateError('HG_QUERY_INVALID', `the query is ${show(document)}: send its text`, document)
    this.#meter.checkDocument(document)
    // Hooks are not told what it was sent along with.
    const [variables, operationName] = [unknownVariables, undefined]
    const visit = await this.#meter.take({ schema, document, variables, operationName, context })
    const socket = socketOf(context)
    if (socket === undefined || socket.destroyed) visit.end()
    else if (visit.decision.ok) this.#keep(socket, id, visit)
    return visit
  }

  #keep(socket: Socket, id: SubscriptionId, visit: Visit): void {
    const running = this.#running.get(socket) ?? this.#follow(socket)
    const same = running.get(id)
    if (same === undefined) running.set(id, [visit])
    else same.push(visit)
  }

  #follow(socket: Socket): Map<SubscriptionId, Visit[]> {
    const running = new Map<SubscriptionId, Visit[]>()
    this.#running.set(socket, running)
    socket.once('close', () => {
      for (const visit of [...running.values()].flat()) visit.end()
    })
    return running
  }

  stop(context: C, id: SubscriptionId): void {
    const socket = socketOf(context)
    const running = socket && this.#running.get(socket)
    const same = running?.get(id)
    same?.pop()?.end()
    if (same?.length === 0) running?.delete(id)
  }
}

/** The context of a stop is that of the last start on its connection: what they have in common is the request. */
function socketOf(context: unknown): Socket | undefined {
  return (context as { request?: { raw?: { socket?: Socket } } } | null)?.request?.raw?.socket
}
