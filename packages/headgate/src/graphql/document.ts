import type { DocumentNode, GraphQLSchema } from 'graphql'
import { HeadgateError } from '../errors.ts'
import { operationOf, StaticCost } from './cost.ts'
import { fragmentsOf, measure } from './measure.ts'
import { type Bounds, type CostOptions, checkBounds } from './options.ts'
import { parse } from './peer.ts'
import { Prices } from './prices.ts'
import { checkText, checkTexts } from './scan.ts'
import type { Variables } from './values.ts'

/** The text of a document as a tree, if it is of a size that one wants to have a tree of. */
export function parseBounded(text: string, bounds: Bounds): DocumentNode {
  checkText(text, bounds)
  try {
    return parse(text, { noLocation: true })
  } catch (error) {
    const why = (error as Error).message.replace(/\.$/, '')
    throw new HeadgateError('HG_QUERY_INVALID', `the query cannot be read: ${why}`, text, { cause: error })
  }
}

/** What operations on a schema cost. */
export interface GraphqlCost {
  (document: DocumentNode | string, variables?: Variables | null, operationName?: string | null): number
  /** Refuses the texts of a batch that has too many tokens in all, before any of them is parsed. */
  check(texts: readonly string[]): void
}

/**
 * Works out what an operation costs before it is run, and refuses by `HeadgateError` what is too deep, too large or cannot be run.
 * Takes as long as the document is, whatever it says. Text is parsed here; a document that was parsed is not validated.
 */
export function graphqlCost(schema: GraphQLSchema, options: CostOptions = {}): GraphqlCost {
  const bounds = checkBounds(options)
  const prices = new Prices(schema, options)
  const cost = (document: DocumentNode | string, variables?: Variables | null, operationName?: string | null) => {
    const parsed = typeof document === 'string' ? parseBounded(document, bounds) : document
    const fragments = measure(parsed, bounds)
    return new StaticCost(prices, bounds, fragments, operationOf(parsed, operationName), variables).total()
  }
  return Object.assign(cost, { check: (texts: readonly string[]) => checkTexts(texts, bounds) })
}

/** The same of a document that was measured before. */
export function costOf(
  prices: Prices,
  bounds: Bounds,
  document: DocumentNode,
  variables: Variables | null | undefined,
  operationName: string | null | undefined,
): StaticCost {
  return new StaticCost(prices, bounds, fragmentsOf(document), operationOf(document, operationName), variables)
}
