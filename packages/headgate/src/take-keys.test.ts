import { describe, expect, test } from 'vitest'
import { createGate } from './gate.ts'
import type { KeyPart } from './gate-types.ts'
import { encodeKey, encodeParts, keyParts } from './key.ts'
import { memory } from './stores/memory.ts'
import { fakeClock } from './testing/fake-clock.ts'

const START_MS = 1_800_000_000_000

/** What services use of a gate that is no part of what users see. */
interface Keys {
  takeKeys(parts: readonly KeyPart[]): {
    readonly ok: boolean
    readonly violated: string[]
    readonly limits: { readonly name: string; readonly ok: boolean; readonly remaining: number }[]
    refund(): void
  }
  changeKeys(parts: readonly Omit<KeyPart, 'verb' | 'observe'>[]): void
}

function gate() {
  const clock = fakeClock(START_MS)
  const options = { algorithm: 'fixed-window', cost: () => 1 } as const
  const made = createGate({
    store: memory({ clock }),
    limits: {
      user: { ...options, limit: '3/h', by: (user: string) => user },
      all: { ...options, limit: '5/h' },
    },
  })
  const keys = made as unknown as Keys
  const left = (key: string) => made.peekKey('user', key).limits[0]?.remaining
  return { clock, gate: made, keys, left }
}

const ann = { limit: 'user', key: 'ann', cost: 1 }
const all = { limit: 'all', cost: 1 }

describe('keys of several limits', () => {
  test('are one decision, in which a limit stands as often as it has keys', () => {
    const { keys, left } = gate()
    const { ok, limits } = keys.takeKeys([ann, { ...ann, key: 'bob', cost: 2 }, all, ann])
    expect(ok).toBe(true)
    expect(limits.map(({ name, remaining }) => [name, remaining])).toEqual([
      ['user', 1],
      ['user', 1],
      ['all', 4],
      ['user', 1],
    ])
    expect(keys.takeKeys([ann, ann, all])).toMatchObject({ ok: false, violated: ['user'] })
    expect([left('ann'), left('bob')]).toEqual([1, 1])
  })

  test('are given back each at its own cost', () => {
    const { keys, left } = gate()
    keys.takeKeys([ann, { ...ann, key: 'bob', cost: 3 }]).refund()
    expect([left('ann'), left('bob')]).toEqual([3, 3])
  })

  test('may be looked at, watched only, or judged by another limit on the same counts', () => {
    const { keys, left } = gate()
    expect(keys.takeKeys([{ ...ann, verb: 'peek', cost: 3 }]).ok).toBe(true)
    expect(left('ann')).toBe(3)
    expect(keys.takeKeys([{ ...ann, cost: 4, observe: true }, all])).toMatchObject({ ok: true, violated: [] })
    expect(keys.takeKeys([{ ...ann, cost: 4, to: '6/h' }])).toMatchObject({ ok: true, limits: [{ remaining: 2 }] })
    expect(left('ann')).toBe(0)
  })

  test('a key with an override has that, whatever is brought along', () => {
    const { gate: made, keys } = gate()
    made.override('user', 'ann', '1/h', 60_000)
    expect(keys.takeKeys([{ ...ann, cost: 2, to: '9/h' }]).ok).toBe(false)
  })

  test('of a limit that is not there are refused as misuse', () => {
    expect(() => gate().keys.takeKeys([{ limit: 'usr', key: 'ann', cost: 1 }])).toThrow('HG_LIMIT_UNKNOWN')
  })
})

describe('changes of keys', () => {
  test('book past the limit, and give back of what counts now, never more', () => {
    const { keys, left, clock } = gate()
    keys.changeKeys([{ ...ann, cost: 10 }])
    expect(left('ann')).toBe(0)
    keys.changeKeys([{ ...ann, cost: -8 }])
    expect(left('ann')).toBe(1)
    keys.changeKeys([{ ...ann, cost: -100 }, all])
    expect(left('ann')).toBe(3)
    keys.takeKeys([ann])
    clock.advance(3_600_000)
    keys.takeKeys([ann, ann])
    keys.changeKeys([{ ...ann, cost: -1 }])
    expect(left('ann')).toBe(2)
  })
})

test('keys of parts that may be empty are told apart, and from all others', () => {
  const texts = [[''], ['', ''], ['a', ''], ['', 'a'], ['a'], ['a', 'b'], ['ab'], ['\u0000*']].map(encodeParts)
  expect(new Set(texts).size).toBe(texts.length)
  expect(texts.map(keyParts)).toEqual([[''], ['', ''], ['a', ''], ['', 'a'], ['a'], ['a', 'b'], ['ab'], ['\u0000*']])
  expect(encodeParts(['a', 'b'])).toBe(encodeKey(['a', 'b'], 'any'))
})
