import { modeNames } from 'headgate/testing'
import { describe, expect, test } from 'vitest'
import { headgate } from '../../test/cli.ts'

const small = ['simulate', '--fleet', '--gateways', '4', '--rate', '2000', '--keys', '500', '--seconds', '0.5']

describe('headgate simulate --fleet', () => {
  test.each(modeNames)('says what a fleet with %s admits, and what the store has to do', async (mode) => {
    const { code, out } = await headgate([...small, '--mode', mode])
    expect(out).toMatch(new RegExp(`^mode +${mode}\nfleet +4 gateways`))
    expect(out).toMatch(/\nover the limit +\d+ units, at most \d+ /)
    expect(out).toMatch(/\nstore calls +[\d,]+, [\d,]+\/s/)
    expect(code).toBe(0)
  })

  test('prints the same JSON for the same seed, and other for another', async () => {
    const one = await headgate([...small, '--faults', 'some', '--seed', '5', '--json'])
    expect(JSON.parse(one.out)).toMatchObject({ mode: 'lease', seed: 5, gateways: 4, violations: [] })
    expect((await headgate([...small, '--faults', 'some', '--seed', '5', '--json'])).out).toBe(one.out)
    expect((await headgate([...small, '--faults', 'some', '--seed', '6', '--json'])).out).not.toBe(one.out)
  })

  test('leases ask the store less than asking each time does', async () => {
    const callsOf = async (mode: string) => {
      const { out } = await headgate([...small, '--limit', '100000/s', '--keys', '5', '--mode', mode, '--json'])
      return JSON.parse(out).store.questions as number
    }
    expect(await callsOf('lease')).toBeLessThan((await callsOf('central')) / 5)
  })

  test.each([
    [['simulate'], 'Give --fleet'],
    [['simulate', 'rules.yaml', '--fleet'], 'rules cannot be simulated yet'],
    [[...small, '--mode', 'leese'], '--mode is "leese": give one of central'],
    [[...small, '--gateways', '0'], '--gateways is "0": give a whole number from 1 to 200'],
    [[...small, '--keys', '1e3'], '--keys is "1e3"'],
    [[...small, '--seconds', 'x'], '--seconds is "x": give 0.01 to 3600'],
    [[...small, '--limit', '5/min'], '--limit is "5/min": give units per second'],
    [[...small, '--faults', 'many'], '--faults is "many": give none or some'],
    [[...small, '--rate', '1000000', '--seconds', '60'], 'at most 50000000 fit'],
  ])('%j is misuse, and says what to give', async (args, message) => {
    const { code, out, err } = await headgate(args)
    expect([code, out]).toEqual([2, ''])
    expect(err).toContain(message)
  })
})
