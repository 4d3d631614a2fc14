import type { DocumentNode, ExecutionArgs, ExecutionResult } from 'graphql'
import { type GraphqlOptions, Meter } from './meter.ts'
import { denied, errorOf, type Refusal, refused } from './refusal.ts'

type Response = [body: string, init: { status: number; statusText: string; headers: Record<string, string> }]

/** The options of `createHandler` that this fills. */
export interface GraphqlHttpHooks {
  parse(source: unknown): DocumentNode
  execute(args: ExecutionArgs): Promise<ExecutionResult>
  onOperation(request: unknown, args: unknown, result: unknown): Response | undefined
}

/**
 * For graphql-http: `createHandler({ schema, ...graphqlHttpHeadgate({ gate, execute }) })`. `execute` is the one of `graphql`, which
 * this calls for operations that may run.
 */
export function graphqlHttpHeadgate<C = never>(
  options: GraphqlOptions<C> & { readonly execute: (args: ExecutionArgs) => unknown },
): GraphqlHttpHooks {
  const { execute, ...rest } = options
  const meter = new Meter<C>(rest as GraphqlOptions<C>)
  const refusals = new WeakMap<object, Refusal>()
  const stop = (refusal: Refusal) => {
    const result = { errors: [errorOf(refusal)] }
    refusals.set(result, refusal)
    return result
  }
  return {
    parse(source) {
      try {
        return meter.read(String(source))
      } catch (error) {
        if ((error as { cause?: unknown }).cause !== undefined) throw (error as { cause: unknown }).cause
        const refusal = refused(error)
        throw refusal === undefined ? error : errorOf(refusal)
      }
    },
    async execute(args) {
      const { schema, document, variableValues: variables, operationName, contextValue } = args
      try {
        const visit = await meter.take({ schema, document, variables, operationName, context: contextValue as C })
        if (!visit.decision.ok) return stop(denied(visit.decision))
        try {
          return visit.finish((await execute(args)) as ExecutionResult)
        } finally {
          visit.end()
        }
      } catch (error) {
        const refusal = refused(error)
        if (refusal === undefined) throw error
        return stop(refusal)
      }
    },
    onOperation(_request, _args, result) {
      const refusal = refusals.get(result as object)
      return refusal && [JSON.stringify(result), headOf(refusal)]
    },
  }
}

function headOf({ status, headers }: Refusal): Response[1] {
  const statusText = { 400: 'Bad Request', 429: 'Too Many Requests' }[status] ?? 'Service Unavailable'
  return { status, statusText, headers: { 'content-type': 'application/json; charset=utf-8', ...headers } }
}
