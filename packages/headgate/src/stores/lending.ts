import type { Late, Mark, Policy } from '../algorithms/algorithm.ts'

/** What a holder says to whoever keeps the counts of a key: what it has, what it brings back, what it would like. */
export interface LoanAsk {
  /** One holder is one process and one key. */
  readonly holder: number
  /** Rises with every message of a holder: what comes again, or too late, changes nothing. */
  readonly seq: number
  /** Units that it holds and may yet spend. What it had beside these and does not give back was spent. */
  readonly held: number
  /** Units that it had, has not spent, and will not spend. */
  readonly give: number
  readonly want: number
  /** How long units are lent for, at most. */
  readonly lifeUs: number
  /** How many units may be out at once, to all holders of the key. */
  readonly most: number
}

export interface Loan {
  /** How many more units are lent; -1 if the message came again, or too late. */
  readonly units: number
  /** How many of those it said it holds are still lent to it. */
  readonly kept: number
  /** For how long it may spend them, from before it asked, on its own clock. */
  readonly lifeUs: number
}

/** [holder, seq of its last message, units, lent until], one after the other. */
export const WIDTH = 4
/** More than so many holders of one key are not lent to: each message reads all of them. */
export const MOST_HOLDERS = 64
/**
 * A holder stops so much before whoever lent to it takes units for spent: then no clock that is wrong by up to 1% lets it spend
 * what was given to others. 0.98 is at most (1 - 1%) / (1 + 1%).
 */
export const HOLDER_SHARE = 0.98
/** In place of units lent. */
const STALE = -1

/** Takes for spent what was not accounted for in time, at the last moment it could be, and holds the rest. Returns how many
 *  units are out. The twin is `lapse` in lending.lua.ts. */
export function lapse(policy: Policy, state: Float64Array, at: number, nowUs: number, loans: number[]): number {
  let out = 0
  for (let i = 2; i < loans.length; i += WIDTH) out += loans[i] as number
  for (let i = firstOver(loans, nowUs); i >= 0; i = firstOver(loans, nowUs)) {
    policy.hold?.(state, at, loans[i + 3] as number, out)
    out -= loans[i + 2] as number
    loans.splice(i, WIDTH)
  }
  if (out > 0) policy.hold?.(state, at, nowUs, out)
  return out
}

function firstOver(loans: readonly number[], nowUs: number): number {
  let first = -1
  for (let i = 0; i < loans.length; i += WIDTH) {
    const untilUs = loans[i + 3] as number
    if (untilUs <= nowUs && (first < 0 || untilUs < (loans[first + 3] as number))) first = i
  }
  return first
}

/** What one message needs to know of its key, and changes. */
export interface Lent {
  readonly policy: Policy
  readonly state: Float64Array
  readonly at: number
  readonly loans: number[]
  late: Late | undefined
  /** Whether the key is blocked: nothing is lent then. */
  readonly blocked: boolean
}

/**
 * One message of a holder. Units left and units lent are together never more than the limit: what is lent is booked here and
 * now, and held for as long as it may be spent. So whatever becomes of messages and holders, no more is let through than if all
 * had asked here. Messages say what a holder has, not what has changed: a lost one strands units until the next, and one that
 * comes again is known by its number.
 *
 * Where a lease cannot last as long as was asked for, it is smaller: more would not be spent in time, and be lost.
 *
 * The twin is `lend` in lending.lua.ts: change both or neither.
 */
export function lend(key: Lent, nowUs: number, ask: LoanAsk, mark: Mark): Loan {
  const { policy, state, at, loans } = key
  let out = lapse(policy, state, at, nowUs, loans)
  let i = indexOf(loans, ask.holder)
  const known = i < 0 ? 0 : (loans[i + 2] as number)
  const kept = Math.min(ask.held, known)
  if (i >= 0 && ask.seq <= (loans[i + 1] as number)) return { units: STALE, kept, lifeUs: 0 }
  const back = Math.min(ask.give, known - kept)
  if (back > 0) key.late = policy.takeBack?.(state, at, nowUs, back, key.late)
  out += kept - known
  if (i < 0 && ask.want > 0 && loans.length < MOST_HOLDERS * WIDTH) i = loans.push(ask.holder, 0, 0, 0) - WIDTH
  const lifeUs = Math.min(ask.lifeUs, (policy.lentUntilUs?.(state, at, nowUs) as number) - nowUs)
  const want = Math.ceil(ask.want * Math.min(1, (lifeUs * 4) / (ask.lifeUs * 3)))
  const most = Math.min(want, ask.most - out, Math.floor((ask.most * WIDTH) / loans.length) - kept)
  const units = i < 0 || key.blocked ? 0 : fitting(key, nowUs, most)
  if (units > 0) policy.book(state, at, nowUs, units, mark, key.late)
  if (i >= 0 && kept + units === 0 && ask.want === 0) loans.splice(i, WIDTH)
  else if (i >= 0) loans.splice(i, WIDTH, ask.holder, ask.seq, kept + units, nowUs + lifeUs)
  return { units, kept, lifeUs: Math.floor(lifeUs * HOLDER_SHARE) }
}

function indexOf(loans: readonly number[], holder: number): number {
  for (let i = 0; i < loans.length; i += WIDTH) if (loans[i] === holder) return i
  return -1
}

/** How many units fit now, up to `most`. */
function fitting({ policy, state, at }: Lent, nowUs: number, most: number): number {
  const fits = (units: number) => policy.waitUs(state, at, nowUs, units) === 0
  if (most < 1) return 0
  if (fits(most)) return most
  let [low, high] = [0, most - 1]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (fits(middle)) low = middle
    else high = middle - 1
  }
  return low
}
