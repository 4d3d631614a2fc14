import type { GraphQLField, GraphQLNamedType, GraphQLSchema } from 'graphql'
import { HeadgateError, show, suggest } from '../errors.ts'
import { checkWeight, costDirective, directiveOf } from './directives.ts'
import { type InputPrice, InputPrices } from './inputs.ts'
import { introspectionSizes } from './introspection.ts'
import type { CostOptions } from './options.ts'
import { type ListSize, usualSized, usualSlicing } from './sizes.ts'
import { type Fielded, isAbstract, isComposite, tagOf, unwrap } from './types.ts'

/** What is known of a field before anybody asks for it. */
export interface Price {
  /** What it costs to ask for it. */
  readonly weight: number
  /** What it costs to give an argument, where it costs anything. */
  readonly arguments: readonly (readonly [name: string, price: InputPrice])[]
  /** What each object, or leaf, weighs. */
  readonly itemWeight: number
  /** How many lists are around it: 2 for `[[Cell]]`. */
  readonly dimensions: number
  readonly size: ListSize
  /** Its type, if that has fields of its own. */
  readonly type: string | undefined
}

type Weights = Readonly<Record<string, number>>
const NO_SIZE: ListSize = { slicing: [], defaults: {}, assumed: undefined, requireOne: false, sized: undefined }
const LEAF: Price = priceless({ itemWeight: 0, type: undefined })

/** A schema read once. */
export class Prices {
  readonly #schema: GraphQLSchema
  readonly #weights: Weights
  readonly inputs: InputPrices
  readonly #fields = new Map<string, ReadonlyMap<string, Price>>()
  /** Concrete types by name of a type that has fields. */
  readonly #possible = new Map<string, ReadonlySet<string>>()
  readonly #shared = new Map<string, Map<string, Shared>>()

  constructor(schema: GraphQLSchema, { weights = {} }: CostOptions) {
    checkSchema(schema)
    this.#schema = schema
    this.#weights = weights
    checkWeights(schema, weights)
    const types = Object.values(schema.getTypeMap())
    this.inputs = new InputPrices(types, weights)
    for (const type of types) {
      if (tagOf(type) === 'Object') this.#possible.set(type.name, new Set([type.name]))
      else if (isAbstract(type))
        this.#possible.set(type.name, new Set(schema.getPossibleTypes(type).map(({ name }) => name)))
    }
    const sizes = introspectionSizes(types)
    for (const type of types) if (isComposite(type)) this.#fields.set(type.name, this.#pricesOf(type, sizes))
  }

