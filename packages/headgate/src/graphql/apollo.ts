import type { DocumentNode, GraphQLSchema } from 'graphql'
import { type GraphqlOptions, Meter } from './meter.ts'
import { denied, errorOf, type Refusal, refused } from './refusal.ts'
import type { Result, Visit } from './visit.ts'

/** What Apollo Server knows of a request, as far as it matters here. */
interface ApolloRequest<C> {
  readonly request: {
    query?: string | undefined
    readonly variables?: Readonly<Record<string, unknown>> | undefined
    readonly operationName?: string | undefined
  }
  readonly schema: GraphQLSchema
  readonly document?: DocumentNode
  readonly contextValue: C
  readonly response: { readonly body?: object | undefined }
}

interface ApolloListener<C> {
  didResolveOperation(request: ApolloRequest<C>): Promise<void>
  willSendResponse(request: ApolloRequest<C>): Promise<void>
}

export interface ApolloPlugin<C> {
  requestDidStart(request: ApolloRequest<C>): Promise<ApolloListener<C>>
}

/** Stands in for a text that is not parsed, until its refusal can be told. */
const NOTHING = '{ __typename }'

/** For Apollo Server: charges operations by their cost. */
export function apolloHeadgate<C = never>(options: GraphqlOptions<C>): ApolloPlugin<C> {
  const meter = new Meter(options)
  return {
    async requestDidStart({ request }) {
      // Apollo parses and validates whatever is there by now, and answers what a plugin throws before that with a 500.
      const early = request.query === undefined ? undefined : refusalOf(() => meter.read(request.query as string))
      if (early !== undefined) request.query = NOTHING
      return listener(meter, early)
    },
  }
}

function listener<C>(meter: Meter<C>, early: Refusal | undefined): ApolloListener<C> {
  let visit: Visit | undefined
  return {
    async didResolveOperation({ schema, document, request, contextValue: context }) {
      if (early !== undefined) throw withHttp(early)
      const { variables, operationName } = request
      try {
        visit = await meter.take({ schema, document: document as DocumentNode, variables, operationName, context })
      } catch (error) {
        const refusal = refused(error)
        throw refusal === undefined ? error : withHttp(refusal)
      }
      if (!visit.decision.ok) throw withHttp(denied(visit.decision))
    },
    async willSendResponse({ response: { body } }) {
      const { singleResult } = (body ?? {}) as { singleResult?: Result }
      if (singleResult === undefined) visit?.end()
      else if (visit !== undefined) Object.assign(singleResult, visit.finish(singleResult))
    },
  }
}

/** Also what cannot be parsed: then Apollo says where. */
function refusalOf(check: () => unknown): Refusal | undefined {
  try {
    check()
    return undefined
  } catch (error) {
    if ((error as { cause?: unknown }).cause !== undefined) return undefined
    const refusal = refused(error)
    if (refusal === undefined) throw error
    return refusal
  }
}

/** Apollo wants header fields as a map. */
function withHttp(refusal: Refusal): Error {
  return errorOf(refusal, { status: refusal.status, headers: new Map(Object.entries(refusal.headers)) })
}
