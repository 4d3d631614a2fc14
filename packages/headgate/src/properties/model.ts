/**
 * What each algorithm promises, in the simplest words: every booking is remembered, every sum is made anew, whole numbers of
 * any size are exact. Slow and hard to get wrong; the engine is held against it.
 *
 * Time is in microseconds. A booking of cost 0 is none.
 */
export interface Booking {
  /** Where it counts from: an instant, or the number of its window or slice. */
  place: bigint
  units: bigint
}

/** Past this a search for an instant gives up. */
const SEARCH_US = 1n << 80n

export abstract class Model {
  readonly limit: bigint

  constructor(limit: bigint) {
    this.limit = limit
  }

  /** Whether what counts at that instant leaves room for the cost. */
  abstract fits(now: bigint, cost: bigint): boolean
  /** Books, whether it fits or not. */
  abstract book(now: bigint, cost: bigint): Booking
  /** Takes units of a booking back, as far as they still count. */
  abstract giveBack(now: bigint, booking: Booking, units: bigint): void

  admits(now: bigint, cost: bigint): boolean {
    return cost === 0n || this.fits(now, cost)
  }

  take(now: bigint, cost: bigint): Booking | undefined {
    return this.admits(now, cost) ? this.book(now, cost) : undefined
  }

  /** The most units that fit now. A smaller cost always fits where a larger one does, so halving finds the edge. */
  remaining(now: bigint): bigint {
    return lastTrue(0n, this.limit, (cost) => this.admits(now, cost))
  }

  /** The first instant from now on at which the cost fits if nobody else comes, or undefined if it never does. Room only grows
   *  while nobody books, so doubling finds an instant that is late enough and halving the edge before it. */
  firstFit(now: bigint, cost: bigint): bigint | undefined {
    if (this.admits(now, cost)) return now
    if (cost > this.limit) return undefined
    let late = 1n
    while (!this.admits(now + late, cost)) {
      late *= 2n
      if (late > SEARCH_US) throw new Error(`no instant found for ${cost} of ${this.limit}`)
    }
    return lastTrue(now, now + late, (at) => !this.admits(at, cost)) + 1n
  }

  /** From when on all is as if nothing had been taken: all of the limit fits. */
  fullAt(now: bigint): bigint {
    return this.firstFit(now, this.limit) ?? now
  }
}

/** The last of `from..to` for which `test` holds, given that it holds for `from` and, once false, stays false. */
function lastTrue(from: bigint, to: bigint, test: (value: bigint) => boolean): bigint {
  let [low, high] = [from, to]
  while (low < high) {
    const middle = (low + high + 1n) / 2n
    if (test(middle)) low = middle
    else high = middle - 1n
  }
  return low
}

/**
 * Bucket and meter alike. Debts are worked off one after the other, so each booking is a stretch of time: it starts when the one
 * before it ends, or at once, and takes `units * window / count`. To stay whole, one microsecond is `count` ticks long.
 */
export class Bucket extends Model {
  readonly #count: bigint
  readonly #windowUs: bigint
  #stretches: (Booking & { end: bigint })[] = []

  constructor(count: bigint, windowUs: bigint, burst = count) {
    super(burst)
    this.#count = count
    this.#windowUs = windowUs
  }

  fits(now: bigint, cost: bigint): boolean {
    if (this.limit === 0n) return false
    return this.#debt(now) + cost * this.#windowUs <= this.limit * this.#windowUs
  }

