import { expect, test } from 'vitest'
import { compileLimit } from '../limit.ts'
import { Beside } from '../stores/beside.ts'
import { memory } from '../stores/memory.ts'
import { blankOutcome } from '../stores/store.ts'
import { fakeClock } from '../testing/index.ts'
import { fleetOf, MOST_HEARD } from './fleet.ts'
import { type Exchange, MOST_UNTOLD, PromptRegions, type Total } from './merge.ts'

const clock = fakeClock(1_000_000)
const counter = { space: 's', policy: compileLimit('100/day') }

test('while nobody can be told, no more is kept to be told than fits: the oldest is forgotten', async () => {
  let isAway = true
  const told = new Map<string, Total>()
  const exchange: Exchange = {
    others: [],
    async publish(totals) {
      if (isAway) throw new Error('away')
      for (const total of totals) told.set(total.key, total)
    },
    turn: async () => undefined,
    read: async () => undefined,
    advance: async () => {},
    claim: async () => undefined,
    done: async () => {},
  }
  const counts = memory({ clock, maxBytes: 2 ** 30 })
  const beside = new Beside(counts, counts, () => true)
  const store = new PromptRegions(beside, exchange, { syncMs: 1_000, hold: 'sync', clock })
  const take = (key: string) => store.takeNow(counter, key, 1, blankOutcome())
  for (let i = 0; i < MOST_UNTOLD + 5; i++) expect(take(`k${i}`)).toBe(true)
  await store.sync()
  expect(take(`k${MOST_UNTOLD}`)).toBe(true)
  isAway = false
  await store.sync()
  expect(told.size).toBe(MOST_UNTOLD)
  expect([told.has('k4'), told.has('k5')]).toEqual([false, true])
  expect(told.get(`k${MOST_UNTOLD}`)?.units).toBe(2)
  await store.close()
})

test('of as many totals as fit it is known what is counted, of those that were heard of last', async () => {
  const board = {} as Parameters<typeof fleetOf>[0]
  const { claim } = fleetOf(board, 'hg', clock)
  const total = (actor: string, units: number) => ({ actor, space: 's', key: 'k', limit: '', untilMs: 9e15, units })
  const hear = (i: number, units: number) => claim('fleet', total(`a${i}`, units))
  await hear(0, 1)
  await hear(1, 1)
  await hear(0, 2)
  for (let i = 2; i < MOST_HEARD + 1; i++) await hear(i, 1)
  expect(await hear(0, 3)).toEqual({ from: 2, to: 3 })
  expect(await hear(MOST_HEARD, 3)).toEqual({ from: 1, to: 3 })
  expect(await hear(1, 3)).toEqual({ from: 0, to: 3 })
})
