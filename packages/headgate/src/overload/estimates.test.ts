import { aimd, type ConcurrencyLimit, fixed, gradient2, type Outcome, vegas } from 'headgate/overload'
import { describe, expect, test } from 'vitest'

/** Feeds an estimate with work of one length that comes as fast as the limit lets it. */
class Feed {
  nowUs = 1_000_000
  isBusy = false
  isFree = false
  readonly limit: ConcurrencyLimit

  constructor(limit: ConcurrencyLimit) {
    this.limit = limit
  }

  /** So many pieces of work, each done `rttUs` after it came; as many at once as fit, or so many. */
  work(
    count: number,
    rttUs: number,
    { inFlight, outcome = 'success' }: { inFlight?: number; outcome?: Outcome } = {},
  ): this {
    for (let i = 0; i < count; i++) {
      const atOnce = inFlight ?? this.limit.value
      this.nowUs += Math.ceil(rttUs / atOnce)
      this.limit.learn({ nowUs: this.nowUs, rttUs, inFlight: atOnce, outcome, isFree: this.isFree })
    }
    return this
  }

  /** As much as fits, at a service with so many servers that takes as long for everything, first come first served. */
  serve(count: number, servers: number, meanUs: number): this {
    const freeAtUs = new Array<number>(servers).fill(this.nowUs)
    const atWork: { sinceUs: number; untilUs: number; inFlight: number }[] = []
    for (let i = 0; i < count; i++) {
      while (atWork.length < this.limit.value) {
        const sinceUs = this.nowUs
        const untilUs = Math.max(sinceUs, freeAtUs.shift() as number) + meanUs
        freeAtUs.push(untilUs)
        atWork.push({ sinceUs, untilUs, inFlight: atWork.length + 1 })
      }
      const { sinceUs, untilUs, inFlight } = atWork.shift() as (typeof atWork)[number]
      this.nowUs = untilUs
      this.limit.learn({ nowUs: untilUs, rttUs: untilUs - sinceUs, inFlight, outcome: 'success' })
    }
    return this
  }

  /** As much as fits, or so many, at a service where everybody waits for something else and then for one server. */
  pipe(count: number, waitUs: number, serverUs: number, atMost = Infinity): this {
    let freeAtUs = 0
    const atWork: { sinceUs: number; untilUs: number; inFlight: number }[] = []
    for (let i = 0; i < count; i++) {
      while (atWork.length < Math.min(atMost, this.limit.value)) {
        const sinceUs = this.nowUs
        freeAtUs = Math.max(sinceUs + waitUs, freeAtUs) + serverUs
        atWork.push({ sinceUs, untilUs: freeAtUs, inFlight: atWork.length + 1 })
      }
      const { sinceUs, untilUs, inFlight } = atWork.shift() as (typeof atWork)[number]
      this.nowUs = untilUs
      const { isBusy } = this
      this.limit.learn({ nowUs: untilUs, rttUs: untilUs - sinceUs, inFlight, outcome: 'success', isBusy })
    }
    return this
  }
}

const measured = { gradient2, vegas }
const adaptive = { ...measured, aimd }

test('a fixed limit stays, whatever happens, and moves only when it is tuned', () => {
  const limit = fixed(7)
  new Feed(limit).work(100, 1e6, { outcome: 'drop' })
  expect(limit.value).toBe(7)
  limit.bound?.({ max: 5 })
  expect(limit.value).toBe(5)
  limit.bound?.({ max: 50 })
  expect(limit.value).toBe(7)
})

describe.each(Object.entries(adaptive))('%s', (_, make) => {
  test('starts at 20 and stays within 4 and 1000 unless told otherwise', () => {
    expect(make().value).toBe(20)
    const feed = new Feed(make())
    for (let i = 0; i < 500; i++) {
      feed.nowUs += 200_000
      feed.work(1, 100_000, { outcome: 'drop' })
    }
    expect(feed.limit.value).toBe(4)
    expect(new Feed(make({ max: 30 })).work(50_000, 10_000).limit.value).toBe(30)
  })

  test('what is ignored never moves it', () => {
    const feed = new Feed(make()).work(5_000, 60_000_000, { outcome: 'ignore' })
    expect(feed.limit.value).toBe(20)
  })

  test('does not grow while half of it is not used', () => {
    expect(new Feed(make()).work(50_000, 10_000, { inFlight: 9 }).limit.value).toBe(20)
  })

  test('falls once for all that was dropped together', () => {
    const feed = new Feed(make({ initial: 100 }))
    feed.nowUs = 10_000_000
    // A hundred pieces of work, admitted at once, fail within a millisecond.
    for (let i = 0; i < 100; i++)
      feed.limit.learn({ nowUs: 10_000_000 + i * 10, rttUs: 50_000, inFlight: 100, outcome: 'drop' })
    expect(feed.limit.value).toBeGreaterThanOrEqual(89)
    expect(feed.limit.value).toBeLessThan(100)
  })

  test('can be bounded while it runs; where one bound is given, the other gives way', () => {
    const limit = make()
    limit.bound?.({ max: 2 })
    expect(limit.value).toBe(2)
    limit.bound?.({ min: 50 })
    expect(limit.value).toBe(50)
  })
})

