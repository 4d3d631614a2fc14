import type { Policy } from '../algorithms/algorithm.ts'
import { hash, hashed, high, low } from './hash.ts'

/** What a table needs to know of the store around it: how much memory there is for all its tables together. */
export interface Budget {
  /** Takes `bytes` (below 0: gives them back) and says whether they were there. */
  reserve(bytes: number, table: Table, nowUs: number): boolean
  /** Takes them whether they are there or not: for the least that a table can do with. */
  take(bytes: number): void
}

/** States of keys, all of one shape. `find` and `add` set `state` and return where in it the key's numbers start. */
export interface Table {
  policy: Policy
  readonly bytes: number
  readonly keys: number
  state: Float64Array
  /** -1 if the key has no state. With `again` the key is likely to be the one that any table was asked for last. */
  find(key: string, again?: boolean): number
  /** Makes a state of zeros for a key that has none, or room for one more booking in the state that it has. */
  add(key: string, nowUs: number): number
  delete(key: string): void
  /** Gives memory back to the budget, at the price of forgetting keys. */
  shrink(nowUs: number): void
}

const SMALLEST = 8
const LARGEST = 4096
/** Sizes go up by half, then by a third, so that at least half of the memory is in use. */
const HALF_SPLIT = (LARGEST / 4) * 3
const FULL = 0.8
/** How often a key that came again is not looked for, after one that did not. */
const SKIPS = 15
/** Puts a key that is being refused before all that are not. */
const REFUSED = 2 ** 60
/** How many keys a search for a victim looks at, once it has found one that may go. */
const LOOKED_AT = 16

/** A piece of a packed table: slots of `1 + words` numbers, of which the first is the hash of the key, 0 where free. */
class Segment {
  readonly numbers: Float64Array
  readonly tags: Int32Array
  readonly slots: number
  /** How many bits of a hash lead here. */
  readonly depth: number
  keys = 0
  hand = 0
  /** Before that no key that was here at the last look is idle; how many have come since. */
  noneIdleBeforeUs = 0
  added = 0
  /** Until then all keys here are known to be refused, but perhaps for the newest. */
  allDeniedUntilUs = 0
  newestLow = 0
  newestHigh = 0

  constructor(slots: number, depth: number, stride: number) {
    this.numbers = new Float64Array(slots * stride)
    this.tags = new Int32Array(this.numbers.buffer)
    this.slots = slots
    this.depth = depth
  }
}

/**
 * States of a fixed size, side by side in typed arrays: a decision touches one cache line and makes no garbage. Open
 * addressing with linear probing inside segments of at most 4,096 slots; a directory, indexed by the high half of the hash,
 * leads to them, and a full segment is split in two (extendible hashing). So growing never stops the world for longer than
 * one segment takes, some 100 us, and memory follows the number of keys.
 *
 * Keys are known by their 64-bit hash alone: see hash.ts for why no two callers share a counter.
 *
 * When the budget is spent, a newcomer takes the place of a key in its segment that is not being refused, the one soonest idle
 * of a few; only when every key of the segment is being refused, the one soonest free.
 */
export class PackedTable implements Table {
  policy: Policy
  state: Float64Array
  bytes = 0
  keys = 0
  readonly #budget: Budget
  readonly #stride: number
  #directory: Segment[]
  #depth = 0
  #segment: Segment
  // The key asked for last: many limits are global or see runs of one caller. Where it hardly ever comes again, comparing is
  // not worth it and is done once in a while only.
  #lastKey = ''
  #skips = 0
  #lastAt = -1
  #lastSegment: Segment

  constructor(policy: Policy, budget: Budget) {
    this.policy = policy
    this.#budget = budget
    this.#stride = policy.words + 1
    this.#segment = this.#lastSegment = new Segment(SMALLEST, 0, this.#stride)
    this.#directory = [this.#segment]
    this.state = this.#segment.numbers
    this.bytes = this.#segment.numbers.byteLength
    budget.take(this.bytes)
  }

