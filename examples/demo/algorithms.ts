import { type Algorithm, createGate } from 'headgate'
import { fakeClock } from 'headgate/testing'
import { animate, paint, pause, plot, title, verdict } from './screen.ts'

const LIMIT = 20
const SLICES = 40
const SLICE_MS = 100
const WINDOW_MS = 1000

/** What each promises at most in any second, at 20/s. */
const promises: Record<Algorithm, number> = {
  gcra: 2 * LIMIT,
  'token-bucket': 2 * LIMIT,
  'leaky-bucket': 2 * LIMIT,
  'fixed-window': 2 * LIMIT,
  'sliding-window': 2 * LIMIT - 1,
  'sliding-log': LIMIT,
  'strict-window': LIMIT,
}
const algorithms = Object.keys(promises) as Algorithm[]

/** Calls per slice: silence, a rush on both sides of the full second, pressure, a break, and less than the limit. */
const asked = Array.from({ length: SLICES }, (_, slice) => {
  if (slice === 9 || slice === 10) return 25
  if (slice > 10 && slice < 24) return 6
  return slice >= 32 ? 1 + (slice % 2) : 0
})
const most = Math.max(...asked)

interface Run {
  readonly admitted: readonly number[]
  readonly worst: number
}

function run(algorithm: Algorithm): Run {
  const clock = fakeClock()
  const gate = createGate({ limit: `${LIMIT}/s`, algorithm, clock })
  const times: number[] = []
  const admitted = asked.map((calls, slice) => {
    const before = times.length
    for (let call = 0; call < calls; call++) {
      clock.set(slice * SLICE_MS + Math.floor((call * SLICE_MS) / calls))
      if (gate.take('client').ok) times.push(clock.now())
    }
    return times.length - before
  })
  const inWindowFrom = (from: number) => times.filter((at) => at >= from && at < from + WINDOW_MS).length
  return { admitted, worst: Math.max(...times.map(inWindowFrom)) }
}

export async function compareAlgorithms(): Promise<void> {
  await title(
    '1. Seven algorithms, the same traffic',
    '20/s each; a rush around a full second, then pressure; a column is 100 ms',
  )
  const runs = algorithms.map((algorithm) => ({ algorithm, ...run(algorithm) }))
  await animate(SLICES, (frame) => [
    `${'asked'.padEnd(15)}${plot(asked.slice(0, frame), most).padEnd(SLICES)}${figure(sum(asked.slice(0, frame)))}`,
    ...runs.flatMap(({ algorithm, admitted, worst }) => {
      const passed = admitted.slice(0, frame)
      const refused = passed.map((n, slice) => (asked[slice] as number) - n)
      const atWorst = frame === SLICES ? `, at worst ${worst} of ${promises[algorithm]}` : ''
      return [
        `${algorithm.padEnd(15)}${paint('green', plot(passed, most).padEnd(SLICES))}${figure(sum(passed))}${atWorst}`,
        `${paint('dim', 'refused'.padStart(14))} ${paint('red', plot(refused, most).padEnd(SLICES))}${figure(sum(refused))}`,
      ]
    }),
  ])
  console.log('\n"at worst": most admitted in any 1,000 ms, of what is promised at most.')
  console.log('The first three decide alike; fixed-window passes twice the limit at a boundary.')
  await pause(1200)
}

/** Fills a limit at uneven instants, then asks when the next call fits, and tries. */
export async function exactWaits(): Promise<void> {
  await title('3. The wait is true', 'a refused client comes back 1 ms too early, then in time')
  for (const algorithm of algorithms) {
    const clock = fakeClock(1_000_000_777)
    const gate = createGate({ limit: '7/s', algorithm, clock })
    for (let call = 0; gate.take('client').ok; call++) clock.advance(11 + 2 * call)
    const { retryAfterMs } = gate.take('client')
    clock.advance(retryAfterMs - 1)
    const early = gate.take('client').ok
    clock.advance(1)
    const inTime = gate.take('client').ok
    const wait = `${algorithm.padEnd(15)}told to wait ${String(retryAfterMs).padStart(3)} ms`
    console.log(
      `${wait}   after ${String(retryAfterMs - 1).padStart(3)}: ${verdict(early)}   after ${String(retryAfterMs).padStart(3)}: ${verdict(inTime)}`,
    )
    await pause(110)
  }
}

function figure(n: number): string {
  return String(n).padStart(5)
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, n) => total + n, 0)
}
