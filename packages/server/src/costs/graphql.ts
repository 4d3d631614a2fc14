import type { GraphqlCost } from 'headgate/graphql'
import type { Caller } from '../rules/caller.ts'
import { contentType, mustBeJson } from './content.ts'
import { BodyFault } from './fault.ts'
import { folded, namesOf, parseJson, withNames } from './json.ts'

/** More operations in one request than any client sends. */
const MOST_OPERATIONS = 100
/** What limits can count. */
const MOST_UNITS = 1e15

interface Operation {
  readonly query?: unknown
  readonly variables?: unknown
  readonly operationName?: unknown
  readonly documentId?: unknown
}

/** What a request costs: the sum of its operations, at least 1. One that has none, as a page with an editor, costs that. */
export function graphqlCostOf(caller: Caller, body: Buffer | undefined, cost: GraphqlCost): number {
  const operations = operationsOf(caller, body).map(runnable)
  try {
    // Of all, before one is parsed: who is refused pays nothing, so a refusal must not take long.
    cost.check(operations.map(({ query }) => query))
    const sum = operations.reduce((total, each) => total + cost(each.query, each.variables, each.operationName), 0)
    return Math.min(Math.max(1, sum), MOST_UNITS)
  } catch (error) {
    throw refusalOf(error)
  }
}

function operationsOf(caller: Caller, body: Buffer | undefined): readonly Operation[] {
  const asked = parametersOf(caller.incoming.url)
  if (body === undefined || body.length === 0) return Object.keys(asked).length === 0 ? [] : [asked]
  const said = bodyOperations(caller, body)
  checkTwice(asked, said)
  return said
}

function bodyOperations(caller: Caller, body: Buffer): readonly Operation[] {
  if (contentType(caller) === 'application/graphql') return [{ query: body.toString() }]
  mustBeJson(caller)
  const value = parseJson(body)
  const operations: readonly unknown[] = Array.isArray(value) ? value : [value]
  if (operations.length > MOST_OPERATIONS)
    throw new BodyFault('HG_QUERY_TOO_LARGE', `The request has more than ${MOST_OPERATIONS} operations.`)
  return operations.map((each) => withNames(each, NAMES) as Operation)
}

/** The last two may name an operation that the server knows. */
const NAMES = namesOf(['query', 'variables', 'operationName', 'extensions', 'documentId'])

/** What stands in the URL. */
function parametersOf(url: string): Operation {
  const start = url.indexOf('?')
  if (start < 0) return {}
  const found: Record<string, unknown> = {}
  const seen = new Set<string>()
  for (const [each, text] of new URLSearchParams(url.slice(start))) {
    const name = NAMES.get(folded(each))
    if (name === undefined) continue
    if (seen.has(name)) throw invalid(`The URL has "${name}" twice.`)
    seen.add(name)
    if (text !== '') found[name] = name === 'variables' ? parseJson(Buffer.from(text)) : text
  }
  return found
}

/**
 * Servers differ in whether the URL or the body counts, also if that says nothing. The name of the operation alone is what many add for
 * their logs.
 */
function checkTwice({ operationName, ...asked }: Operation, said: readonly (Operation | null)[]): void {
  const isOther = said.some(
    (each) => operationName !== undefined && operationName !== (each?.operationName ?? operationName),
  )
  if (Object.keys(asked).length > 0 || isOther) throw invalid('The operation stands both in the URL and in the body.')
}

/** An operation whose text is known. */
function runnable(operation: Operation | null) {
  if (typeof operation !== 'object' || operation === null) throw invalid('An operation is an object.')
  const { query, variables, operationName, documentId } = operation
  if (typeof query !== 'string')
    throw invalid('The request has no "query": without its text nobody knows what it costs.')
  if (documentId != null)
    throw invalid('The request names an operation by its "documentId": nobody knows what that costs.')
  if (!isMap(variables)) throw invalid('"variables" is no object.')
  if (operationName != null && typeof operationName !== 'string') throw invalid('"operationName" is no text.')
  return { query, variables, operationName }
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> | null | undefined {
  return value == null || (typeof value === 'object' && !Array.isArray(value))
}

function invalid(detail: string): BodyFault {
  return new BodyFault('HG_QUERY_INVALID', detail)
}

/** `HG_QUERY_TOO_DEEP: the query is …: ask for less. docs/errors.md#…`, of which callers are told what concerns them. */
function refusalOf(error: unknown): unknown {
  const { code, message } = error as { code?: unknown; message: string }
  if (typeof code !== 'string' || !code.startsWith('HG_QUERY_')) return error
  const text = message.replace(/^\w+: /, '').replace(/ docs\/\S+$/, '')
  return new BodyFault(code as `HG_QUERY_${string}`, text.charAt(0).toUpperCase() + text.slice(1))
}