  book(now: bigint, units: bigint): Booking {
    const place = max(this.#end(), now * this.#count)
    const stretch = { place, units, end: place + units * this.#windowUs }
    if (units > 0n) this.#stretches.push(stretch)
    return stretch
  }

  giveBack(now: bigint, booking: Booking, units: bigint): void {
    const stretch = this.#stretches.find((each) => each === booking)
    if (stretch === undefined || this.keeps(now, stretch)) return
    const ahead = max(0n, stretch.end - max(stretch.place, now * this.#count))
    const given = min(ahead, units * this.#windowUs)
    // What follows moves up; behind a pause nothing waits for this booking.
    let gapless = stretch.end
    for (const later of this.#stretches.slice(this.#stretches.indexOf(stretch) + 1)) {
      if (later.place !== gapless) break
      gapless = later.end
      later.place -= given
      later.end -= given
    }
    stretch.end -= given
    this.#stretches = this.#stretches.filter(({ place, end }) => place < end)
  }

  /** Whether a booking cannot be given back now. */
  protected keeps(_now: bigint, _booking: Booking): boolean {
    return false
  }

  /** Whether there is more in it than it holds. */
  protected isOverfull(now: bigint): boolean {
    return this.#debt(now) > this.limit * this.#windowUs
  }

  protected isLast(booking: Booking): boolean {
    return this.#stretches.at(-1) === booking
  }

  #end(): bigint {
    return this.#stretches.at(-1)?.end ?? 0n
  }

  #debt(now: bigint): bigint {
    return max(0n, this.#end() - now * this.#count)
  }
}

/** A bucket with more in it than it holds has departures booked ahead, which do not move up: only the last is taken back. */
export class Leaky extends Bucket {
  protected override keeps(now: bigint, booking: Booking): boolean {
    return this.isOverfull(now) && !this.isLast(booking)
  }
}

/** Bookings that lie in places: windows, slices or instants. A clock that steps back does not leave the place it had got to. */
abstract class Places extends Model {
  protected bookings: Booking[] = []

  /** The place of an instant. */
  protected abstract place(now: bigint): bigint
  /** Units that count, seen from a place. */
  protected abstract used(place: bigint, now: bigint): bigint

  fits(now: bigint, cost: bigint): boolean {
    return this.used(this.#here(now), now) + cost <= this.limit
  }

  book(now: bigint, units: bigint): Booking {
    const booking = { place: this.#here(now), units }
    if (units > 0n) this.bookings.push(booking)
    return booking
  }

  giveBack(_now: bigint, booking: Booking, units: bigint): void {
    booking.units -= units
    if (booking.units === 0n) this.bookings = this.bookings.filter((each) => each !== booking)
  }

  protected sum(counts: (place: bigint) => boolean): bigint {
    return this.bookings.reduce((sum, { place, units }) => (counts(place) ? sum + units : sum), 0n)
  }

  #here(now: bigint): bigint {
    return this.bookings.reduce((latest, { place }) => max(latest, place), this.place(now))
  }
}

/** Counts per window; `startOf` tells in which window an instant lies, by its start. */
export class Windows extends Places {
  readonly #startOf: (now: bigint) => bigint

  constructor(limit: bigint, startOf: (now: bigint) => bigint) {
    super(limit)
    this.#startOf = startOf
  }

  protected place(now: bigint): bigint {
    return this.#startOf(now)
  }

  protected used(start: bigint): bigint {
    return this.sum((place) => place === start)
  }
}

export const epochWindows = (windowUs: bigint, offset = 0n) => {
  return (now: bigint) => ((now + offset) / windowUs) * windowUs - offset
}

/** The first booking opens a window; one after its end opens the next. */
export class FirstHitWindows extends Places {
  readonly #windowUs: bigint

  constructor(limit: bigint, windowUs: bigint) {
    super(limit)
    this.#windowUs = windowUs
  }

  protected place(now: bigint): bigint {
    const open = this.bookings.at(-1)
    return open !== undefined && now < open.place + this.#windowUs ? open.place : now
  }

  protected used(start: bigint): bigint {
    return this.sum((place) => place === start)
  }
}

/** The window before counts by the share of it that a window ending now still covers, rounded up. */
export class SlidingWindows extends Places {
  readonly #windowUs: bigint
  readonly #offset: bigint

  constructor(limit: bigint, windowUs: bigint, offset = 0n) {
    super(limit)
    this.#windowUs = windowUs
    this.#offset = offset
  }

  protected place(now: bigint): bigint {
    return (now + this.#offset) / this.#windowUs
  }

  protected used(index: bigint, now: bigint): bigint {
    const elapsed = max(0n, now + this.#offset - index * this.#windowUs)
    const before = this.sum((place) => place === index - 1n) * (this.#windowUs - elapsed)
    return this.sum((place) => place === index) + ceilDiv(before, this.#windowUs)
  }
}

/** Every booking counts for exactly one window from its instant on. */
export class Log extends Places {
  readonly #windowUs: bigint

  constructor(limit: bigint, windowUs: bigint) {
    super(limit)
    this.#windowUs = windowUs
  }

  protected place(now: bigint): bigint {
    return now
  }

  protected used(instant: bigint): bigint {
    return this.sum((place) => place + this.#windowUs > instant)
  }
}

/** Ten slices to a window; a slice that is partly out of it still counts in full. */
export class StrictSlices extends Places {
  readonly #sliceUs: bigint

  constructor(limit: bigint, windowUs: bigint) {
    super(limit)
    this.#sliceUs = windowUs / 10n
  }

  protected place(now: bigint): bigint {
    return now / this.#sliceUs
  }

  protected used(slice: bigint): bigint {
    return this.sum((place) => place >= slice - 10n)
  }
}

export const max = (a: bigint, b: bigint): bigint => (a > b ? a : b)
export const min = (a: bigint, b: bigint): bigint => (a < b ? a : b)
export const ceilDiv = (a: bigint, b: bigint): bigint => (a + b - 1n) / b
