import type { DocumentNode, GraphQLSchema } from 'graphql'
import type { Decision } from '../decision.ts'
import { HeadgateError, show } from '../errors.ts'
import { Sha256 } from '../idempotency/sha256.ts'
import { checkType } from '../named-limit.ts'
import { costOf, parseBounded } from './document.ts'
import { measure } from './measure.ts'
import { type Bounds, type CostOptions, checkBounds } from './options.ts'
import { Prices } from './prices.ts'
import { checkText } from './scan.ts'
import type { Variables } from './values.ts'
import { type Result, Visit } from './visit.ts'

/** A gate of any kind, which is asked about what `caller` returns. */
export interface AnyGate {
  take(request: never, options?: { readonly cost?: number }): unknown
}

export interface GraphqlOptions<C> extends CostOptions {
  /** What the cost of an operation is taken from. Limits with a `cost` of their own charge that: `() => 1` counts operations. */
  readonly gate: AnyGate
  /** What the gate gets, from the server's context: a key, or what its limits read. The context itself unless said otherwise. */
  readonly caller?: (context: C) => unknown
  /** The only documents that are let in, each by the SHA-256 of its text in hexadecimal. */
  readonly persisted?: Iterable<string>
}

export interface Operation<C> {
  readonly schema: GraphQLSchema
  readonly document: DocumentNode
  readonly variables: Variables | null | undefined
  readonly operationName: string | null | undefined
  readonly context: C
}

const visits = new WeakMap<object, Visit>()

/** What is known about the operation of a context. */
export function visitOf(context: unknown): Visit | undefined {
  return typeof context === 'object' && context !== null ? visits.get(context) : undefined
}

/** What all plugins share: what is refused at which step, what is charged, and what that becomes. A plugin only translates. */
export class Meter<C> {
  readonly #options: GraphqlOptions<C>
  readonly #bounds: Bounds
  readonly #persisted: ReadonlySet<string> | undefined
  readonly #prices = new WeakMap<GraphQLSchema, Prices>()

  constructor(options: GraphqlOptions<C>) {
    const { gate, caller, persisted, ...cost } = options ?? {}
    if (typeof gate?.take !== 'function')
      throw new HeadgateError('HG_OPTION_INVALID', `"gate" is ${show(gate)}: give what createGate() returned`, gate)
    checkType(caller, 'function', '"caller"')
    this.#options = options
    this.#bounds = checkBounds(cost)
    this.#persisted = persisted === undefined ? undefined : hashesIn(persisted)
  }

  /** Before a text is parsed. */
  checkText(text: string): void {
    checkText(text, this.#bounds)
    if (this.#persisted === undefined) return
    const hash = new Sha256().update(text).digest()
    if (this.#persisted.has(hash)) return
    throw new HeadgateError(
      'HG_QUERY_UNKNOWN',
      `the query with SHA-256 ${hash} is not among those that are let in: register it, or send one that is`,
      hash,
    )
  }

  /** Before a document is validated. */
  checkDocument(document: DocumentNode): void {
    measure(document, this.#bounds)
  }

  /** Both, for servers that parse by themselves or let somebody else. */
  read(text: string): DocumentNode {
    this.checkText(text)
    const document = parseBounded(text, this.#bounds)
    this.checkDocument(document)
    return document
  }

  /** Before an operation is run, when it is known to be valid: charges it, with all limits of the gate as one. */
  async take({ schema, document, variables, operationName, context }: Operation<C>): Promise<Visit> {
    const prices = this.#pricesOf(schema)
    const cost = costOf(prices, this.#bounds, document, variables, operationName)
    const { gate, caller } = this.#options
    const asked = (caller === undefined ? context : caller(context)) as never
    const decision = (await gate.take(asked, { cost: cost.total() })) as Decision<unknown>
    const visit = new Visit(decision, prices, cost)
    if (typeof context === 'object' && context !== null) visits.set(context, visit)
    return visit
  }

  #pricesOf(schema: GraphQLSchema): Prices {
    const known = this.#prices.get(schema)
    if (known !== undefined) return known
    const { weights } = this.#options
    const prices = new Prices(schema, weights === undefined ? {} : { weights })
    this.#prices.set(schema, prices)
    return prices
  }
}

export type { Result }

function hashesIn(persisted: unknown): ReadonlySet<string> {
  if (typeof persisted === 'string' || typeof (persisted as Iterable<string>)?.[Symbol.iterator] !== 'function') {
    throw new HeadgateError(
      'HG_OPTION_INVALID',
      `"persisted" is ${show(persisted)}: give an array or a set of SHA-256 in hexadecimal`,
      persisted,
    )
  }
  const hashes = new Set(persisted as Iterable<string>)
  for (const hash of hashes) {
    if (typeof hash === 'string' && /^[0-9a-f]{64}$/.test(hash)) continue
    throw new HeadgateError(
      'HG_OPTION_INVALID',
      `"persisted" has ${show(hash)}: give the SHA-256 of a text, as 64 digits in lower case`,
      hash,
    )
  }
  return hashes
}