describe.each(Object.entries(measured))('%s', (_, make) => {
  test.each([8, 16, 64, 300])('finds a service with %i servers and keeps them busy with a short queue', (servers) => {
    const feed = new Feed(make()).serve(150_000, servers, 20_000)
    expect(feed.limit.full).toBeGreaterThanOrEqual(servers)
    expect(feed.limit.full).toBeLessThanOrEqual(1.6 * servers + 10)
  })

  test.each([0.5, 2, 4])('finds its place again after work has come to take %d times as long', (times) => {
    const feed = new Feed(make()).serve(40_000, 32, 20_000)
    feed.serve(200_000, 32, 20_000 * times)
    expect(feed.limit.full).toBeGreaterThanOrEqual(32)
    expect(feed.limit.full).toBeLessThanOrEqual(1.6 * 32 + 10)
    expect((feed.limit.rttMinUs as number) / (20_000 * times)).toBeCloseTo(1, 0.5)
  })

  test('one pause of the process takes no more than a fifth of it', () => {
    const feed = new Feed(make()).serve(40_000, 32, 20_000)
    const before = feed.limit.full as number
    // All that is at work ends 300 ms late, and the next are as quick as ever.
    feed.work(before, 320_000).serve(200, 32, 20_000)
    expect(feed.limit.full).toBeGreaterThan(0.8 * before)
  })

  test('answers out of a cache do not count', () => {
    const feed = new Feed(make()).serve(40_000, 32, 20_000)
    const before = feed.limit.full
    feed.work(10_000, 50, { inFlight: 40 })
    expect(feed.limit.full).toBe(before)
  })

  test('says what work takes, and what it takes alone', () => {
    expect(make()).toMatchObject({ rttMinUs: 0, rttUs: 0 })
    const { limit } = new Feed(make()).serve(200_000, 16, 20_000)
    expect((limit.rttMinUs as number) / 20_000).toBeCloseTo(1, 0.5)
    expect(limit.rttUs).toBeGreaterThan(limit.rttMinUs as number)
  })

  test('works with a clock that was set back', () => {
    const feed = new Feed(make()).serve(20_000, 32, 20_000)
    feed.nowUs = 1_000_000
    feed.serve(150_000, 32, 20_000)
    expect(feed.limit.full).toBeGreaterThanOrEqual(32)
    expect(feed.limit.full).toBeLessThanOrEqual(1.6 * 32 + 10)
  })
})

describe('aimd', () => {
  test('doubles until the first drop, then adds one for every round', () => {
    const feed = new Feed(aimd()).work(20, 10_000)
    expect(feed.limit.value).toBe(40)
    feed.nowUs += 1_000_000
    feed.work(1, 10_000, { outcome: 'drop' })
    expect(feed.limit.value).toBe(36)
    feed.work(37, 10_000)
    expect(feed.limit.value).toBe(37)
  })

  test('what takes longer than its time counts as dropped', () => {
    const feed = new Feed(aimd({ timeoutMs: 100, initial: 50 }))
    feed.work(1, 100_001)
    expect(feed.limit.value).toBe(45)
  })
})

test('gradient2 of a service that does its work in bunches follows what is at work in the mean', () => {
  const limit = gradient2()
  // Alone a piece of work takes 10 ms.
  const feed = new Feed(limit).work(200, 10_000, { inFlight: 2 })
  // Then as many as fit come at once, take turns at the processor, and for as long again nobody is at work.
  for (let bunch = 0; bunch < 200; bunch++) {
    const [atUs, size] = [feed.nowUs, limit.value]
    for (let i = 1; i <= size; i++)
      limit.learn({ nowUs: atUs + 10_000 + 2_000 * i, rttUs: 10_000 + 2_000 * i, inFlight: size, outcome: 'success' })
    feed.nowUs = atUs + 20_000 + 4_000 * size
  }
  expect(limit.value).toBeLessThan(8)
})

test('gradient2 leaves less waiting for a process that has no time left than for a service of which that is not known', () => {
  // Who waits for 10 ms and then for a processor that takes 1.5 needs eight at once.
  const feed = new Feed(gradient2()).pipe(20_000, 10_000, 1_500)
  expect(feed.limit.value).toBeGreaterThanOrEqual(13)
  feed.isBusy = true
  feed.pipe(20_000, 10_000, 1_500)
  expect(feed.limit.value).toBeGreaterThanOrEqual(8)
  expect(feed.limit.value).toBeLessThanOrEqual(10)
})

describe.each(Object.entries(measured))('%s', (_, make) => {
  const aloneUs = ({ limit }: Feed) => limit.rttMinUs as number

  test('remembers what work takes alone, though of half the limit some have to wait as well', () => {
    const feed = new Feed(make()).pipe(5_000, 4_000, 2_000, 2)
    expect(aloneUs(feed)).toBeCloseTo(6_000, -1)
    expect(aloneUs(feed.pipe(50_000, 4_000, 2_000))).toBeCloseTo(6_000, -2)
  })

  test('believes what work takes in the long run, where nobody is kept out', () => {
    const feed = new Feed(make())
    feed.isFree = true
    feed.work(200, 10_000, { inFlight: 40 }).work(1_000, 20_000, { inFlight: 40 })
    expect(aloneUs(feed)).toBeLessThan(19_000)
    expect(aloneUs(feed.work(50_000, 20_000, { inFlight: 40 }))).toBeGreaterThan(19_000)
  })

  test('learns that work takes longer by now', () => {
    const feed = new Feed(make()).serve(5_000, 30, 12_000)
    expect(aloneUs(feed)).toBeLessThan(13_000)
    expect(aloneUs(feed.serve(50_000, 30, 36_000))).toBeGreaterThan(0.85 * 36_000)
  })
})
