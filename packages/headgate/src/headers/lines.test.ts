import { describe, expect, test } from 'vitest'
import { randomBelow, seed } from '../../test/random.ts'
import { type HeaderOption, type HeaderState, headerWriter, type Told } from './format.ts'

/** What the fields are, each as a line. */
function written(option: HeaderOption, told: Told): string {
  let lines = ''
  headerWriter(option).write(copyOf(told), (name, value) => {
    lines += `${name}: ${value}\r\n`
  })
  return lines
}

/** Writers may put the states in order. */
function copyOf(told: Told): Told {
  return { ...told, states: [...told.states] }
}

function state(name: string, more: Partial<HeaderState> = {}): HeaderState {
  const times = { resetAfterMs: 60_000, resetAtS: 1_800_000_000, windowMs: 60_000, growAfterMs: 600 }
  return { name, ok: true, limit: 100, remaining: 99, inFlight: false, ...times, ...more }
}

const only = (each: HeaderState): Told => ({ limit: each.name, retryAfterMs: undefined, states: [each] })

describe(`lines of a head, seed ${seed}`, () => {
  const styles: HeaderOption[] = [['ietf', 'legacy'], 'ietf', 'draft-7', 'draft-6', ['draft-6', 'legacy'], 'none']

  test.each(styles.map((option) => [option]))('tell what the fields of %j tell, response after response', (option) => {
    const below = randomBelow(seed)
    const { lines } = headerWriter(option)
    const pick = <T>(...values: T[]): T => values[below(values.length)] as T
    const numbers = () => pick(0, 1, 9, 1_000, below(1e9), 70_000_000_001, 2 ** 53)
    const limits = Array.from({ length: 12 }, (_, i) => ({
      name: pick('default', 'a', `of ${i}`, 'at 70000000002'),
      limit: pick(10, 100, 70_000_000_000, 1e15, Infinity),
      windowMs: pick(1, 60_000, 86_400_000),
      inFlight: below(8) === 0,
    }))
    for (let i = 0; i < 1_000; i++) {
      const shown = Array.from({ length: below(20) === 0 ? 10 : below(4) }, () => pick(...limits))
      for (let again = below(5); again >= 0; again--) {
        const states = shown.map((limit) => ({
          ...limit,
          ok: below(4) > 0,
          remaining: numbers(),
          resetAfterMs: numbers(),
          resetAtS: numbers(),
          growAfterMs: pick(numbers(), numbers(), Infinity),
        }))
        const told = { limit: pick('a', 'default'), retryAfterMs: pick(undefined, undefined, numbers()), states }
        expect(lines?.(copyOf(told))).toBe(written(option, told))
      }
    }
  })

  test('follow a limit that is another by now', () => {
    const { lines } = headerWriter()
    const changes: Partial<HeaderState>[] = [
      ...[{}, { limit: 101 }, { windowMs: 1000 }, { inFlight: true }, { growAfterMs: Infinity }],
      ...[{ remaining: 3 }, { resetAtS: 1_900_000_000 }, { growAfterMs: 5_000 }],
    ]
    for (let turn = 0; turn < 3; turn++)
      for (const change of changes) {
        const told = only(state('default', change))
        for (let again = 0; again < 3; again++) expect(lines?.(told)).toBe(written(['ietf', 'legacy'], told))
      }
  })

  test('are right for more kinds of responses than are remembered', () => {
    const { lines } = headerWriter()
    for (let i = 0; i < 100; i++) {
      const told = only(state(`limit-${i % 40}`, { remaining: i }))
      for (let again = 0; again < 3; again++) expect(lines?.(told)).toBe(written(['ietf', 'legacy'], told))
    }
  })

  test('are not made of fields of your own, which may need a check', () => {
    expect(headerWriter(['ietf', () => ({ 'X-Mine': 'yes' })]).lines).toBeUndefined()
  })
})
