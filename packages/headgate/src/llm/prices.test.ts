import { createGate } from 'headgate'
import { PriceList, type Prices, usd } from 'headgate/llm'
import { describe, expect, test } from 'vitest'

const list = new PriceList({
  'gpt-4o': { input: 2.5, output: 10, cachedInput: 1.25 },
  'claude-sonnet-4-5': { input: 3, output: 15, cachedInput: 0.3, cacheWrite: 3.75 },
  cheap: { input: 0.07, output: 0.28 },
})

describe('money is counted in whole millionths', () => {
  test.each([
    ['a million tokens cost what the list says', 'gpt-4o', { input: 1_000_000, output: 0 }, 2_500_000],
    [
      'what is said to be unknown costs nothing',
      'gpt-4o',
      { input: 1_000, output: 100, cachedInput: undefined },
      3_500,
    ],
    ['input and output', 'gpt-4o', { input: 1_000, output: 100 }, 3_500],
    ['what came from a cache costs less', 'gpt-4o', { input: 1_000, output: 0, cachedInput: 800 }, 1_500],
    ['what was put into one costs more', 'claude-sonnet-4-5', { input: 1_000, output: 0, cacheWrite: 400 }, 3_300],
    ['twice as much, if nobody says', 'cheap', { input: 1_000_000, output: 0, cacheWrite: 1_000_000 }, 140_000],
    ['as much as input, if nobody says', 'cheap', { input: 1_000_000, output: 0, cachedInput: 1_000_000 }, 70_000],
    ['a part of a millionth is a whole one', 'cheap', { input: 1, output: 0 }, 1],
    ['each call is rounded once, and up', 'cheap', { input: 15, output: 0 }, 2],
    ['but what is whole stays whole', 'cheap', { input: 100, output: 0 }, 7],
    ['nothing costs nothing', 'gpt-4o', { input: 0, output: 0 }, 0],
    ['a model with its date', 'gpt-4o-2024-08-06', { input: 2, output: 0 }, 5],
    ['a model with its date, written together', 'claude-sonnet-4-5-20250929', { input: 2, output: 0 }, 6],
    [
      'as much as anybody can ask for, exactly',
      'gpt-4o',
      { input: 1_000_000_000, output: 1_000_000_000 },
      12_500_000_000,
    ],
  ])('%s', (_name, model, usage, cost) => expect(list.costOf(model, usage)).toBe(cost))

  test('a model without a price is refused and not free, unless there is a price for all others', () => {
    expect(() => list.costOf('gpt-4o-mini', { input: 1 })).toThrow(
      'HG_MODEL_UNKNOWN: there is no price for the model "gpt-4o-mini"',
    )
    const prices = { 'gpt-4o': { input: 2.5, output: 10 }, '*': { input: 100, output: 400 } }
    expect(new PriceList(prices).costOf('anything', { input: 1, output: 1 })).toBe(500)
    expect(() => list.costOf('constructor', { input: 1 })).toThrow('HG_MODEL_UNKNOWN')
  })

  test.each([
    ['none', {}],
    ['no numbers', { m: { input: '3', output: 1 } }],
    ['below zero', { m: { input: -1, output: 1 } }],
    ['only one', { m: { input: 1 } }],
    ['beyond all', { m: { input: 1e9, output: 1 } }],
    ['nothing', { m: null }],
  ])('a list of prices with %s is refused', (_name, prices) => {
    expect(() => new PriceList(prices as unknown as Prices)).toThrow('HG_OPTION_INVALID')
  })
})

describe('a limit on money is said in money', () => {
  test.each([
    ['200/month calendar', '200000000/month calendar'],
    ['2.50/day', '2500000/day'],
    ['1_000/month calendar Europe/Berlin', '1000000000/month calendar Europe/Berlin'],
    ['0.000001/s', '1/s'],
    ['5/10min burst 7.5', '5000000/10min burst 7500000'],
  ])('%s', (text, counted) => {
    expect(usd(text)).toBe(counted)
    expect(createGate({ limit: usd(text) }).peek('ann').ok).toBe(true)
  })

  test.each(['', 'month', '$5/day', '-5/day', '0.0000001/day', 'unlimited'])('%j is none', (text) => {
    expect(() => usd(text)).toThrow('HG_LIMIT_TEXT')
  })
})
