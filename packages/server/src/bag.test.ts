import { expect, test } from 'vitest'
import { randomBy } from '../../headgate/test/random.ts'
import { Bag, type Bagged } from './bag.ts'

class Thing implements Bagged {
  place = -1
}

test('a bag holds what was put in and not taken out, in whichever order that happens', () => {
  const bag = new Bag<Thing>()
  const model = new Set<Thing>()
  const things = Array.from({ length: 20 }, () => new Thing())
  const random = randomBy(20261116)
  for (let i = 0; i < 5_000; i++) {
    const thing = things[Math.floor(random() * things.length)] as Thing
    if (model.has(thing) || random() < 0.1) {
      bag.delete(thing)
      model.delete(thing)
    } else {
      bag.add(thing)
      model.add(thing)
    }
    expect(bag.size).toBe(model.size)
    expect(new Set(bag.all())).toEqual(model)
  }
})

test('a bag may change while all in it are looked at', () => {
  const bag = new Bag<Thing>()
  for (let i = 0; i < 5; i++) bag.add(new Thing())
  for (const each of bag.all()) bag.delete(each)
  expect(bag.size).toBe(0)
})
