import type { AlgorithmName, Late, Mark, Policy, View } from './algorithm.ts'
import { gcd, LONGEST_US, mulDiv, part, rest } from './whole.ts'

/**
 * Remembers one instant per key: when the key will be idle again. A request moves it by its cost, if it stays within `burst`
 * of now. Also serves `token-bucket` and `leaky-bucket`: tokens left are the burst less the debt, the level of the bucket is
 * the debt, and in exact arithmetic all three decide alike.
 *
 * A unit takes window / count us to come back, kept as the fraction `up / down` in lowest terms. Mostly that is whole and the
 * instant is one number. Where it is not, `down`-ths of a us are kept beside it: 70,000/s is 100/7 us a unit and never drifts.
 *
 * State: [idle at, whole us] and, if down > 1, [the rest of it, in 1/down us].
 */
export class Gcra implements Policy {
  readonly algorithm: AlgorithmName
  readonly limit: number
  readonly words: number
  readonly shape: string
  readonly quick: boolean
  readonly #up: number
  readonly #down: number
  readonly #unitUs: number
  readonly #unitPart: number
  readonly #toleranceUs: number
  readonly #tolerancePart: number

  constructor(algorithm: AlgorithmName, count: number, windowUs: number, burst: number) {
    const common = gcd(windowUs, count)
    this.#up = windowUs / common
    this.#down = count === 0 ? 1 : count / common
    this.algorithm = algorithm
    this.limit = burst
    this.words = this.#down === 1 ? 1 : 2
    this.quick = this.words === 1
    this.shape = `gcra ${this.#up}/${this.#down}`
    this.#unitUs = Math.floor(this.#up / this.#down)
    this.#unitPart = this.#up - this.#unitUs * this.#down
    this.#toleranceUs = this.#spanUs(burst)
    this.#tolerancePart = rest
  }