  rootOf(operation: 'query' | 'mutation' | 'subscription'): string {
    const { getQueryType, getMutationType, getSubscriptionType } = this.#schema
    const get = { query: getQueryType, mutation: getMutationType, subscription: getSubscriptionType }[operation]
    const type = get.call(this.#schema)
    if (type != null) return type.name
    throw new HeadgateError('HG_QUERY_INVALID', `the schema has no ${operation}: ask for what it has`, operation)
  }

  of(type: string, field: string): Price {
    const price = this.#fields.get(type)?.get(field)
    if (price !== undefined) return price
    throw new HeadgateError(
      'HG_QUERY_INVALID',
      `type "${type}" has no field ${show(field)}: ask for what it has`,
      field,
    )
  }

  /** What an object of the type weighs: of several types the dearest. */
  weightOf(type: GraphQLNamedType | string): number {
    const name = typeof type === 'string' ? type : type.name
    const known = this.#schema.getType(name) as GraphQLNamedType
    const own = this.#weights[name] ?? costDirective(known, `type "${name}"`)
    if (own !== undefined || !isComposite(known)) return own ?? 0
    if (!isAbstract(known)) return 1
    return Math.max(...[...(this.#possible.get(name) ?? [])].map((each) => this.weightOf(each)), 0)
  }

  /** Of the objects that a field may return as `type`, which ones a fragment on `condition` is about. */
  shared(type: string, condition: string): Shared {
    const known = this.#shared.get(type)?.get(condition)
    if (known !== undefined) return known
    const [here, there] = [this.#possible.get(type), this.#possible.get(condition)]
    if (here === undefined || there === undefined) {
      throw new HeadgateError(
        'HG_QUERY_INVALID',
        `a fragment is on ${show(condition)}, which is no type with fields: take it out`,
        condition,
      )
    }
    const both = [...here].filter((each) => there.has(each))
    const shared = both.length === here.size ? 'all' : both
    const row = this.#shared.get(type) ?? new Map<string, Shared>()
    this.#shared.set(type, row.set(condition, shared))
    return shared
  }

  #pricesOf(type: Fielded, sizes: ReadonlyMap<string, number>): ReadonlyMap<string, Price> {
    const prices = new Map<string, Price>([['__typename', LEAF]])
    for (const field of Object.values(tagOf(type) === 'Union' ? {} : type.getFields())) {
      prices.set(field.name, this.#priceOf(type.name, field, sizes.get(`${type.name}.${field.name}`)))
    }
    if (type.name !== this.#schema.getQueryType()?.name) return prices
    for (const [name, inner] of [
      ['__schema', '__Schema'],
      ['__type', '__Type'],
    ] as const)
      prices.set(name, priceless({ itemWeight: this.weightOf(inner), type: inner }))
    return prices
  }

  #priceOf(owner: string, field: GraphQLField<unknown, unknown>, known: number | undefined): Price {
    const { type, dimensions } = unwrap(field.type)
    const where = `field "${owner}.${field.name}"`
    return {
      weight: this.#weights[`${owner}.${field.name}`] ?? costDirective(field, where) ?? 0,
      arguments: this.#argumentsOf(field, where),
      itemWeight: this.weightOf(type),
      dimensions,
      size: known === undefined ? sizeOf(field, where, dimensions, type) : { ...NO_SIZE, assumed: known },
      type: isComposite(type) ? type.name : undefined,
    }
  }

  #argumentsOf({ args }: GraphQLField<unknown, unknown>, where: string): Price['arguments'] {
    return args
      .map(({ name, type, ...rest }) => {
        const weight = costDirective(rest, `argument "${name}" of ${where}`) ?? 0
        return [name, { weight, type: this.inputs.typeOf(type) }] as const
      })
      .filter(([, { weight, type }]) => weight > 0 || type !== undefined)
  }
}

/** All objects, or those of some types. */
export type Shared = 'all' | readonly string[]

function priceless(price: Pick<Price, 'itemWeight' | 'type'>): Price {
  return { weight: 0, arguments: [], dimensions: 0, size: NO_SIZE, ...price }
}

function sizeOf(
  field: GraphQLField<unknown, unknown>,
  where: string,
  dimensions: number,
  type: GraphQLNamedType,
): ListSize {
  const defaults = Object.fromEntries(field.args.map((each) => [each.name, each.defaultValue]))
  const written = directiveOf(field, 'listSize')
  if (written === undefined) {
    const slicing = usualSlicing.filter((name) => name in defaults)
    const sized = dimensions === 0 && slicing.length > 0 ? listsOf(type) : undefined
    return { ...NO_SIZE, slicing, defaults, sized }
  }
  const { assumedSize, slicingArguments, sizedFields, requireOneSlicingArgument } = written
  const slicing = namesIn(slicingArguments)
  for (const path of slicing) checkKnown(path.split('.')[0] as string, Object.keys(defaults), where)
  return {
    slicing,
    defaults,
    assumed: assumedSize == null ? undefined : checkWeight(assumedSize, `assumedSize in @listSize of ${where}`),
    requireOne: slicing.length > 0 && requireOneSlicingArgument !== false,
    sized: sizedFields == null ? undefined : namesIn(sizedFields),
  }
}

function checkKnown(name: string, known: readonly string[], where: string): void {
  if (known.includes(name)) return
  throw new HeadgateError(
    'HG_OPTION_INVALID',
    `@listSize of ${where} names argument ${show(name)}, which it has not${suggest(name, known)}`,
    name,
  )
}

/** The schema language lets one value stand for a list of one. */
function namesIn(value: unknown): readonly string[] {
  return value == null ? [] : ((Array.isArray(value) ? value : [value]) as string[])
}

/** The lists of a connection; a type without any is none. */
function listsOf(type: GraphQLNamedType): readonly string[] | undefined {
  if (!isComposite(type) || tagOf(type) === 'Union') return undefined
  const fields = type.getFields()
  const lists = usualSized.filter((name) => {
    const field = fields[name]
    return field !== undefined && unwrap(field.type).dimensions > 0
  })
  return lists.length === 0 ? undefined : lists
}

function checkSchema(schema: GraphQLSchema): void {
  if (typeof schema?.getTypeMap === 'function') return
  throw new HeadgateError('HG_OPTION_INVALID', `the schema is ${show(schema)}: give a GraphQLSchema`, schema)
}

/** A weight that nothing has would be a price that nobody pays. */
function checkWeights(schema: GraphQLSchema, weights: unknown): void {
  if (typeof weights !== 'object' || weights === null || Array.isArray(weights)) {
    throw new HeadgateError(
      'HG_OPTION_INVALID',
      `"weights" is ${show(weights)}: give an object such as { User: 2, 'Query.search': 20 }`,
      weights,
    )
  }
  for (const [name, weight] of Object.entries(weights)) {
    checkWeight(weight, `the weight of "${name}"`)
    const [owner = '', field] = name.split('.')
    const type = schema.getType(owner)
    const fields = type !== undefined && 'getFields' in type ? Object.keys(type.getFields()) : []
    if (type !== undefined && (field === undefined || fields.includes(field))) continue
    const known = type === undefined ? Object.keys(schema.getTypeMap()) : fields.map((each) => `${owner}.${each}`)
    throw new HeadgateError(
      'HG_OPTION_INVALID',
      `"weights" has ${show(name)}, which the schema has not${suggest(name, known)}`,
      name,
    )
  }
}
