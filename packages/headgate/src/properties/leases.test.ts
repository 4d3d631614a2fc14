import { describe, expect, test } from 'vitest'
import { seed } from '../../test/random.ts'
import type { Policy } from '../algorithms/algorithm.ts'
import { compileLimit } from '../limit.ts'
import { excess } from '../testing/simulation/meter.ts'
import { mostInPeriod, type Seen, type Weather, World } from './lease-world.ts'
import { runs } from './support.ts'

const LIFE_US = 1_000_000
const policies: Record<string, Policy> = {
  gcra: compileLimit('100/s burst 100'),
  'gcra, uneven': compileLimit({ limit: 700, per: '9s', burst: 150 }),
  'fixed-window': compileLimit({ limit: 200, per: '2s', algorithm: 'fixed-window' }),
  'first-hit': compileLimit({ limit: 150, per: '1500ms', algorithm: 'fixed-window', align: 'first-hit' }),
  'sliding-window': compileLimit({ limit: 200, per: '2s', algorithm: 'sliding-window' }),
  'strict-window': compileLimit('600/6s strict'),
}
/** Requests per second, of 2 units each on average: less than the limits let through, nearly that, and far more. */
const RATES = [40, 60, 200]
const weather = { nodes: 3, forUs: 20_000_000, lifeUs: LIFE_US, share: 0.5, mostCost: 3, faults: true }

async function worlds(count: number, change: Partial<Weather> & Pick<Weather, 'policy'>): Promise<Seen[]> {
  const all: Seen[] = []
  for (let n = 0; n < runs(count).numRuns; n++)
    all.push(await new World({ ...weather, rate: RATES[n % 3] as number, seed: seed * 31 + n * 7919, ...change }).run())
  return all
}

const sum = (worlds: readonly Seen[], of: (seen: Seen) => number) => worlds.reduce((total, seen) => total + of(seen), 0)

describe.each(Object.entries(policies))(`leases of %s (HEADGATE_SEED=${seed})`, (name, policy) => {
  test('let through nothing that the limit, asked each time, would have refused, whatever fails', async () => {
    const seen = await worlds(30, { policy })
    for (const { admitted, mostHeld, worst, mostOut } of seen) {
      // Whose windows start with the first hit would start them elsewhere.
      if (name === 'first-hit') expect(mostInPeriod(admitted)).toBeLessThanOrEqual(policy.limit)
      else expect(excess(policy, admitted)).toBe(0)
      // Nobody holds what whoever lends has not counted, and with what is left that is never more than the limit.
      expect(mostHeld).toBeLessThanOrEqual(0)
      expect(worst).toBeLessThanOrEqual(0)
      expect(mostOut).toBeLessThanOrEqual(policy.limit / 2)
    }
    // All of it was put to the test.
    expect(sum(seen, ({ local }) => local)).toBeGreaterThan(1000)
  })

  test('take one request in many to decide, and let through what asking each time would', async () => {
    // Several, as one alone may have a bad day.
    const seen = await worlds(10, { policy, faults: false, rate: 60, mostCost: 1, nodes: 1 })
    const asked = sum(seen, (each) => each.asked)
    expect(sum(seen, ({ admitted }) => admitted.length)).toBeGreaterThan(0.9 * asked)
    expect(sum(seen, ({ messages }) => messages)).toBeLessThan(asked / 4)
  })
})

describe(`leases and a failover to a copy that is behind (HEADGATE_SEED=${seed})`, () => {
  const policy = policies.gcra as Policy

  test('let through no more than what was taken or lent and forgotten', async () => {
    const seen = await worlds(20, { policy, failovers: 'bounded' })
    for (const { admitted, forgotten, forgottenLoans } of seen)
      expect(excess(policy, admitted)).toBeLessThanOrEqual(forgotten + forgottenLoans)
    expect(Math.max(...seen.map(({ admitted }) => excess(policy, admitted)))).toBeGreaterThan(0)
    expect(sum(seen, ({ forgottenLoans }) => forgottenLoans)).toBeGreaterThan(0)
  })

  test("are forgotten at nobody's risk if they are only spent once the copy knows of them", async () => {
    const seen = await worlds(20, { policy, failovers: 'safe' })
    for (const { admitted, forgotten } of seen) expect(excess(policy, admitted)).toBeLessThanOrEqual(forgotten)
    expect(sum(seen, ({ local }) => local)).toBeGreaterThan(300)
  })
})