  find(key: string, again = false): number {
    if (this.#skips > 0) this.#skips--
    else if (key === this.#lastKey) {
      this.#segment = this.#lastSegment
      this.state = this.#segment.numbers
      return this.#lastAt
    } else this.#skips = SKIPS
    if (!again || key !== hashed) hash(key)
    const at = this.#probe()
    if (at >= 0 && this.#skips === 0) {
      this.#lastKey = key
      this.#lastAt = at
      this.#lastSegment = this.#segment
    }
    return at
  }

  /** Looks for the key hashed last; leaves its segment in `#segment`. */
  #probe(): number {
    const segment = this.#directory[high & (this.#directory.length - 1)] as Segment
    const { tags, slots } = segment
    const stride = this.#stride
    this.#segment = segment
    this.state = segment.numbers
    for (let slot = homeOf(low, slots); ; slot = slot + 1 === slots ? 0 : slot + 1) {
      const tag = slot * stride * 2
      if (tags[tag] === low && tags[tag + 1] === high) return slot * stride + 1
      if (tags[tag] === 0) return -1
    }
  }

  add(key: string, nowUs: number): number {
    const found = this.find(key)
    if (found >= 0) return found
    while (this.#segment.keys >= Math.floor(this.#segment.slots * FULL)) {
      this.#makeRoom(this.#segment, nowUs)
      this.#probe()
    }
    const segment = this.#segment
    const slot = freeSlot(segment, this.#stride, low)
    segment.tags[slot * this.#stride * 2] = segment.newestLow = low
    segment.tags[slot * this.#stride * 2 + 1] = segment.newestHigh = high
    segment.keys++
    segment.added++
    this.keys++
    return slot * this.#stride + 1
  }

  delete(key: string): void {
    const at = this.find(key)
    if (at >= 0) this.#remove(this.#segment, (at - 1) / this.#stride)
  }

  /** Removes a slot and moves later ones of its run up, so that no tombstones are needed. */
  #remove(segment: Segment, slot: number): void {
    const { tags, numbers, slots } = segment
    const stride = this.#stride
    const after = (each: number) => (each + 1 === slots ? 0 : each + 1)
    const distance = (from: number, to: number) => (to >= from ? to - from : to - from + slots)
    let hole = slot
    for (let next = after(slot); tags[next * stride * 2] !== 0; next = after(next)) {
      const home = homeOf(tags[next * stride * 2] as number, slots)
      if (distance(home, next) < distance(hole, next)) continue
      numbers.copyWithin(hole * stride, next * stride, (next + 1) * stride)
      hole = next
    }
    numbers.fill(0, hole * stride, (hole + 1) * stride)
    segment.keys--
    this.keys--
    this.#lastKey = ''
  }

  #makeRoom(segment: Segment, nowUs: number): void {
    this.#lastKey = ''
    if (this.#dropIdle(segment, nowUs) > segment.slots / 8) return
    const { slots } = segment
    const grown = slots === LARGEST ? 2 * HALF_SPLIT : slots === HALF_SPLIT ? LARGEST : Math.min(2 * slots, HALF_SPLIT)
    const bytes = (grown - slots) * this.#stride * 8
    if (!this.#budget.reserve(bytes, this, nowUs)) {
      this.#evict(segment, nowUs)
      return
    }
    this.bytes += bytes
    if (slots === LARGEST) this.#split(segment)
    else this.#replace(segment, [this.#copy(segment, grown, segment.depth)])
  }

  #dropIdle(segment: Segment, nowUs: number): number {
    if (nowUs < segment.noneIdleBeforeUs && segment.added < segment.slots / 4) return 0
    segment.added = 0
    const before = segment.keys
    const stride = this.#stride
    let soonestUs = Infinity
    for (let slot = 0; slot < segment.slots; slot++) {
      while (segment.tags[slot * stride * 2] !== 0) {
        const idleUs = this.policy.idleAtUs(segment.numbers, slot * stride + 1)
        if (idleUs > nowUs) {
          if (idleUs < soonestUs) soonestUs = idleUs
          break
        }
        this.#remove(segment, slot)
      }
    }
    segment.noneIdleBeforeUs = soonestUs
    return before - segment.keys
  }

  #split(segment: Segment): void {
    const depth = segment.depth + 1
    if (depth > this.#depth) {
      this.#directory = [...this.#directory, ...this.#directory]
      this.#depth = depth
    }
    const bit = 1 << segment.depth
    const halves = [0, bit].map((side) => this.#copy(segment, HALF_SPLIT, depth, (tag) => (tag & bit) === side))
    this.#replace(segment, halves)
  }

  /** Puts what is in `from` into a new segment, as far as `keep` likes the high half of its hash. */
  #copy(from: Segment, slots: number, depth: number, keep = (_high: number) => true): Segment {
    const stride = this.#stride
    const next = new Segment(slots, depth, stride)
    for (let slot = 0; slot < from.slots; slot++) {
      const tag = slot * stride * 2
      if (from.tags[tag] !== 0 && keep(from.tags[tag + 1] as number)) this.#move(from, slot, next)
    }
    return next
  }

