import fc from 'fast-check'
import { max, min } from './model.ts'

export const kinds = [
  'gcra',
  'token-bucket',
  'leaky-bucket',
  'fixed-window',
  'first-hit',
  'sliding-window',
  'sliding-log',
  'strict-window',
] as const
export type Kind = (typeof kinds)[number]
export const buckets: readonly Kind[] = ['gcra', 'token-bucket', 'leaky-bucket']

/** A limit in the numbers of the model. */
export interface Rule {
  readonly kind: Kind
  readonly count: bigint
  readonly windowUs: bigint
  /** What fits at once. */
  readonly burst: bigint
}

/** One call: when, for how much, and a number from 0 to 99 by which a property picks what to do. */
export interface Step {
  readonly at: bigint
  readonly cost: bigint
  readonly pick: number
}

export interface Trace {
  readonly rule: Rule
  readonly steps: readonly Step[]
}

const SECOND = 1_000_000n
const DAY = 86_400n * SECOND
export const YEAR = 365n * DAY
export const MOST = 10n ** 15n
/** Traces end in the year 2096: much later, a millisecond with fractions no longer tells all microseconds apart. */
const LAST_INSTANT = 4_000_000_000_000_000n

const short = [1_000n, 10_000n, SECOND, 7n * SECOND, 60n * SECOND, 900n * SECOND, 3_600n * SECOND]
const long = [DAY, 7n * DAY, 30n * DAY, YEAR, 10n * YEAR]
const units = fc.oneof(
  { weight: 4, arbitrary: fc.bigInt(1n, 12n) },
  { weight: 2, arbitrary: fc.bigInt(1n, 1_000_000n) },
  { weight: 1, arbitrary: fc.bigInt(1n, MOST) },
)
/** Rates whose emission is no whole number of microseconds, or less than one. */
const oddRates = [
  [7n, DAY],
  [70_000n, SECOND],
  [3_000_000n, SECOND],
  [999_983n, DAY],
  [999_999_999_999_989n, DAY],
  [MOST, 1_000n],
  [MOST, 10n * YEAR],
] as const
const rates = fc.oneof(
  { weight: 3, arbitrary: fc.tuple(units, fc.constantFrom(...short, ...long)) },
  { weight: 1, arbitrary: fc.constantFrom(...oddRates) },
)

/** Limits from tiny to 10^15, periods from a millisecond to years. A bucket may hold more or less than its count. */
export function rules(...of: readonly Kind[]): fc.Arbitrary<Rule> {
  return fc
    .tuple(fc.constantFrom(...of), rates, fc.constantFrom(1n, 1n, 2n, 3n, 7n), fc.boolean())
    .map(([kind, [count, windowUs], times, less]) => {
      const burst = buckets.includes(kind) ? min(MOST, less ? max(1n, count / times) : count * times) : count
      return { kind, count, windowUs, burst }
    })
}

/** Limits so small that traces keep running into them. */
export function smallRules(...of: readonly Kind[]): fc.Arbitrary<Rule> {
  return fc
    .tuple(fc.constantFrom(...of), fc.bigInt(1n, 9n), fc.constantFrom(1_000n, SECOND), fc.bigInt(1n, 9n))
    .map(([kind, count, windowUs, burst]) => ({ kind, count, windowUs, burst: buckets.includes(kind) ? burst : count }))
}

/** What matters to a rule, as fractions: microseconds for a pause, units for a cost. */
const measures = {
  one: () => [1n, 1n],
  emission: ({ windowUs, count }: Rule) => [windowUs, count],
  windowTwentieth: ({ windowUs }: Rule) => [windowUs, 20n],
  year: () => [YEAR, 1n],
  burstEighth: ({ burst }: Rule) => [burst, 8n],
} as const

interface Size {
  readonly of: keyof typeof measures
  readonly times: bigint
  readonly plus: bigint
}

function sizes(
  of: keyof typeof measures,
  { from, to, giveOrTake = 0n }: Record<'from' | 'to', bigint> & { giveOrTake?: bigint },
) {
  return fc.record({ of: fc.constant(of), times: fc.bigInt(from, to), plus: fc.bigInt(-giveOrTake, giveOrTake) })
}

function inNumbers({ of, times, plus }: Size, rule: Rule): bigint {
  const [numerator, denominator] = measures[of](rule)
  return max(0n, (times * numerator) / denominator + plus)
}

const anyOf = (...weighted: [weight: number, arbitrary: fc.Arbitrary<Size>][]) =>
  fc.oneof(...weighted.map(([weight, arbitrary]) => ({ weight, arbitrary })))

const noPause = sizes('one', { from: 0n, to: 0n })
const moments = sizes('one', { from: 1n, to: 5_000n })
const emissions = sizes('emission', { from: 1n, to: 9n, giveOrTake: 1n })
const windows = sizes('windowTwentieth', { from: 1n, to: 44n, giveOrTake: 1n })
const years = sizes('year', { from: 1n, to: 32n })
const pauses = anyOf([5, noPause], [2, moments], [3, emissions], [3, windows], [1, years])
const shortPauses = anyOf([3, noPause], [1, moments], [5, emissions])

const costs = anyOf(
  [4, sizes('one', { from: 1n, to: 1n })],
  [2, sizes('one', { from: 0n, to: 4n })],
  [4, sizes('burstEighth', { from: 0n, to: 8n, giveOrTake: 1n })],
  [1, sizes('one', { from: 1n, to: MOST })],
)

const starts = fc.oneof(fc.constantFrom(0n, 1n, 1_700_000_000_000_000n), fc.bigInt(0n, 1_800_000_000_000_000n))

export interface Shape {
  /** Whether the clock may also step back, by as much as it may step on. */
  readonly back?: boolean
  /** Only pauses in which a few units flow back, so that debts overlap. */
  readonly dense?: boolean
  readonly maxLength?: number
}

/** Calls under a rule, with times and costs on its scale. */
export function traces(rules: fc.Arbitrary<Rule>, shape: Shape = {}): fc.Arbitrary<Trace> {
  const { back = false, dense = false, maxLength = 24 } = shape
  const way = back ? fc.constantFrom(1n, 1n, -1n) : fc.constant(1n)
  const step = fc.record({ pause: dense ? shortPauses : pauses, way, cost: costs, pick: fc.nat(99) })
  return fc.tuple(rules, starts, fc.array(step, { minLength: 1, maxLength, size: 'max' })).map(([rule, start, raw]) => {
    let at = start
    const steps = raw.map(({ pause, way, cost, pick }) => {
      const next = at + way * inNumbers(pause, rule)
      if (next >= 0n && next <= LAST_INSTANT) at = next
      return { at, cost: min(inNumbers(cost, rule), MOST), pick }
    })
    return { rule, steps }
  })
}
