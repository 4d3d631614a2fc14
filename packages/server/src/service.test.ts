import { memory } from 'headgate'
import { describe, expect, test } from 'vitest'
import { parseRules } from './config/load.ts'
import { Service } from './service.ts'

const rulesOf = (limits: string) => parseRules(`limits: { ${limits} }`).rules

function serviceWith(limits: string) {
  const service = new Service(rulesOf(limits), memory())
  const skipped: string[] = []
  service.watch({ onOverrideSkipped: ({ id }) => skipped.push(id) })
  const limitOf = async () => (await service.inspect('ip', '192.0.2.1')).limits[0]?.limit
  return { service, skipped, limitOf }
}

const exception = { id: 'o1', limit: 'ip', key: '192.0.2.1', reason: '', by: 'ann', untilMs: Date.now() + 3_600_000 }

/** How long it takes to know so many blocks. */
function knowing(blocks: number): number {
  const { service } = serviceWith('ip: { limit: 5/min, by: [ip] }')
  const startMs = performance.now()
  for (let i = 0; i < blocks; i++) service.knowBlock({ ...exception, id: `b${i}`, key: `k${i}` })
  expect(service.blocks).toHaveLength(blocks)
  return performance.now() - startMs
}

describe('blocks', () => {
  test('of any number are known in a time that grows no faster than they do', () => {
    knowing(2_000)
    // Were each compared with all others, it would be a hundred times as much.
    expect(knowing(20_000)).toBeLessThan(50 * Math.max(5, knowing(2_000)))
  })

  test('for the same key take the place of earlier ones, however the key is written', async () => {
    const { service } = serviceWith('ip: { limit: 5/min, by: [ip] }')
    for (const [id, key] of [
      ['a', '1'],
      ['b', 1],
      ['c', ['1']],
    ] as const)
      service.knowBlock({ ...exception, id, key })
    expect(service.blocks.map(({ id }) => id)).toEqual(['c'])
    expect(service.exceptionsOf('ip', '1').block?.id).toBe('c')
    expect(service.exceptionsOf('ip', ['1', '2'])).toEqual({})
    await service.reset('ip', 1)
    expect(service.blocks).toEqual([])
  })
})

describe('an override', () => {
  test('outlives its limit, and holds again once that is back', async () => {
    const { service, skipped, limitOf } = serviceWith('ip: { limit: 5/min, by: [ip] }')
    service.override({ ...exception, to: '9/min' })
    service.replace(rulesOf('other: { limit: 5/min, by: [ip] }'), 'test')
    expect([service.overrides.length, skipped]).toEqual([1, []])
    service.replace(rulesOf('ip: { limit: 5/min, by: [ip] }'), 'test')
    expect(await limitOf()).toBe(9)
  })

  test('that was given elsewhere waits for its limit', async () => {
    const { service, limitOf } = serviceWith('other: { limit: 5/min, by: [ip] }')
    service.knowOverride({ ...exception, to: '9/min' })
    service.replace(rulesOf('ip: { limit: 5/min, by: [ip] }'), 'test')
    expect(await limitOf()).toBe(9)
  })

  test('that does not fit new rules keeps nobody from them: it is skipped, told of, and can be lifted', async () => {
    const { service, skipped, limitOf } = serviceWith('ip: { atOnce: 5, by: [ip] }')
    service.override({ ...exception, to: { atOnce: 9 } })
    service.replace(rulesOf('ip: { limit: 5/min, by: [ip] }'), 'test')
    expect([await limitOf(), skipped]).toEqual([5, ['o1']])
    service.replace(rulesOf('ip: { atOnce: 5, by: [ip] }'), 'test')
    expect(await limitOf()).toBe(9)
    expect(service.liftOverride('o1')).toBe(true)
    expect(await limitOf()).toBe(5)
  })
})