  /** Lets the directory lead to `next` (one segment, or two for each value of the bit that tells them apart). */
  #replace(old: Segment, next: readonly Segment[]): void {
    for (let i = 0; i < this.#directory.length; i++) {
      if (this.#directory[i] === old)
        this.#directory[i] = next[next.length === 1 ? 0 : (i >>> old.depth) & 1] as Segment
    }
  }

  #evict(segment: Segment, nowUs: number): void {
    const slot = nowUs < segment.allDeniedUntilUs ? this.#newest(segment, nowUs) : this.#victim(segment, nowUs)
    this.#remove(segment, slot)
  }

  #isDenied(segment: Segment, slot: number, nowUs: number): boolean {
    return this.policy.waitUs(segment.numbers, slot * this.#stride + 1, nowUs, 1) > 0
  }

  /** While all others are refused, the newest key makes room for the next, so that a flood of newcomers frees nobody. */
  #newest(segment: Segment, nowUs: number): number {
    const { slots, tags } = segment
    if (segment.newestLow === 0) return this.#victim(segment, nowUs)
    for (let slot = homeOf(segment.newestLow, slots); ; slot = slot + 1 === slots ? 0 : slot + 1) {
      const tag = slot * this.#stride * 2
      if (tags[tag] === segment.newestLow && tags[tag + 1] === segment.newestHigh) return slot
      if (tags[tag] !== 0) continue
      segment.allDeniedUntilUs = 0
      return this.#victim(segment, nowUs)
    }
  }

  #victim(segment: Segment, nowUs: number): number {
    const stride = this.#stride
    let looked = 0
    let [best, bestIdleUs] = [-1, Infinity]
    let [freed, freedUs] = [-1, Infinity]
    for (let step = 0; step < segment.slots; step++) {
      const slot = (segment.hand + step) % segment.slots
      if (segment.tags[slot * stride * 2] === 0) continue
      const at = slot * stride + 1
      if (this.#isDenied(segment, slot, nowUs)) {
        const freeUs = nowUs + this.policy.waitUs(segment.numbers, at, nowUs, 1)
        if (freed < 0 || freeUs < freedUs) [freed, freedUs] = [slot, freeUs]
      } else {
        const idleUs = this.policy.idleAtUs(segment.numbers, at)
        if (idleUs < bestIdleUs) [best, bestIdleUs] = [slot, idleUs]
      }
      if (++looked >= LOOKED_AT && best >= 0) break
    }
    segment.hand = (segment.hand + looked) % segment.slots
    if (best >= 0) return best
    segment.allDeniedUntilUs = freedUs
    return freed
  }

  /** Puts the deepest segment and its other half, or the only segment, into less room, and keeps what fits: keys being refused
   *  first, then those longest from idle. */
  shrink(nowUs: number): void {
    this.#lastKey = ''
    const deepest = this.#directory.reduce((deep, segment) => (segment.depth > deep.depth ? segment : deep))
    const index = this.#directory.indexOf(deepest)
    const other = deepest.depth === 0 ? deepest : (this.#directory[index ^ (1 << (deepest.depth - 1))] as Segment)
    const old = other === deepest ? [deepest] : [deepest, other]
    const slots = old.length === 2 ? LARGEST : Math.floor(deepest.slots / 2)
    if (slots < SMALLEST) return
    const next = new Segment(slots, Math.max(0, deepest.depth - 1), this.#stride)
    for (const { segment, slot } of this.#worthiest(old, Math.floor(slots * FULL), nowUs))
      this.#move(segment, slot, next)
    this.keys += next.keys - old.reduce((keys, segment) => keys + segment.keys, 0)
    for (const segment of old) this.#replace(segment, [next])
    const bytes = next.numbers.byteLength - old.reduce((sum, segment) => sum + segment.numbers.byteLength, 0)
    this.bytes += bytes
    this.#budget.take(bytes)
  }

  #worthiest(segments: readonly Segment[], room: number, nowUs: number): { segment: Segment; slot: number }[] {
    const all: { segment: Segment; slot: number; worth: number }[] = []
    for (const segment of segments) {
      for (let slot = 0; slot < segment.slots; slot++) {
        const at = slot * this.#stride + 1
        if (segment.tags[(at - 1) * 2] === 0) continue
        const idleUs = this.policy.idleAtUs(segment.numbers, at)
        if (idleUs > nowUs)
          all.push({ segment, slot, worth: this.#isDenied(segment, slot, nowUs) ? idleUs + REFUSED : idleUs })
      }
    }
    return all.length <= room ? all : all.sort((one, two) => two.worth - one.worth).slice(0, room)
  }

  #move(from: Segment, slot: number, to: Segment): void {
    const stride = this.#stride
    const free = freeSlot(to, stride, from.tags[slot * stride * 2] as number)
    to.numbers.set(from.numbers.subarray(slot * stride, (slot + 1) * stride), free * stride)
    to.keys++
  }
}

function freeSlot({ tags, slots }: Segment, stride: number, low: number): number {
  let slot = homeOf(low, slots)
  while (tags[slot * stride * 2] !== 0) slot = slot + 1 === slots ? 0 : slot + 1
  return slot
}

/** Scales the upper half of a hash to the slots, whose number need not be a power of two. */
function homeOf(low: number, slots: number): number {
  return ((low >>> 16) * slots) >>> 16
}

const BOX_BYTES = 160

/** States that grow, one array each, by their keys. Bounded and evicted like the packed ones. */
export class BoxedTable implements Table {
  policy: Policy
  state: Float64Array = new Float64Array(0)
  bytes = 0
  readonly #budget: Budget
  readonly #boxes = new Map<string, Float64Array>()
  #allDeniedUntilUs = 0
  #newest = ''

  constructor(policy: Policy, budget: Budget) {
    this.policy = policy
    this.#budget = budget
  }

  get keys(): number {
    return this.#boxes.size
  }

  find(key: string): number {
    const box = this.#boxes.get(key)
    if (box === undefined) return -1
    this.state = box
    return 0
  }

  add(key: string, nowUs: number): number {
    const before = this.#boxes.get(key)
    const after = this.policy.fit?.(before, nowUs) as Float64Array
    if (after !== before) {
      const bytes = before === undefined ? size(key, after) : after.byteLength - before.byteLength
      let fits = this.#budget.reserve(bytes, this, nowUs)
      while (!fits && this.#evict(key, nowUs)) fits = this.#budget.reserve(bytes, this, nowUs)
      if (!fits) this.#budget.take(bytes)
      this.bytes += bytes
      this.#boxes.set(key, after)
      if (before === undefined) this.#newest = key
    }
    this.state = after
    return 0
  }

  delete(key: string): void {
    const box = this.#boxes.get(key)
    if (box === undefined) return
    this.#boxes.delete(key)
    this.bytes -= size(key, box)
    this.#budget.take(-size(key, box))
  }

  shrink(nowUs: number): void {
    for (let n = 0; n < LOOKED_AT; n++) this.#evict('', nowUs)
  }

  /** Forgets one key, not `spare`; false if there is none. Keys that are looked at and stay go to the end of the line. */
  #evict(spare: string, nowUs: number): boolean {
    if (nowUs < this.#allDeniedUntilUs && this.#newest !== spare && this.#boxes.has(this.#newest)) {
      this.delete(this.#newest)
      return true
    }
    let [freed, freedUs] = ['', Infinity]
    let left = this.#boxes.size
    for (const [key, box] of this.#boxes) {
      if (left-- === 0) break
      this.#boxes.delete(key)
      this.#boxes.set(key, box)
      if (key === spare) continue
      const waitUs = this.policy.waitUs(box, 0, nowUs, 1)
      if (waitUs === 0) {
        this.delete(key)
        return true
      }
      if (freed === '' || nowUs + waitUs < freedUs) [freed, freedUs] = [key, nowUs + waitUs]
    }
    this.#allDeniedUntilUs = freedUs
    this.delete(freed)
    return freed !== ''
  }
}

function size(key: string, box: Float64Array): number {
  return BOX_BYTES + 2 * key.length + box.byteLength
}
