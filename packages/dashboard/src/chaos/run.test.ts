import { protocols as allProtocols, modeNames, scenarioOf, simulate } from 'headgate/testing'
import { expect, test } from 'vitest'
import { modes, protocols } from './modes.ts'
import { runChaos } from './run.ts'

test('all modes and mistakes of the simulator are offered', () => {
  expect(Object.keys(modes).sort()).toEqual([...modeNames].sort())
  expect(Object.keys(protocols)).toEqual(allProtocols)
})

test.each([36, 29, 14, 2])('what is drawn goes as far beyond the limit as the judge says: seed %i', async (seed) => {
  for (const mode of ['lease', 'degraded-local', 'sync'] as const) {
    const run = await runChaos({ seed, mode, protocol: 'right' })
    const report = await simulate(scenarioOf(seed, mode))
    expect(run.report).toEqual(JSON.parse(JSON.stringify(report)))
    // The judge counts whole units in use, a drawing also parts of one that have leaked.
    const over = Math.max(0, run.most - run.limit.burst)
    expect(
      Math.abs(over - report.overAdmission.worst),
      `${mode}: ${over} against ${report.overAdmission.worst}`,
    ).toBeLessThanOrEqual(1)
    expect(run.faults.every(({ atMs }) => atMs >= 0 && atMs <= run.forMs)).toBe(true)
  }
})

test('a mistake in lending breaks a bound, in words', async () => {
  const { violations } = await runChaos({ seed: 3, mode: 'lease', protocol: 'debit-only' })
  expect(violations.join()).toMatch(/units, where at most \d+ may be/)
})
