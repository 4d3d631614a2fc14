import type { Charge } from './charge.ts'
import { type Counter, idOf, type Outcome, type Result, type Store } from './stores/store.ts'

/** When somebody may go, and what is booked in the store for that. */
export interface Turn {
  readonly departUs: number
  readonly result: Result
}

/** Somebody who has a turn and waits for it. */
export interface Holder {
  readonly charges: readonly Charge[]
  nowUs(): number
  after(ms: number, call: () => void): () => void
  depart(turn: Turn): void
  /** Tells the store that nobody takes the turn. */
  giveBack(turn: Turn): unknown
  /** What it has booked is no longer what it would get: it starts over. */
  startOver(): void
}

/** Those who ask for the same at the same price: any of them can take the turn of another. */
interface Row {
  readonly name: string
  /** The keys that they are charged to. */
  readonly keys: readonly string[]
  /** First come first, and the first of the turns is that of the first of them. */
  readonly holders: Holder[]
  /** Those that nobody has any more stand at the end, while the store is asked for others: who comes next takes them over. */
  readonly turns: Turn[]
  asking: number
  giveBack: (turn: Turn) => unknown
  cancelTimer: () => void
}

/**
 * Those who hold a turn that is booked ahead in the store, until it comes. A turn is an instant on the clock: one that is taken late
 * does not delay the next.
 *
 * Who gives up hands its turn to the next in its row, who hands on its own, and so on: the turn that is left over is the last one,
 * which the store takes back if nobody else, in whichever process, is booked behind it. So among those of a process who cost the same
 * giving up leaves no hole. A turn of another cost behind it leaves one, until it would have been due.
 */
export class Departures {
  static readonly #ofStore = new WeakMap<object, Departures>()
  readonly #rows = new Map<string, Row>()
  readonly #rowOf = new Map<Holder, Row>()
  readonly #ahead = new Ahead()

  /** Gates on one store share its turns as they share its counts. */
  static of(store: Store): Departures {
    const known = Departures.#ofStore.get(store) ?? new Departures()
    Departures.#ofStore.set(store, known)
    return known
  }

  /** How many hold a turn, or ask for one, that these charges would be one more of. */
  size(charges: readonly Charge[]): number {
    const row = this.#rows.get(nameOf(charges))
    return row === undefined ? 0 : row.holders.length + row.asking
  }

  /** The turn of a result on the clock of this process, which asked for it at `askedUs`. */
  turn(result: Result, askedUs: number, nowUs: number, isOwnClock: boolean): Turn {
    const waitUs = result.waitUs ?? 0
    const { atUs = 0 } = result.outcomes[0] ?? {}
    const decidedUs = isOwnClock ? atUs : this.#ahead.toHere(atUs, askedUs, nowUs)
    return { departUs: decidedUs + waitUs, result: asOfThen(result, waitUs) }
  }

  /** The store is asked for a turn, until the call that this returns. */
  ask(charges: readonly Charge[]): () => void {
    const row = this.#rowFor(charges)
    row.asking++
    return () => {
      row.asking--
      this.#trim(row)
    }
  }

  hold(holder: Holder, turn: Turn): void {
    const row = this.#rowFor(holder.charges)
    this.#rowOf.set(holder, row)
    let i = row.turns.length
    // Mostly it is the last; answers may come in another order than they were given.
    while (i > 0 && (row.turns[i - 1] as Turn).departUs > turn.departUs) i--
    row.holders.splice(i, 0, holder)
    row.turns.splice(i, 0, turn)
    if (i === 0 || row.holders.length === 1) this.#arm(row)
  }

  leave(holder: Holder): void {
    const row = this.#rowOf.get(holder)
    if (row === undefined) return
    this.#rowOf.delete(holder)
    row.holders.splice(row.holders.indexOf(holder), 1)
    row.giveBack = (turn) => holder.giveBack(turn)
    this.#trim(row)
  }

  /** Gives back the turns that nobody will take, the last of them first. */
  #trim(row: Row): void {
    while (row.asking === 0 && row.turns.length > row.holders.length) void row.giveBack(row.turns.pop() as Turn)
    if (row.holders.length === 0) row.cancelTimer()
    if (row.holders.length === 0 && row.asking === 0 && this.#rows.get(row.name) === row) this.#rows.delete(row.name)
  }

