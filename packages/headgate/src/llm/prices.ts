import { HeadgateError, show, suggest } from '../errors.ts'
import type { Usage } from './usage.ts'

/** What a million tokens cost, in dollars or what you pay in: a token then costs so many millionths. */
export interface Price {
  readonly input: number
  readonly output: number
  /** For what came from a cache. As input unless said otherwise. */
  readonly cachedInput?: number
  /** For what was put into one. Twice the input unless said otherwise: the most that is asked for it. */
  readonly cacheWrite?: number
}

/** By model; `*` is for all that are not named. A model named without its date has any: `gpt-4o` is also `gpt-4o-2024-08-06`. */
export type Prices = Readonly<Record<string, Price>>

/** Prices are kept to a millionth of a millionth, so sums are exact; a limit counts whole millionths of what you pay in. */
const PARTS = 1_000_000
const DEAREST = 1_000_000

/** In parts, by name of what is paid for. */
type Parts = Readonly<Record<'input' | 'output' | 'cachedInput' | 'cacheWrite', bigint>>

export class PriceList {
  readonly #models = new Map<string, Parts>()

  constructor(prices: Prices) {
    if (typeof prices !== 'object' || prices === null || Object.keys(prices).length === 0) {
      throw new HeadgateError(
        'HG_OPTION_INVALID',
        `"prices" is ${show(prices)}: give what a million tokens cost, such as { 'gpt-4o': { input: 2.5, output: 10 } }`,
        prices,
      )
    }
    for (const [model, price] of Object.entries(prices)) this.#models.set(model, partsOf(model, price))
  }

  /** What it costs in whole millionths, rounded up: never in the caller's favour. */
  costOf(model: string, usage: Partial<Usage>): number {
    const { input = 0, output = 0, cachedInput = 0, cacheWrite = 0 } = usage
    const price = this.#priceOf(model)
    const plain = Math.max(0, input - cachedInput - cacheWrite)
    const parts =
      BigInt(plain) * price.input +
      BigInt(cachedInput) * price.cachedInput +
      BigInt(cacheWrite) * price.cacheWrite +
      BigInt(output) * price.output
    return Number((parts + BigInt(PARTS - 1)) / BigInt(PARTS))
  }

  #priceOf(model: string): Parts {
    const undated = model.replace(/-(?:\d{4}-\d\d-\d\d|\d{8}|latest)$/, '')
    const price = this.#models.get(model) ?? this.#models.get(undated) ?? this.#models.get('*')
    if (price !== undefined) return price
    const known = [...this.#models.keys()]
    const hint = suggest(model, known) || `; there are ${known.join(', ')}`
    throw new HeadgateError('HG_MODEL_UNKNOWN', `there is no price for the model ${show(model)}${hint}`, model)
  }
}

function partsOf(model: string, price: Price): Parts {
  const { input, output, cachedInput = input, cacheWrite = input * 2 } = price ?? {}
  const all = { input, output, cachedInput, cacheWrite }
  return Object.fromEntries(
    Object.entries(all).map(([name, each]) => {
      if (typeof each === 'number' && each >= 0 && each <= DEAREST) return [name, BigInt(Math.round(each * PARTS))]
      throw new HeadgateError(
        'HG_OPTION_INVALID',
        `"${name}" in the price of ${show(model)} is ${show(each)}: give what a million tokens cost, from 0 to ${DEAREST}`,
        each,
      )
    }),
  ) as unknown as Parts
}

/** A limit on money, said in dollars or what you pay in and counted in millionths of it: `usd('200/month calendar')`. */
export function usd(text: string): string {
  if (/^\d[\d_]*(?:\.\d{1,6})?\//.test(text))
    return text.replace(
      /(^|burst )(\d[\d_]*)(?:\.(\d{1,6}))?/g,
      (_all, before, whole, part) => before + millionths(whole, part),
    )
  throw new HeadgateError(
    'HG_LIMIT_TEXT',
    `${show(text)} is no limit on money: give one such as '200/month calendar' or '2.50/day'`,
    text,
  )
}

function millionths(whole: string, part = ''): string {
  return String(BigInt(whole.replaceAll('_', '')) * 1_000_000n + BigInt(part.padEnd(6, '0')))
}
