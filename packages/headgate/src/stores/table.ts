import type { Policy } from '../algorithms/algorithm.ts'
import { hash, hashed, high, low } from './hash.ts'

/** What a table needs to know of the store around it: how much memory there is for all its tables together. */
export interface Budget {
  /** Takes `bytes` (below 0: gives them back) and says whether they were there. */
  reserve(bytes: number, table: Table, nowUs: number): boolean
  /** Takes them whether they are there or not: for the least that a table can do with. */
  take(bytes: number): void
}

/** States of keys. `find`, `policyOf` and `add` set `state`, in which the key's numbers start at what `find` and `add` return. */
export interface Table {
  readonly bytes: number
  readonly keys: number
  /** Whether policies of several shapes keep their states here. */
  readonly mixed: boolean
  /** Not to be forgotten for the sake of other tables. */
  readonly lasting: boolean
  state: Float64Array
  /** -1 if the key has no state. With `again` the key is likely to be the one that any table was asked for last. */
  find(key: string, again?: boolean): number
  /** By which policy the key's state is to be read, or undefined if it has none. */
  policyOf(key: string): Policy | undefined
  /** Makes a state of zeros for a key that has none, or room for one more booking in the state that it has. */
  add(key: string, nowUs: number, policy: Policy): number
  delete(key: string): void
  /** Forgets the keys that are idle. */
  sweep(nowUs: number): void
  /** Gives memory back to the budget, at the price of forgetting keys. */
  shrink(nowUs: number): void
  /** Gives all of it back; the table is not used again. */
  drop(): void
}

/** Who stays when there is not room for all: keys that are being refused before all others, then those longest from idle. */
function worth(policy: Policy, state: Float64Array, at: number, nowUs: number): number {
  const idleUs = policy.idleAtUs(state, at)
  return policy.waitUs(state, at, nowUs, 1) > 0 ? idleUs + REFUSED : idleUs
}

