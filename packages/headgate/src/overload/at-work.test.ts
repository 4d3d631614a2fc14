import { expect, test } from 'vitest'
import { AtWork } from './at-work.ts'

const SECOND_US = 1_000_000

/** So much work comes and ends at once, each time so much later. */
function endAll(atWork: AtWork, count: number, fromUs: number, stepUs: number): void {
  for (let i = 0; i < count; i++) {
    atWork.leave(atWork.enter())
    atWork.ended(fromUs + i * stepUs, SECOND_US)
  }
}

test('what stays while other work comes and goes for long enough takes no slot, and none is given back for it', () => {
  const atWork = new AtWork()
  const streams = [atWork.enter(), atWork.enter()]
  endAll(atWork, 100, 0, SECOND_US / 10)
  expect([atWork.count, atWork.held, atWork.taken]).toEqual([2, 2, 0])
  const work = atWork.enter()
  for (const stream of streams) atWork.leave(stream)
  expect([atWork.count, atWork.held, atWork.taken]).toEqual([1, 0, 1])
  atWork.leave(work)
  expect([atWork.count, atWork.held]).toEqual([0, 0])
})

test('nothing is held before its time', () => {
  const atWork = new AtWork()
  endAll(atWork, 20, 10 * SECOND_US, 0)
  atWork.enter()
  endAll(atWork, 1_000, 10 * SECOND_US, 999)
  expect(atWork.held).toBe(0)
})

test('where nothing ends, all is stuck, and nothing is left behind for more to come', () => {
  const atWork = new AtWork()
  endAll(atWork, 100, 0, SECOND_US / 10)
  for (let i = 0; i < 50; i++) atWork.enter()
  for (let second = 20; second < 200; second++) endAll(atWork, second % 60 === 0 ? 1 : 0, second * SECOND_US, 0)
  expect(atWork.taken).toBe(50)
})

test('a clock that is set back holds nothing for longer', () => {
  const atWork = new AtWork()
  endAll(atWork, 100, 1_000 * SECOND_US, SECOND_US / 10)
  atWork.enter()
  endAll(atWork, 100, 0, SECOND_US / 10)
  expect(atWork.held).toBe(1)
})
