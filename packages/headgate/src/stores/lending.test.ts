import { describe, expect, test } from 'vitest'
import { compileLimit } from '../limit.ts'
import { type Lent, type LoanAsk, lapse, lend } from './lending.ts'
import { blankOutcome } from './store.ts'

const MS = 1000
const policy = compileLimit('100/s burst 100')

function key(): Lent {
  return { policy, state: new Float64Array(policy.words), at: 0, loans: [], late: undefined, blocked: false }
}

/** A message of a holder at an instant, with all that is not said 0. */
function say(of: Lent, atMs: number, ask: Partial<LoanAsk> & Pick<LoanAsk, 'holder' | 'seq'>) {
  const whole = { held: 0, give: 0, want: 0, lifeUs: 1000 * MS, most: 50, ...ask }
  return lend(of, 1e12 + atMs * MS, whole, blankOutcome())
}

function left(of: Lent, atMs: number): number {
  const state = of.state.slice()
  lapse(policy, state, 0, 1e12 + atMs * MS, [...of.loans])
  const view = blankOutcome()
  policy.look(state, 0, 1e12 + atMs * MS, view)
  return view.remaining
}

describe('whoever lends', () => {
  test('lends what is asked for, for as long as it says and a little less for the holder', () => {
    expect(say(key(), 0, { holder: 1, seq: 1, want: 30 })).toEqual({ units: 30, kept: 0, lifeUs: 980 * MS })
  })

  test('has no more left than the limit without what is lent, however long that is out', () => {
    const of = key()
    say(of, 0, { holder: 1, seq: 1, want: 30 })
    expect([left(of, 0), left(of, 500), left(of, 999)]).toEqual([70, 70, 70])
  })

  test('takes for spent, at the last moment, what it did not hear of again', () => {
    const of = key()
    say(of, 0, { holder: 1, seq: 1, want: 30 })
    expect([left(of, 1000), left(of, 1050), left(of, 1300)]).toEqual([70, 75, 100])
    const two = key()
    say(two, 0, { holder: 1, seq: 1, want: 20 })
    say(two, 400, { holder: 2, seq: 1, want: 20 })
    // Spent at 1 s, while 20 more are out until 1.4 s.
    expect([left(two, 1100), left(two, 1399), left(two, 1450)]).toEqual([70, 80, 85])
  })

  test('lets what was spent come back, from when it hears of that', () => {
    const of = key()
    say(of, 0, { holder: 1, seq: 1, want: 30 })
    say(of, 500, { holder: 1, seq: 2, held: 10 })
    expect([left(of, 500), left(of, 600), left(of, 700), left(of, 900)]).toEqual([70, 80, 90, 90])
  })

  test('has back at once what is given back, and knows it when that comes again', () => {
    const of = key()
    say(of, 0, { holder: 1, seq: 1, want: 30 })
    say(of, 100, { holder: 1, seq: 2, give: 30 })
    expect(left(of, 100)).toBe(100)
    say(of, 110, { holder: 1, seq: 3, want: 30 })
    expect(say(of, 120, { holder: 1, seq: 2, give: 30 })).toEqual({ units: -1, kept: 0, lifeUs: 0 })
    expect(left(of, 120)).toBe(70)
  })

  test('takes back no more than it has lent', () => {
    const of = key()
    say(of, 0, { holder: 1, seq: 1, want: 30 })
    say(of, 0, { holder: 2, seq: 1, want: 20 })
    say(of, 0, { holder: 2, seq: 2, held: 5, give: 50 })
    expect(left(of, 0)).toBe(65)
    say(of, 0, { holder: 3, seq: 1, give: 50 })
    expect(left(of, 0)).toBe(65)
  })

  test('lends half to each of two holders, though one came first and asks for all', () => {
    const of = key()
    const want = 50
    expect(say(of, 0, { holder: 1, seq: 1, want }).units).toBe(50)
    expect(say(of, 10, { holder: 2, seq: 1, want }).units).toBe(0)
    // Nothing more for who has more than its part, until it has spent that.
    expect(say(of, 20, { holder: 1, seq: 2, held: 30, want }).units).toBe(0)
    expect(say(of, 300, { holder: 2, seq: 2, want }).units).toBe(20)
    expect(say(of, 310, { holder: 1, seq: 3, held: 5, want }).units).toBe(20)
    expect(say(of, 320, { holder: 2, seq: 3, held: 0, want }).units).toBe(25)
  })

  test('lends nothing of a key that is blocked, and nothing to more holders than it can remember', () => {
    expect(say({ ...key(), blocked: true }, 0, { holder: 1, seq: 1, want: 5 }).units).toBe(0)
    const of = key()
    for (let holder = 1; holder <= 64; holder++) say(of, 0, { holder, seq: 1, want: 1, most: 100 })
    expect(say(of, 0, { holder: 65, seq: 1, want: 1, most: 100 })).toMatchObject({ units: 0, kept: 0 })
    expect(of.loans.length).toBe(64 * 4)
  })

  test('gives a booking made after a loan no more back than there is of it once the loan was given back', () => {
    const of = key()
    const mark = blankOutcome()
    say(of, 0, { holder: 1, seq: 1, want: 50 })
    policy.book(of.state, 0, 1e12, 1, mark)
    say(of, 0, { holder: 1, seq: 2, give: 50 })
    policy.book(of.state, 0, 1e12 + 20 * MS, 40, blankOutcome(), of.late)
    // The booking has come back by itself after 10 ms.
    policy.giveBack(of.state, 0, 1e12 + 20 * MS, 1, mark, of.late)
    expect(left(of, 20)).toBe(60)
  })
})
