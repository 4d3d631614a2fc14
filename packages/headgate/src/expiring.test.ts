import { describe, expect, test } from 'vitest'
import { Expiring } from './expiring.ts'

describe('a map whose entries end', () => {
  test('has an entry until its end and not at it', () => {
    const map = new Expiring<string>()
    map.set('a', 'x', 100)
    expect(map.get('a', 99)).toBe('x')
    expect(map.get('b', 99)).toBeUndefined()
    expect(map.get('a', 100)).toBeUndefined()
    expect(map.size).toBe(0)
  })

  test('forgets what has ended also where nobody asks for it, one entry per look', () => {
    const map = new Expiring<number>()
    for (let i = 0; i < 1000; i++) map.set(`key ${i}`, i, 100)
    map.set('lasting', 1, Infinity)
    map.get('nobody', 100)
    expect(map.size).toBe(1000)
    for (let i = 0; i < 1000; i++) map.get('nobody', 100)
    expect(map.size).toBe(1)
    expect(map.get('lasting', 100)).toBe(1)
  })

  test('does not grow while as many end as come', () => {
    const map = new Expiring<number>()
    for (let us = 0; us < 10_000; us++) {
      map.get('nobody', us)
      map.set(`key ${us}`, us, us + 10)
      expect(map.size).toBeLessThan(40)
    }
  })

  test('goes round also while entries are set anew, deleted and emptied', () => {
    const map = new Expiring<number>()
    for (let round = 0; round < 5; round++) {
      for (const key of ['a', 'b', 'c']) map.set(key, round, 1000)
      map.delete('b')
      map.delete('b')
      expect([map.get('a', round), map.get('b', round), map.get('c', round), map.size]).toEqual([
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
    const map = new Expiring<number>()
    for (let i = 0; i < 100; i++) map.set(`key ${i}`, i, i)
    map.get('nobody', 0)
    map.forgetEnded(49)
    expect(map.size).toBe(50)
    expect(map.get('key 50', 49)).toBe(50)
  })

  test('when full lets go whoever was set first, and says whom', () => {
    const dropped: [string, number][] = []
    const map = new Expiring<number>({ most: 3, onDropped: (key, value) => dropped.push([key, value]) })
    for (const [i, key] of ['a', 'b', 'c', 'a', 'd', 'e'].entries()) map.set(key, i, Infinity)
    expect(dropped).toEqual([
      ['b', 1],
      ['c', 2],
    ])
    map.delete('a')
    for (const [i, key] of ['f', 'g'].entries()) map.set(key, i, Infinity)
    expect(dropped.map(([key]) => key)).toEqual(['b', 'c', 'd'])
    expect(map.size).toBe(3)
  })

  test('lets go nobody who may stay while others have ended', () => {
    const dropped: string[] = []
    const map = new Expiring<number>({ most: 2, onDropped: (key) => dropped.push(key) })
    map.set('ended', 1, 100)
    map.set('lasting', 2, 1000)
    map.get('nobody', 100)
    map.set('new', 3, 1000)
    expect(dropped).toEqual([])
  })
})
