import { describe, expect, test } from 'vitest'
import { Inbox, MOST_BYTES, MOST_HELD, MOST_SHARE, Pool, SMALL } from './framing.ts'

const large = Buffer.alloc(2 ** 19)
const full = 'too many messages are on their way'

/** Connections that hold all that one may. */
function filled(whole: Pool, connections: number): Inbox[] {
  return Array.from({ length: connections }, () => {
    const pool = new Pool(MOST_SHARE, whole)
    const held = []
    while (!pool.isFull) {
      const inbox = new Inbox(pool)
      inbox.add(large.subarray(0, SMALL - 1000))
      held.push(inbox)
    }
    return held
  }).flat()
}

describe('messages on their way', () => {
  test('take no more than there is for all of them, and give it back', () => {
    const whole = new Pool()
    const held = filled(whole, 9)
    expect(whole.isFull).toBe(true)
    const another = new Inbox(new Pool(MOST_SHARE, whole))
    expect(() => another.add(large)).toThrow(full)
    for (const each of [another, ...held]) each.clear()
    expect(() => another.add(large)).not.toThrow()
  })

  test('have room while they are small, whatever the others take', () => {
    const whole = new Pool()
    filled(whole, 9)
    const small = new Inbox(new Pool(MOST_SHARE, whole))
    small.add(Buffer.alloc(SMALL / 2))
    expect(() => small.add(Buffer.alloc(SMALL / 2))).toThrow(full)
  })

  test('that come byte by byte take what their pieces take', () => {
    const whole = new Pool()
    const slow = Array.from({ length: 70 }, () => new Inbox(whole))
    const drip = () => {
      for (const inbox of slow) for (let i = 0; i < 5000; i++) inbox.add(Buffer.alloc(1))
    }
    expect(drip).toThrow(full)
    expect(70 * 5000).toBeLessThan(MOST_HELD)
  })

  test('are refused as soon as they say that they are too large', () => {
    const prefix = Buffer.from([0, 0, 0x10, 0, 0])
    expect(() => new Inbox(new Pool()).add(prefix)).not.toThrow()
    prefix[4] = 1
    expect(() => new Inbox(new Pool()).add(prefix)).toThrow(`at most ${MOST_BYTES} bytes`)
    prefix.set([0, 0, 0, 4, 1])
    expect(() => new Inbox(new Pool(), 1024).add(prefix)).toThrow('at most 1024 bytes')
  })
})