  /** Something happened to a key that makes all its turns worth nothing, or another limit holds for it now. */
  async disturb(counter: Counter, key: string): Promise<void> {
    const id = idOf({ counter, key })
    const rows = [...this.#rows.values()].filter(({ keys }) => keys.includes(id))
    const held = rows.flatMap(({ holders, turns }) => holders.map((holder, i) => ({ holder, turn: turns[i] as Turn })))
    held.sort((a, b) => a.turn.departUs - b.turn.departUs)
    for (const row of rows) {
      const spare = row.turns.splice(row.holders.length)
      while (spare.length > 0) void row.giveBack(spare.pop() as Turn)
      row.holders.length = row.turns.length = 0
      this.#trim(row)
    }
    for (const { holder } of held) this.#rowOf.delete(holder)
    // From the last on, so that each is the last when it is given back.
    const given = [...held].reverse().map(({ holder, turn }) => holder.giveBack(turn))
    if (given.some((each) => each instanceof Promise)) await Promise.allSettled(given)
    for (const { holder } of held) holder.startOver()
  }

  #rowFor(charges: readonly Charge[]): Row {
    const name = nameOf(charges)
    const known = this.#rows.get(name)
    if (known !== undefined) return known
    const keys = charges.filter(isCharged).map(idOf)
    const row: Row = { name, keys, holders: [], turns: [], asking: 0, giveBack: () => {}, cancelTimer: () => {} }
    this.#rows.set(name, row)
    return row
  }

  #arm(row: Row): void {
    const [holder, turn] = [row.holders[0] as Holder, row.turns[0] as Turn]
    row.cancelTimer()
    row.cancelTimer = holder.after(Math.max(0, turn.departUs - holder.nowUs()) / 1000, () => this.#advance(row))
  }

  /** Lets go all whose turn has come. */
  #advance(row: Row): void {
    while (row.holders.length > 0) {
      const [holder, turn] = [row.holders[0] as Holder, row.turns[0] as Turn]
      // Timers of some runtimes go off a little early.
      if (turn.departUs > holder.nowUs()) {
        this.#arm(row)
        return
      }
      row.holders.shift()
      row.turns.shift()
      this.#rowOf.delete(holder)
      holder.depart(turn)
    }
    this.#trim(row)
  }
}

function isCharged({ verb, cost }: Charge): boolean {
  return verb === 'take' && cost > 0
}

/** Whoever has the same name here has booked the same. */
function nameOf(charges: readonly Charge[]): string {
  let name = ''
  for (const charge of charges) {
    if (!isCharged(charge)) continue
    const { policy } = charge.counter
    name += `${policy.algorithm} ${policy.shape} ${policy.limit} ${charge.cost} ${charge.observe} ${charge.key.length}:${idOf(charge)} `
  }
  return name
}

/** A result as it looks when the turn comes, as far as was known when it was booked. */
function asOfThen(result: Result, waitUs: number): Result {
  const outcomes = result.outcomes.map(
    (each): Outcome => ({
      ...each,
      atUs: each.atUs === 0 ? 0 : each.atUs + waitUs,
      resetUs: Math.max(0, each.resetUs - waitUs),
      growUs: Math.max(0, each.growUs - waitUs),
    }),
  )
  return { ...result, outcomes }
}

const GENERATION_US = 5_000_000

/**
 * How far the clock of a store is ahead of this process's. An answer was given between question and reply; the quickest replies tell
 * most, and are believed for some seconds. Counted from when each reply came instead, departures would be as uneven as the network.
 */
class Ahead {
  #now = -Infinity
  #before = -Infinity
  #sinceUs = 0

  toHere(atUs: number, askedUs: number, nowUs: number): number {
    if (atUs === 0) return nowUs
    if (nowUs - this.#sinceUs > GENERATION_US) [this.#before, this.#now, this.#sinceUs] = [this.#now, -Infinity, nowUs]
    this.#now = Math.max(this.#now, atUs - nowUs)
    // Whatever the clocks do, it was decided after it was asked and before it was known.
    return Math.min(nowUs, Math.max(askedUs, atUs - Math.max(this.#now, this.#before)))
  }
}