  /** What so many units are worth: whole us, and 1/down us in `rest`. */
  #spanUs(units: number): number {
    return units * this.#unitUs + mulDiv(this.#unitPart, units, this.#down)
  }

  waitUs(state: Float64Array, at: number, nowUs: number, cost: number): number {
    if (this.#down > 1 || cost > this.limit) return this.#partsWaitUs(state, at, nowUs, cost)
    const debtUs = (state[at] as number) - nowUs
    const waitUs = (debtUs > 0 ? debtUs : 0) + cost * this.#up - this.#toleranceUs
    return waitUs > 0 && cost > 0 ? waitUs : 0
  }

  #partsWaitUs(state: Float64Array, at: number, nowUs: number, cost: number): number {
    if (cost > this.limit) return Infinity
    const debtUs = (state[at] as number) - nowUs
    let us = (debtUs > 0 ? debtUs : 0) + this.#spanUs(cost) - this.#toleranceUs
    const part = rest + (debtUs < 0 ? 0 : (state[at + 1] as number)) - this.#tolerancePart
    us += Math.ceil(part / this.#down)
    return us > 0 && cost > 0 ? us : 0
  }

  book(state: Float64Array, at: number, nowUs: number, cost: number, mark: Mark, late?: Late): void {
    const idleUs = state[at] as number
    const us = (idleUs > nowUs ? idleUs : nowUs) + cost * this.#up
    if (this.#down > 1 || late !== undefined || us - nowUs > this.#toleranceUs)
      this.#partsBook(state, at, nowUs, cost, mark, late)
    else mark.ref = state[at] = us
  }

  spend(state: Float64Array, at: number, nowUs: number): number {
    const idleUs = state[at] as number
    const us = (idleUs > nowUs ? idleUs : nowUs) + this.#up
    if (us - nowUs > this.#toleranceUs) return 0
    state[at] = us
    return us
  }

  leftBy(idleUs: number, nowUs: number): number {
    return Math.floor((this.#toleranceUs - (idleUs - nowUs)) / this.#up)
  }

  #partsBook(state: Float64Array, at: number, nowUs: number, cost: number, mark: Mark, late: Late | undefined): void {
    const idleUs = state[at] as number
    const us = (idleUs > nowUs ? idleUs : nowUs) + this.#spanUs(cost)
    this.#put(state, at, us, rest + (idleUs < nowUs ? 0 : this.#partOf(state, at)))
    if ((state[at] as number) > nowUs + LONGEST_US) this.#put(state, at, nowUs + LONGEST_US, 0)
    mark.ref = state[at] as number
    mark.refPart = this.#partOf(state, at)
    if (late !== undefined) this.#markLate(mark, late)
  }

  #partOf(state: Float64Array, at: number): number {
    return this.#down === 1 ? 0 : (state[at + 1] as number)
  }

  /** Places count as if nothing had moved up, and what has moved is kept until the last of them has ended. */
  #markLate(mark: Mark, late: Late): void {
    mark.ref += sumOf(late.numbers)
    mark.refPart += sumOf(late.numbers, 1)
    late.untilUs = Math.max(late.untilUs, mark.ref + mark.refPart / this.#down + 1)
  }

  /** Sets the state from whole us and a part that may be below 0 or above a us. */
  #put(state: Float64Array, at: number, us: number, part: number): void {
    const carry = Math.floor(part / this.#down)
    state[at] = us + carry
    if (this.#down > 1) state[at + 1] = part - carry * this.#down
  }

  /**
   * Debts are worked off in the order they were made. What is left of a booking is the time from now to its end, and more than
   * that given back would be spent twice. What is given back out of turn moves up all bookings behind it, so it is kept, with
   * its place in the line, until all that stood in line then has ended; places count from the start as if nothing had moved.
   */
  giveBack(
    state: Float64Array,
    at: number,
    nowUs: number,
    cost: number,
    mark: Readonly<Mark>,
    late?: Late,
  ): Late | undefined {
    const [idleUs, idlePart] = [state[at] as number, this.#partOf(state, at)]
    const moved = late?.numbers ?? []
    let [leftUs, leftPart] = [mark.ref - nowUs, mark.refPart]
    for (let i = 0; i < moved.length; i += WIDTH) {
      if (this.#compare(moved[i + 2] as number, moved[i + 3] as number, mark.ref, mark.refPart) >= 0) continue
      leftUs -= moved[i] as number
      leftPart -= moved[i + 1] as number
    }
    let [us, part] = [this.#spanUs(cost), rest]
    if (this.#compare(us, part, leftUs, leftPart) > 0) [us, part] = [leftUs, leftPart]
    if (this.#compare(us, part, 0, 0) <= 0) return late
    const isLast = this.#compare(idleUs + sumOf(moved), idlePart + sumOf(moved, 1), mark.ref, mark.refPart) === 0
    this.#put(state, at, idleUs - us, idlePart - part)
    return isLast ? late : this.#moveUp(moved, nowUs, idleUs, us, part, mark)
  }

  lentUntilUs(): number {
    return Infinity
  }

  hold(state: Float64Array, at: number, nowUs: number, units: number): void {
    const us = nowUs + this.#spanUs(units)
    if (this.#compare(us, rest, state[at] as number, this.#partOf(state, at)) > 0) this.#put(state, at, us, rest)
  }

  /** What is held is all within the debt, wherever it stands. So that nobody behind it is given back too much, it counts as
   *  having stood in front of everybody. */
  takeBack(state: Float64Array, at: number, nowUs: number, units: number, late?: Late): Late | undefined {
    const [idleUs, idlePart] = [state[at] as number, this.#partOf(state, at)]
    const [us, part] = [this.#spanUs(units), rest]
    this.#put(state, at, idleUs - us, idlePart - part)
    return this.#moveUp(late?.numbers ?? [], nowUs, idleUs, us, part, { ref: nowUs, refPart: 0 })
  }

  /** Notes, in order of places, what was given back of the booking with this mark. */
  #moveUp(moved: number[], nowUs: number, idleUs: number, us: number, part: number, mark: Readonly<Mark>): Late {
    if (moved.length === MOST_MOVED * WIDTH) joinTwo(moved, nowUs)
    let at = moved.length
    while (at > 0 && this.#compare(moved[at - 2] as number, moved[at - 1] as number, mark.ref, mark.refPart) > 0)
      at -= WIDTH
    moved.splice(at, 0, us, part, mark.ref, mark.refPart)
    return { numbers: moved, untilUs: idleUs + sumOf(moved) + sumOf(moved, 1) + 1 }
  }

  /** Units are spent from the front of what was lent, and none stands before it could have been taken. */
  markLent(mark: Mark, nowUs: number, cost: number, left: number): void {
    let [us, part] = [mark.ref - this.#spanUs(left), mark.refPart - rest]
    const [leastUs, leastPart] = [nowUs + this.#spanUs(cost), rest]
    if (this.#compare(us, part, leastUs, leastPart) < 0) [us, part] = [leastUs, leastPart]
    const carry = Math.floor(part / this.#down)
    mark.ref = us + carry
    mark.refPart = part - carry * this.#down
  }

  /** Up to the instant at which the key is idle: until then it works off its debt, and the order within that does not matter. Later
   *  than that it would be idle in between, and the units charged now would be back too soon. What is lent is held until it is
   *  spent, and is not worked off: so much of the debt has to be left. */
  sameAt(state: Float64Array, at: number, nowUs: number, thenUs: number, lent: number): boolean {
    const idleUs = (state[at] as number) + (this.#partOf(state, at) > 0 ? 1 : 0)
    const heldUs = lent > 0 ? this.#spanUs(lent) + (this.#down > 1 ? 2 : 0) : 0
    return idleUs >= thenUs + heldUs && thenUs - nowUs + this.#toleranceUs < LONGEST_US
  }

  /**
   * Departures of a `leaky-bucket` that are booked ahead are promises, each with its own instant: those behind do not move up when
   * one is taken back. Were its units given to whoever comes next, that one would leave together with the last. So only the last
   * is taken back as long as anybody is booked ahead, which is when the debt is more than the burst.
   */
  stays(state: Float64Array, at: number, nowUs: number, mark: Readonly<Mark>, late?: Late): boolean {
    if (this.algorithm !== 'leaky-bucket') return false
    const [idleUs, idlePart] = [state[at] as number, this.#partOf(state, at)]
    if (this.#compare(idleUs - nowUs, idlePart, this.#toleranceUs, this.#tolerancePart) <= 0) return false
    const moved = late?.numbers ?? []
    return this.#compare(idleUs + sumOf(moved), idlePart + sumOf(moved, 1), mark.ref, mark.refPart) !== 0
  }

  #compare(us: number, part: number, otherUs: number, otherPart: number): number {
    const parts = part - otherPart
    const carry = Math.floor(parts / this.#down)
    return us - otherUs + carry || parts - carry * this.#down
  }

  share(nodes: number, nth?: number): Policy {
    return new Gcra(this.algorithm, this.#down, this.#up * nodes, part(this.limit, nodes, nth))
  }

  twin(): readonly (string | number)[] {
    return [this.algorithm === 'leaky-bucket' ? 'leaky' : 'gcra', this.#up, this.#down, this.limit]
  }

  windowUs(): number {
    return this.#toleranceUs + (this.#tolerancePart > 0 ? 1 : 0)
  }

  look(state: Float64Array, at: number, nowUs: number, view: View): void {
    const debtUs = (state[at] as number) - nowUs
    const leftUs = this.#toleranceUs - debtUs
    if (this.#down > 1 || debtUs <= 0 || leftUs < 0) {
      this.#partsLook(state, at, nowUs, view)
      return
    }
    const units = Math.floor(leftUs / this.#up)
    view.remaining = units
    view.resetUs = debtUs
    view.growUs = (units + 1) * this.#up - leftUs
  }

  #partsLook(state: Float64Array, at: number, nowUs: number, view: View): void {
    const debtUs = (state[at] as number) - nowUs
    if (debtUs < 0 || this.limit === 0) {
      view.remaining = this.limit
      view.resetUs = 0
      view.growUs = this.limit === 0 ? Infinity : 0
      return
    }
    const part = this.#partOf(state, at)
    const spare = this.#tolerancePart - part
    const leftUs = this.#toleranceUs - debtUs - (spare < 0 ? 1 : 0)
    view.remaining = leftUs < 0 ? 0 : Math.floor(this.#units(leftUs, spare < 0 ? spare + this.#down : spare))
    view.resetUs = debtUs + (part > 0 ? 1 : 0)
    view.growUs = view.remaining < this.limit ? this.waitUs(state, at, nowUs, view.remaining + 1) : 0
  }

  /** (us * down + part) / up, whole where it is whole. The product may be wide, so the whole multiples of `up` in `down` are
   *  split off first. */
  #units(us: number, part: number): number {
    const whole = Math.floor(this.#down / this.#up)
    const units = us * whole + mulDiv(this.#down - whole * this.#up, us, this.#up)
    const over = Math.floor((rest + part) / this.#up)
    return units + over + (rest + part > over * this.#up ? 0.5 : 0)
  }

  used(state: Float64Array, at: number, nowUs: number): number {
    const debtUs = (state[at] as number) - nowUs
    return debtUs < 0 ? 0 : Math.ceil(this.#units(debtUs, this.#partOf(state, at)))
  }

  get unitUs(): number {
    return this.#unitUs
  }

  backUs(state: Float64Array, at: number, nowUs: number, unitUs: number): number {
    const owedUs = this.#spanUs(this.used(state, at, nowUs)) - (this.#partOf(state, at) > 0 ? 1 : 0)
    const us = owedUs - (state[at] as number) + nowUs
    return us > 0 ? mulDiv(us, unitUs, this.#unitUs + 1) : 0
  }

  moveUp(state: Float64Array, at: number, us: number): void {
    state[at] = (state[at] as number) - us
  }

  idleAtUs(state: Float64Array, at: number): number {
    return (state[at] as number) + this.words - 1
  }
}

/** [us, part] given back, [us, part] of the place in line. */
const WIDTH = 4
const MOST_MOVED = 32

/** All that was given back out of turn, whole us or parts. */
function sumOf(moved: readonly number[], offset = 0): number {
  let sum = 0
  for (let i = offset; i < moved.length; i += WIDTH) sum += moved[i] as number
  return sum
}

/**
 * Counts two neighbours as one, at the place of the first: for those between them that is too much moved, never too little. So
 * it is done where the fewest notice: by how much it is too much, times how much of the line between them is yet to be worked off.
 */
function joinTwo(moved: number[], nowUs: number): void {
  let [first, least, movedUs] = [0, Infinity, 0]
  for (let i = 0; i + WIDTH < moved.length; i += WIDTH) {
    movedUs += moved[i] as number
    const fromUs = Math.max(moved[i + 2] as number, nowUs + movedUs)
    const harm = (moved[i + WIDTH] as number) * Math.max(0, (moved[i + WIDTH + 2] as number) - fromUs)
    if (harm <= least) [first, least] = [i, harm]
  }
  moved[first] = (moved[first] as number) + (moved[first + WIDTH] as number)
  moved[first + 1] = (moved[first + 1] as number) + (moved[first + WIDTH + 1] as number)
  moved.splice(first + WIDTH, WIDTH)
}
