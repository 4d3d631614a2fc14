import { describe, expect, test } from 'vitest'
import { compileLimit } from '../limit.ts'
import { Holder } from './lease-holder.ts'
import type { LoanAsk } from './lending.ts'
import { blankOutcome, type Outcome } from './store.ts'

const LIFE_US = 1_000_000
const ticks = async () => {
  for (let i = 0; i < 4; i++) await null
}

/** A holder, what it says, and a clock in hand. Whoever lends gives all that is wanted, unless told otherwise. */
function holding(limit = '100000/s') {
  const said: LoanAsk[] = []
  const time = { us: 1_000_000, mode: 'lend' as 'lend' | 'none' | 'wait' }
  const answers: (() => void)[] = []
  const send = (_: Holder, ask: LoanAsk) => {
    said.push(ask)
    const units = time.mode === 'none' ? 0 : ask.want
    const outcome: Outcome = { ...blankOutcome(), loan: { units, kept: ask.held, lifeUs: 980_000 } }
    return new Promise<Outcome>((resolve) => {
      if (time.mode === 'wait') answers.push(() => resolve(outcome))
      else resolve(outcome)
    })
  }
  const clock = { nowUs: () => time.us, wallMs: () => Math.floor(time.us / 1000) }
  const counter = { space: 's', policy: compileLimit(limit) }
  const holder = new Holder(7, counter, 'k', { lifeUs: LIFE_US, share: 0.5 }, clock, send)
  /** So many takes, one every so often; how many of them it had units for. */
  const takes = async (count: number, everyUs: number) => {
    let here = 0
    for (let i = 0; i < count; i++) {
      time.us += everyUs
      if (holder.take(1, blankOutcome())) here++
      else holder.miss(1)
      await ticks()
    }
    return here
  }
  return { holder, said, time, answers, takes }
}

describe('a holder of units', () => {
  test('asks for none before a key has proved hot, and then for what it has seen', async () => {
    const { said, takes } = holding()
    expect(await takes(15, 1_000)).toBe(0)
    expect(said).toEqual([])
    await takes(1, 1_000)
    expect(said).toMatchObject([{ holder: 7, seq: 1, held: 0, give: 0, want: 32, most: 50_000 }])
  })

  test('asks ahead of the end, so that nobody waits, for at most twice as much', async () => {
    const { said, takes } = holding()
    await takes(16, 1_000)
    expect(await takes(2_000, 1_000)).toBe(2_000)
    for (const { held, seq } of said.slice(1)) expect([seq, held > 0]).toEqual([seq, true])
    const sizes = said.map(({ held, want }) => held + want)
    for (const [i, size] of sizes.slice(1).entries()) expect(size).toBeLessThanOrEqual(2 * (sizes[i] as number))
    // A quarter of a life at a thousand a second.
    expect(sizes.at(-1)).toBeGreaterThanOrEqual(240)
    expect(sizes.at(-1)).toBeLessThanOrEqual(260)
    expect(said.length).toBeLessThan(20)
  })

  test('asks for less as less is spent, and for nothing once that does not pay', async () => {
    const { said, takes } = holding()
    await takes(1_000, 1_000)
    const hot = said.at(-1)?.want ?? 0
    await takes(200, 20_000)
    expect(said.at(-1)?.want).toBeLessThan(hot / 2)
    await takes(20, 300_000)
    const messages = said.length
    expect(await takes(50, 300_000)).toBe(0)
    expect(said.length).toBe(messages)
  })

  test('spends nothing after its deadline, which counts from before it asked', async () => {
    const { holder, time, answers, takes } = holding()
    time.mode = 'wait'
    await takes(16, 1_000)
    time.us += 979_999
    answers[0]?.()
    await ticks()
    expect(holder.take(1, blankOutcome())).toBe(true)
    time.us += 1
    expect(holder.take(1, blankOutcome())).toBe(false)
    expect(holder.tokens).toBe(0)
  })

  test('sends one message at a time', async () => {
    const { said, time, takes } = holding()
    time.mode = 'wait'
    await takes(500, 100)
    expect(said.length).toBe(1)
  })

  test('asks less often while nothing is lent', async () => {
    const { said, time, takes } = holding()
    time.mode = 'none'
    await takes(1_000, 1_000)
    expect(said.length).toBeLessThanOrEqual(20)
  })

  test('has back what was reserved and refused, if that lease is not over', async () => {
    const { holder, time, takes } = holding()
    await takes(20, 1_000)
    const before = holder.tokens
    const lease = holder.reserve(5, blankOutcome())
    holder.undo(5, lease)
    expect(holder.tokens).toBe(before)
    const old = holder.reserve(5, blankOutcome())
    time.us += LIFE_US
    expect(holder.take(1, blankOutcome())).toBe(false)
    holder.undo(5, old)
    expect(holder.tokens).toBe(0)
  })

  test('lets nothing lapse: what is spent of now and then is renewed in time, and what is not goes back', async () => {
    const { holder, said, time, takes } = holding()
    let spent = await takes(20, 1_000)
    for (let step = 0; step < 4_000; step++) {
      // Some nineteen takes in a life, in no order, and none in every tenth life.
      const isQuiet = step % 200 < 20
      if (!isQuiet && (step * 7919) % 1009 < 960) spent += await takes(1, 0)
      time.us += LIFE_US / 20
      if (step % 4 === 0) holder.rest()
      await ticks()
    }
    const sum = (name: 'want' | 'give') => said.reduce((total, ask) => total + ask[name], 0)
    expect(spent).toBeGreaterThan(1000)
    expect(sum('want') - sum('give') - spent).toBe(holder.tokens)
  })

  test('gives back what nobody has spent of for a while, and what it was lent after it was told to drop that', async () => {
    const { holder, said, time, answers, takes } = holding()
    await takes(40, 1_000)
    const held = holder.tokens
    time.us += LIFE_US / 2
    holder.rest()
    expect(said.at(-1)?.give).toBe(0)
    time.us += 1
    holder.rest()
    expect(said.at(-1)).toMatchObject({ give: held, held: 0, want: 0 })
    await ticks()
    time.us += LIFE_US
    time.mode = 'wait'
    await takes(16, 1_000)
    const { want } = said.at(-1) as LoanAsk
    holder.drop()
    answers[0]?.()
    await ticks()
    expect(said.at(-1)).toMatchObject({ give: want, held: 0, want: 0 })
    expect(holder.tokens).toBe(0)
  })
})
