import { HeadgateError, rejectUnknown, show } from '../errors.ts'

export interface CostOptions {
  /** How long a list is taken to be if neither an argument nor `@listSize` says. 10 unless said otherwise. */
  readonly defaultListSize?: number
  /** How many fields may be nested: `{ a { b } }` is 2 deep. 15, which lets in the usual introspection query. */
  readonly maxDepth?: number
  /** How many fields an operation may have, fragments counted wherever they are used. 1,000. */
  readonly maxFields?: number
  /** How many of them may have an alias. 50. */
  readonly maxAliases?: number
  /** How many tokens a document may have: names, numbers, texts, punctuation. 5,000. */
  readonly maxTokens?: number
  /** How many characters a document may have. 100,000. */
  readonly maxLength?: number
  /** What objects of a type weigh (`User: 2`), and what it costs to ask for a field (`'Query.search': 20`). Stronger than `@cost`. */
  readonly weights?: Readonly<Record<string, number>>
}

export type Bounds = Required<Omit<CostOptions, 'weights'>>

const defaults: Bounds = {
  defaultListSize: 10,
  maxDepth: 15,
  maxFields: 1_000,
  maxAliases: 50,
  maxTokens: 5_000,
  maxLength: 100_000,
}

export const costKeys = [...Object.keys(defaults), 'weights']

/**
 * How far brackets may be nested in a document, and selections in one that was parsed elsewhere: parsers and whoever walks what they
 * return go that deep on the stack. More than `maxDepth` needs, as values and inline fragments nest too.
 */
export const MOST_NESTED = 250

export function checkBounds(options: CostOptions): Bounds {
  rejectUnknown(options, costKeys, 'graphqlCost()')
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))
  const bounds: Bounds = { ...defaults, ...given }
  for (const name of Object.keys(defaults) as (keyof Bounds)[]) {
    const [least, most] = name === 'maxDepth' ? [1, 200] : [name === 'defaultListSize' ? 1 : 0, 1_000_000_000]
    const value = bounds[name]
    if (Number.isInteger(value) && value >= least && value <= most) continue
    throw new HeadgateError(
      'HG_OPTION_INVALID',
      `"${name}" is ${show(value)}: give a whole number from ${least} to ${most}`,
      value,
    )
  }
  return bounds
}
