import type { DocumentNode, GraphQLSchema } from 'graphql'
import { type GraphqlOptions, Meter } from './meter.ts'
import { denied, errorOf, type Refusal, refused } from './refusal.ts'
import type { Result, Visit } from './visit.ts'

interface Args<C> {
  readonly schema: GraphQLSchema
  readonly document: DocumentNode
  readonly variableValues?: Readonly<Record<string, unknown>> | null | undefined
  readonly operationName?: string | null | undefined
  readonly contextValue?: C
}
/** What is handed back is `never`: envelop and Yoga write its type in ways that do not fit one another. */
interface Running<C> {
  readonly args: Args<C>
  setResultAndStopExecution(result: never): void
}
type Run = (args: never) => unknown

/** What a plugin of envelop is, as far as this one is. */
export interface EnvelopPlugin<C> {
  onParse(payload: { params: { source: unknown } }): (payload: { result: unknown }) => void
  onExecute(
    payload: Running<C> & { executeFn: Run; setExecuteFn(run: never): void },
  ): Promise<undefined | { onExecuteDone(payload: { result: unknown; setResult(result: never): void }): void }>
  onSubscribe(payload: Running<C>): Promise<undefined | { onSubscribeResult(): { onEnd(): void } }>
}

/** For GraphQL Yoga, and all that is built on envelop: charges operations by their cost. */
export function useHeadgate<C = never>(options: GraphqlOptions<C>): EnvelopPlugin<C> {
  const meter = new Meter(options)
  return {
    onParse({ params: { source } }) {
      told(() => meter.checkText(textOf(source)))
      return ({ result }) => {
        if (isDocument(result)) told(() => meter.checkDocument(result))
      }
    },
    async onExecute({ args, executeFn, setExecuteFn, setResultAndStopExecution }) {
      const visit = await visitOrStop(meter, args, setResultAndStopExecution)
      if (visit === undefined) return undefined
      setExecuteFn(endingOnError(visit, executeFn) as never)
      return {
        onExecuteDone({ result, setResult }) {
          if (isSingle(result)) setResult(visit.finish(result) as never)
          else visit.end()
        },
      }
    },
    async onSubscribe({ args, setResultAndStopExecution }) {
      const visit = await visitOrStop(meter, args, setResultAndStopExecution)
      return visit && { onSubscribeResult: () => ({ onEnd: () => visit.end() }) }
    },
  }
}

async function visitOrStop<C>(
  meter: Meter<C>,
  { schema, document, variableValues: variables, operationName, contextValue }: Args<C>,
  stop: (result: never) => void,
): Promise<Visit | undefined> {
  try {
    const visit = await meter.take({ schema, document, variables, operationName, context: contextValue as C })
    if (visit.decision.ok) return visit
    stop({ errors: [withHttp(denied(visit.decision))] } as never)
  } catch (error) {
    const refusal = refused(error)
    if (refusal === undefined) throw error
    stop({ errors: [withHttp(refusal)] } as never)
  }
  return undefined
}

/** Slots are not held by what has failed. */
function endingOnError(visit: Visit, run: Run): Run {
  return async (args) => {
    try {
      return await run(args)
    } catch (error) {
      visit.end()
      throw error
    }
  }
}

/** Yoga sets the status and the header fields by what an error has as `http`, and takes that out. */
function withHttp(refusal: Refusal): Error {
  const { status, headers } = refusal
  return errorOf(refusal, { status, headers })
}

function told(check: () => void): void {
  try {
    check()
  } catch (error) {
    const refusal = refused(error)
    throw refusal === undefined ? error : withHttp(refusal)
  }
}

function textOf(source: unknown): string {
  return typeof source === 'string' ? source : String((source as { body?: unknown }).body)
}

function isDocument(result: unknown): result is DocumentNode {
  return (result as { kind?: unknown } | null)?.kind === 'Document'
}

function isSingle(result: unknown): result is Result {
  return typeof result === 'object' && result !== null && !(Symbol.asyncIterator in result)
}
