import type { GraphQLInputField, GraphQLNamedType, GraphQLType } from 'graphql'
import { costDirective } from './directives.ts'
import { MOST_NESTED } from './options.ts'
import { tooNested } from './scan.ts'
import { tagOf, unwrap } from './types.ts'

/** What it costs to give an argument, or a field of an input. */
export interface InputPrice {
  readonly weight: number
  /** Its type, if something in that weighs anything. */
  readonly type: string | undefined
}

type Weights = Readonly<Record<string, number>>

/** What input types weigh, by what stands in a value of theirs. */
export class InputPrices {
  readonly #weights: Weights
  readonly #fields = new Map<string, ReadonlyMap<string, InputPrice>>()

  constructor(types: readonly GraphQLNamedType[], weights: Weights) {
    this.#weights = weights
    const inputs = types.filter(isInput)
    const heavy = new Set(inputs.filter((each) => this.#fieldsOf(each).some(({ weight }) => weight > 0)))
    // A type weighs something as soon as one that it holds does, however far in.
    for (let known = -1; known < heavy.size; ) {
      known = heavy.size
      for (const each of inputs)
        if (Object.values(each.getFields()).some(({ type }) => heavy.has(unwrap(type).type as Input))) heavy.add(each)
    }
    for (const each of heavy)
      this.#fields.set(
        each.name,
        new Map(
          this.#fieldsOf(each).map(({ name, weight, inner }) => [
            name,
            { weight, type: heavy.has(inner) ? inner.name : undefined },
          ]),
        ),
      )
  }

  #fieldsOf(input: Input): { name: string; weight: number; inner: Input }[] {
    return Object.values(input.getFields()).map((field) => {
      const where = `${input.name}.${field.name}`
      const weight = this.#weights[where] ?? costDirective(field, `field "${where}"`) ?? 0
      return { name: field.name, weight, inner: unwrap(field.type).type as Input }
    })
  }

  /** The type that an argument's value has to be looked at by, if it has to be. */
  typeOf(type: GraphQLType): string | undefined {
    const { name } = unwrap(type).type
    return this.#fields.has(name) ? name : undefined
  }

  /** What stands in a value. A list costs what each of it does. */
  costOf(type: string, value: unknown, depth = 0): number {
    if (depth > MOST_NESTED) throw tooNested()
    if (typeof value !== 'object' || value === null) return 0
    let sum = 0
    if (Array.isArray(value)) for (const each of value) sum += this.costOf(type, each, depth + 1)
    else
      for (const [name, price] of this.#fields.get(type) ?? []) {
        if (!Object.hasOwn(value, name)) continue
        const given = (value as Record<string, unknown>)[name]
        if (given !== undefined) sum += price.weight
        if (price.type !== undefined) sum += this.costOf(price.type, given, depth + 1)
      }
    return sum
  }
}

type Input = GraphQLNamedType & { getFields(): Record<string, GraphQLInputField> }

function isInput(type: GraphQLNamedType): type is Input {
  return tagOf(type) === 'InputObject'
}
