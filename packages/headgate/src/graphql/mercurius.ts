import type { DocumentNode, GraphQLSchema } from 'graphql'
import { type SubscriptionId, Subscriptions } from './mercurius-subscriptions.ts'
import { type GraphqlOptions, Meter, visitOf } from './meter.ts'
import { denied, type Refusal, refused } from './refusal.ts'
import type { Result } from './visit.ts'

type Json = Record<string, unknown>

/** What of an app with Mercurius is used here. */
interface MercuriusApp {
  readonly graphql: { addHook(name: never, hook: never): unknown }
}

/** For Mercurius: `mercuriusHeadgate(app, { gate })` once it is registered. Charges operations by their cost. */
export function mercuriusHeadgate<C = never>(app: MercuriusApp, options: GraphqlOptions<C>): void {
  const meter = new Meter(options)
  const add = (name: string, hook: (...args: never[]) => Promise<unknown>) =>
    app.graphql.addHook(name as never, hook as never)
  add('preParsing', async (_schema: GraphQLSchema, source: string, context: C) =>
    told(context, () => meter.checkText(source)),
  )
  add('preValidation', async (_schema: GraphQLSchema, document: DocumentNode, context: C) =>
    told(context, () => meter.checkDocument(document)),
  )
  add('preExecution', async (schema: GraphQLSchema, document: DocumentNode, context: C, variables: Json) =>
    told(context, async () => {
      const operationName = operationNameIn(context)
      const { decision } = await meter.take({ schema, document, variables, operationName, context })
      if (!decision.ok) throw failure(denied(decision), context)
    }),
  )
  const subscriptions = new Subscriptions(meter)
  add('preSubscriptionParsing', async (_schema: GraphQLSchema, source: string, context: C) =>
    told(context, () => subscriptions.read(source, context)),
  )
  add(
    'preSubscriptionExecution',
    async (schema: GraphQLSchema, document: DocumentNode, context: C, id: SubscriptionId) =>
      told(context, async () => {
        const { decision } = await subscriptions.start(schema, document, context, id)
        if (!decision.ok) throw failure(denied(decision), context)
      }),
  )
  add('onSubscriptionEnd', async (context: C, id: SubscriptionId) => subscriptions.stop(context, id))
  add('onResolution', async (execution: Result, context: C) => {
    const visit = visitOf(context)
    if (visit !== undefined) Object.assign(execution, visit.finish(execution))
  })
}

/** Mercurius does not hand it to hooks. A batch has one context per operation, and tells which one that is. */
function operationNameIn(context: unknown): string | undefined {
  const { operationName, operationId, reply } = context as {
    operationName?: string
    operationId?: number
    reply?: { request?: { body?: unknown; query?: { operationName?: string } } }
  }
  if (typeof operationName === 'string') return operationName
  const { body, query } = reply?.request ?? {}
  const sent = Array.isArray(body) ? body[operationId ?? 0] : body
  return (sent as { operationName?: string } | undefined)?.operationName ?? query?.operationName
}

async function told(context: unknown, check: () => void | Promise<void>): Promise<void> {
  try {
    await check()
  } catch (error) {
    const refusal = refused(error)
    throw refusal === undefined ? error : failure(refusal, context)
  }
}

/** Mercurius makes a GraphQL error of it, answers with its status, and leaves header fields to us. */
function failure(refusal: Refusal, context: unknown): Error {
  const { reply } = context as { reply?: { header?(name: string, value: string): unknown } }
  for (const [name, value] of Object.entries(refusal.headers)) reply?.header?.(name, value)
  const { message, extensions, status, cause } = refusal
  return Object.assign(new Error(message, { cause }), { extensions, statusCode: status })
}