const SMALLEST = 8
const LARGEST = 4096
/** Sizes go up by half, then by a third, so that at least half of the memory is in use. */
const HALF_SPLIT = (LARGEST / 4) * 3
const FULL = 0.8
/** How often a key that came again is not looked for, after one that did not. */
const SKIPS = 15
/** More than any instant, and still exact to well below a second when one is added. */
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
  /** All have the same shape. Where their limits differ, the lowest tells who is being refused when memory is short. */
  policy: Policy
  state: Float64Array
  bytes = 0
  keys = 0
  readonly mixed = false
  readonly lasting: boolean
  readonly #budget: Budget
  readonly #stride: number
  #directory: Segment[]
  #depth = 0
  #segment: Segment
  // The key asked for last: many limits are global or see runs of one caller. Where it hardly ever comes again, comparing is
  // not worth it and is done once in a while only.
  #lastKey: string | undefined
  #skips = 0
  #lastAt = -1
  #lastSegment: Segment

  constructor(policy: Policy, budget: Budget, lasting = false) {
    this.policy = policy
    this.lasting = lasting
    this.#budget = budget
    this.#stride = policy.words + 1
    this.#segment = this.#lastSegment = new Segment(SMALLEST, 0, this.#stride)
    this.#directory = [this.#segment]
    this.state = this.#segment.numbers
    this.bytes = TABLE_BYTES + this.#segment.numbers.byteLength
    budget.take(this.bytes)
  }

  drop(): void {
    this.#budget.take(-this.bytes)
  }

  find(key: string, again = false): number {
    if (this.#skips > 0 || key !== this.#lastKey) return this.#search(key, again)
    this.#segment = this.#lastSegment
    this.state = this.#segment.numbers
    return this.#lastAt
  }

  #search(key: string, again: boolean): number {
    this.#skips = this.#skips > 0 ? this.#skips - 1 : SKIPS
    if (!again || key !== hashed) hash(key)
    const at = this.#probe()
    if (at >= 0 && this.#skips === 0) {
      this.#lastKey = key
      this.#lastAt = at
      this.#lastSegment = this.#segment
    }
    return at
  }

  policyOf(key: string): Policy | undefined {
    return this.find(key) < 0 ? undefined : this.policy
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
    const found = this.find(key, true)
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
    this.#lastKey = undefined
  }

  #makeRoom(segment: Segment, nowUs: number): void {
    this.#lastKey = undefined
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

  sweep(nowUs: number): void {
    for (const segment of new Set(this.#directory)) {
      segment.noneIdleBeforeUs = 0
      this.#dropIdle(segment, nowUs)
    }
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
    const flooded = nowUs < segment.allDeniedUntilUs && !this.lasting
    this.#remove(segment, flooded ? this.#newest(segment, nowUs) : this.#victim(segment, nowUs))
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
    let [victim, least, freeUs] = [-1, Infinity, Infinity]
    for (let step = 0; step < segment.slots; step++) {
      const slot = (segment.hand + step) % segment.slots
      if (segment.tags[slot * stride * 2] === 0) continue
      const at = slot * stride + 1
      const value = worth(this.policy, segment.numbers, at, nowUs)
      if (value >= REFUSED) freeUs = Math.min(freeUs, nowUs + this.policy.waitUs(segment.numbers, at, nowUs, 1))
      if (value < least) [victim, least] = [slot, value]
      if (++looked >= LOOKED_AT && least < REFUSED) break
    }
    segment.hand = (segment.hand + looked) % segment.slots
    if (least >= REFUSED) segment.allDeniedUntilUs = freeUs
    return victim
  }

  /** Puts the deepest segment and its other half, or the only segment, into less room, and keeps what fits: keys being refused
   *  first, then those longest from idle. */
  shrink(nowUs: number): void {
    this.#lastKey = undefined
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
    const all: { segment: Segment; slot: number; value: number }[] = []
    for (const segment of segments) {
      for (let slot = 0; slot < segment.slots; slot++) {
        const at = slot * this.#stride + 1
        if (segment.tags[(at - 1) * 2] === 0) continue
        const value = worth(this.policy, segment.numbers, at, nowUs)
        if (value > nowUs) all.push({ segment, slot, value })
      }
    }
    return all.length <= room ? all : all.sort((one, two) => two.value - one.value).slice(0, room)
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

/** What a table takes beside its numbers. */
const TABLE_BYTES = 400
const BOX_BYTES = 200

interface Box {
  readonly policy: Policy
  readonly state: Float64Array
}

/** States of any size, one array each, by their keys: for those that grow, and for those of shapes that few keys have. Bounded and
 *  evicted like the packed ones. */
export class BoxedTable implements Table {
  state: Float64Array = new Float64Array(0)
  bytes = TABLE_BYTES
  readonly mixed: boolean
  readonly lasting = false
  readonly #budget: Budget
  readonly #boxes = new Map<string, Box>()
  #allDeniedUntilUs = 0
  #newest: string | undefined

  constructor(budget: Budget, mixed: boolean) {
    this.mixed = mixed
    this.#budget = budget
    budget.take(this.bytes)
  }

  drop(): void {
    this.#budget.take(-this.bytes)
  }

  get keys(): number {
    return this.#boxes.size
  }

  find(key: string): number {
    return this.policyOf(key) === undefined ? -1 : 0
  }

  policyOf(key: string): Policy | undefined {
    const box = this.#boxes.get(key)
    if (box === undefined) return undefined
    this.state = box.state
    return box.policy
  }

  add(key: string, nowUs: number, policy: Policy): number {
    const box = this.#boxes.get(key)
    const known = box?.policy.shape === policy.shape ? box.state : undefined
    if (known === undefined) this.delete(key)
    const state = policy.fit?.(known, nowUs) ?? known ?? new Float64Array(policy.words)
    if (state !== known) {
      this.#reserve(known === undefined ? size(key, state) : state.byteLength - known.byteLength, key, nowUs)
      if (known === undefined) {
        this.#dropIdle(nowUs)
        this.#newest = key
      }
    }
    if (state !== known || policy !== box?.policy) this.#boxes.set(key, { policy, state })
    this.state = state
    return 0
  }

  /** Each newcomer looks at the two that were not looked at for longest, whether they may go. */
  #dropIdle(nowUs: number): void {
    let looked = 0
    for (const [key, box] of this.#boxes) {
      if (looked++ === 2) break
      if (box.policy.idleAtUs(box.state, 0) <= nowUs) this.delete(key)
      else this.#toEnd(key, box)
    }
  }

  #toEnd(key: string, box: Box): void {
    this.#boxes.delete(key)
    this.#boxes.set(key, box)
  }

  #reserve(bytes: number, key: string, nowUs: number): void {
    let fits = this.#budget.reserve(bytes, this, nowUs)
    while (!fits && this.#evict(key, nowUs)) fits = this.#budget.reserve(bytes, this, nowUs)
    if (!fits) this.#budget.take(bytes)
    this.bytes += bytes
  }

  delete(key: string): void {
    const box = this.#boxes.get(key)
    if (box === undefined) return
    this.#boxes.delete(key)
    this.bytes -= size(key, box.state)
    this.#budget.take(-size(key, box.state))
  }

  sweep(nowUs: number): void {
    for (const [key, { policy, state }] of this.#boxes) if (policy.idleAtUs(state, 0) <= nowUs) this.delete(key)
  }

  shrink(nowUs: number): void {
    for (let n = 0; n < LOOKED_AT; n++) this.#evict(undefined, nowUs)
  }

  /** Forgets one key, not `spare`; false if there is none. Keys that are looked at and stay go to the end of the line. */
  #evict(spare: string | undefined, nowUs: number): boolean {
    const newest = this.#newest
    if (nowUs < this.#allDeniedUntilUs && newest !== undefined && newest !== spare && this.#boxes.has(newest)) {
      this.delete(newest)
      return true
    }
    let victim: string | undefined
    let [least, freeUs, looked] = [Infinity, Infinity, 0]
    let left = this.#boxes.size
    for (const [key, box] of this.#boxes) {
      if (left-- === 0 || (looked >= LOOKED_AT && least < REFUSED)) break
      this.#toEnd(key, box)
      if (key === spare) continue
      looked++
      const value = worth(box.policy, box.state, 0, nowUs)
      if (value >= REFUSED) freeUs = Math.min(freeUs, nowUs + box.policy.waitUs(box.state, 0, nowUs, 1))
      if (value < least) [victim, least] = [key, value]
    }
    if (least >= REFUSED) this.#allDeniedUntilUs = freeUs
    if (victim !== undefined) this.delete(victim)
    return victim !== undefined
  }
}

function size(key: string, state: Float64Array): number {
  return BOX_BYTES + 2 * key.length + state.byteLength
}
