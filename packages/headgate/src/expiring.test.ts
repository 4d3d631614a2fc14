import { describe, expect, test } from 'vitest'
import { Expiring } from './expiring.ts'

interface Entry {
  readonly n: number
  readonly untilUs: number
}

describe('a map whose entries end', () => {
  test('has an entry until its end and not at it', () => {
    const map = new Expiring<Entry>()
    map.set('a', { n: 1, untilUs: 100 }, 0)
    expect(map.get('a', 99)).toEqual({ n: 1, untilUs: 100 })
    expect(map.get('b', 99)).toBeUndefined()
    expect(map.get('a', 100)).toBeUndefined()
    expect(map.size).toBe(0)
  })

  test('forgets what has ended also where nobody asks for it, one entry per look', () => {
    const map = new Expiring<Entry>()
    for (let i = 0; i < 1000; i++) map.set(`key ${i}`, { n: i, untilUs: 100 }, 0)
    map.set('lasting', { n: 1, untilUs: Infinity }, 0)
    map.get('nobody', 100)
    expect(map.size).toBe(1000)
    for (let i = 0; i < 1000; i++) map.get('nobody', 100)
    expect(map.size).toBe(1)
    expect(map.get('lasting', 100)?.n).toBe(1)
  })

  test('does not grow while as many end as come', () => {
    const map = new Expiring<Entry>()
    for (let us = 0; us < 10_000; us++) {
      map.set(`key ${us}`, { n: us, untilUs: us + 10 }, us)
      expect(map.size).toBeLessThan(40)
    }
  })

  test('goes round also while entries are set anew, deleted and emptied', () => {
    const map = new Expiring<Entry>()
    for (let round = 0; round < 5; round++) {
      for (const key of ['a', 'b', 'c']) map.set(key, { n: round, untilUs: 1000 }, round)
      map.delete('b')
      map.delete('b')
      expect([map.get('a', round)?.n, map.get('b', round), map.get('c', round)?.n, map.size]).toEqual([
        round,
        undefined,
        round,
        2,
      ])
      map.delete('a')
      map.delete('c')
      expect(map.get('a', round)).toBeUndefined()
    }
  })

  test('forgets all that has ended when asked to', () => {
    const map = new Expiring<Entry>()
    for (let i = 0; i < 100; i++) map.set(`key ${i}`, { n: i, untilUs: i }, 0)
    map.get('nobody', 0)
    map.forgetEnded(49)
    expect(map.size).toBe(50)
    expect(map.get('key 50', 49)?.n).toBe(50)
  })

  test('gives out whoever was set first, and tells of all who leave', () => {
    const gone: number[] = []
    const map = new Expiring<Entry>(({ n }) => gone.push(n))
    for (const [n, key] of ['a', 'b', 'c', 'a'].entries()) map.set(key, { n, untilUs: 100 }, 0)
    expect(map.shift()?.key).toBe('b')
    map.delete('a')
    expect(map.get('c', 100)).toBeUndefined()
    expect(map.shift()).toBeUndefined()
    expect(gone).toEqual([0, 1, 3, 2])
  })
})
