import { describe, expect, test } from 'vitest'
import { createGate } from './gate.ts'
import type { KeyPart } from './gate-types.ts'
import { encodeKey, encodeParts, keyParts } from './key.ts'
import { memory } from './stores/memory.ts'
import type { Store } from './stores/store.ts'
import { fakeClock } from './testing/fake-clock.ts'

const START_MS = 1_800_000_000_000

/** What services use of a gate that is no part of what users see. */
interface Keys {
  takeKeys(parts: readonly KeyPart[]): {
    readonly ok: boolean
    readonly violated: string[]
    readonly limits: {
      readonly name: string
      readonly ok: boolean
      readonly limit: number
      readonly remaining: number
    }[]
    refund(): void
  }
  changeKeys(parts: readonly Omit<KeyPart, 'verb' | 'observe' | 'slack'>[]): void
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

  test('an empty one is counted as any other, whatever happens to others in between', () => {
    const { gate: made, keys } = gate()
    const nobody = { ...ann, key: '' }
    const passed = (part: KeyPart) => Array.from({ length: 40 }, () => keys.takeKeys([part]).ok).filter(Boolean).length
    expect([passed(nobody), passed(ann)]).toEqual([3, 3])
    made.reset('user', 'ann')
    expect([passed(nobody), passed(ann)]).toEqual([0, 3])
    keys.changeKeys([{ ...nobody, cost: -1 }])
    expect([keys.takeKeys([nobody]).ok, keys.takeKeys([nobody]).ok]).toEqual([true, false])
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

describe('a look with some slack', () => {
  test('goes past the limit by so much, and tells of the limit as it is', () => {
    const { gate: made, keys } = gate()
    const look = (key: string, cost = 1, slack = cost) => keys.takeKeys([{ ...ann, key, verb: 'peek', cost, slack }])
    keys.takeKeys([{ ...ann, cost: 3 }])
    expect(look('ann')).toMatchObject({ ok: true, limits: [{ limit: 3, remaining: 0 }] })
    keys.changeKeys([ann])
    expect(look('ann')).toMatchObject({ ok: false, limits: [{ limit: 3, remaining: 0 }] })
    expect(look('bob')).toMatchObject({ ok: true, limits: [{ limit: 3, remaining: 3 }] })
    made.override('user', 'bob', '1/h', 60_000)
    expect(look('bob')).toMatchObject({ ok: true, limits: [{ limit: 1, remaining: 1 }] })
    keys.changeKeys([{ ...ann, key: 'bob', cost: 1 }])
    expect(look('bob')).toMatchObject({ ok: true, limits: [{ limit: 1, remaining: 0 }] })
    keys.changeKeys([{ ...ann, key: 'bob', cost: 1 }])
    expect(look('bob').ok).toBe(false)
    made.override('user', 'bob', 'unlimited', 60_000)
    expect(look('bob').ok).toBe(true)
  })

  test('of cost 0 tells what would be left if so much were given back', () => {
    const { keys } = gate()
    const back = (slack: number) => keys.takeKeys([{ ...ann, verb: 'peek', cost: 0, slack }]).limits[0]?.remaining
    keys.changeKeys([{ ...ann, cost: 10 }])
    expect([back(5), back(7), back(9), back(12)]).toEqual([0, 0, 2, 5])
  })
})

describe('on a store that takes time', () => {
  interface SlowKeys {
    takeKeys(parts: readonly KeyPart[], withinMs?: number): Promise<ReturnType<Keys['takeKeys']>>
  }

  function slow(answer: (inner: Store, ...asked: Parameters<Store['run']>) => ReturnType<Store['run']>) {
    const clock = fakeClock(START_MS)
    const inner = memory({ clock })
    const store: Store = { clock, run: async (...asked) => answer(inner, ...asked) }
    const options = { algorithm: 'fixed-window', cost: () => 1 } as const
    const made = createGate({
      store,
      timeoutMs: 50,
      limits: { user: { ...options, limit: '3/h', by: (user: string) => user }, all: { ...options, limit: '5/h' } },
    })
    return { clock, gate: made, keys: made as unknown as SlowKeys }
  }

  test('what is watched only refuses nobody while that fails, and the others are charged', async () => {
    const { keys } = slow(() => Promise.reject(new Error('connection lost')))
    const watched = { ...ann, cost: 4, observe: true }
    const told = async () => {
      const { ok, violated, limits } = await keys.takeKeys([watched, all])
      return [ok, violated, limits[1]?.remaining]
    }
    expect([await told(), await told()]).toEqual([
      [true, [], 4],
      [true, [], 3],
    ])
    const look = { ...ann, verb: 'peek', cost: 1, slack: 1 } as const
    expect((await keys.takeKeys([look])).limits).toMatchObject([{ limit: 3, remaining: 3 }])
  })

  test('who is in a hurry is answered in time, which tells nobody else that it is down', async () => {
    const waiting: (() => void)[] = []
    const {
      clock,
      gate: made,
      keys,
    } = slow(async (inner, ...asked) => {
      await new Promise<void>((resolve) => waiting.push(resolve))
      return inner.run(...asked)
    })
    const turns = async () => {
      for (let turn = 0; turn < 50; turn++) await Promise.resolve()
    }
    const hurried = async (answerAtMs: number) => {
      const decision = keys.takeKeys([ann], 12)
      await turns()
      clock.advance(12)
      const { degraded } = (await decision) as unknown as { degraded: unknown }
      expect(degraded).toBe('local')
      clock.advance(answerAtMs - 12)
      await turns()
      while (waiting.length > 0) {
        waiting.shift()?.()
        await turns()
      }
    }
    for (let i = 0; i < 20; i++) await hurried(40)
    expect([made.health().state, made.health().failures]).toEqual(['up', {}])
    // What was charged there meanwhile is given back: it was counted here.
    const look = made.peekKey('user', 'ann')
    await turns()
    waiting.shift()?.()
    expect((await look).limits[0]?.remaining).toBe(3)
    // Whoever waits as long as the gate says would have found it down.
    for (let i = 0; i < 20 && made.health().state === 'up'; i++) await hurried(60)
    expect(made.health()).toMatchObject({ state: 'down' })
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
