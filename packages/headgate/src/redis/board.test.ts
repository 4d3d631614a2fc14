import { describe, expect, test } from 'vitest'
import { seed } from '../../test/random.ts'
import { canStartRedis } from '../../test/redis-server.ts'
import { rig } from '../../test/redis-store.ts'
import { until } from '../../test/until.ts'
import { boardVia, Noticeboard, type Post, rollVia } from '../testing/simulation/noticeboard.ts'
import { Random } from '../testing/simulation/random.ts'
import { type Board, boardOf } from './board.ts'
import { connectionOf } from './connection.ts'
import { rollOf } from './roll.ts'

const HOUR_MS = 3_600_000

/** One that is in this process. */
function nearby(): Post {
  const board = new Noticeboard()
  return async (act) => act(board, Date.now())
}

describe.skipIf(!canStartRedis)(`what processes leave for each other in Redis (HEADGATE_SEED=${seed})`, () => {
  const own = rig()
  const boardIn = async () => boardOf(connectionOf(await own.client()))

  /** What a step says, with places in a stream instead of ids, which tell the time. */
  function stepsOf(board: Board): (random: Random, untilMs: number) => Promise<unknown> {
    const ids = ['0-0']
    const page = async (stream: string, after: string) => {
      const { entries, last } = await board.readAfter(stream, after)
      for (const [id] of entries) if (!ids.includes(id)) ids.push(id)
      return { said: entries.map(([id, ...rest]) => [ids.indexOf(id), ...rest]), last: last === '' ? last : 'an id' }
    }
    return async (random, untilMs) => {
      const kind = random.below(8)
      const [who, units] = [`p${random.below(3)}`, random.between(1, 50)]
      const claim = { from: random.below(3) * 10, to: units }
      if (kind < 2) return board.append('s', `${units}`, who)
      if (kind === 2) return page('s', ids[random.below(ids.length)] as string)
      if (kind === 3) return board.turn('reader', 'read', random.chance(0.9) ? 'p0' : who)
      if (kind === 4) return board.advance('read', `${units}-0`)
      if (kind < 7) return board.claim('seen', untilMs, who, units)
      const known = await board.claim('seen', untilMs, who, 0)
      return board.done('seen', who, random.chance(0.7) ? (known ?? claim) : claim)
    }
  }

  test('is read and changed as on the board of a simulated server', async () => {
    const [real, simulated] = [stepsOf(await boardIn()), stepsOf(boardVia(nearby()))]
    const untilMs = Date.now() + HOUR_MS
    const [one, two] = [new Random(seed), new Random(seed)]
    for (let step = 0; step < 500; step++)
      expect([step, await real(one, untilMs)]).toEqual([step, await simulated(two, untilMs)])
  })

  test('counts no more once its time is over', async () => {
    for (const board of [await boardIn(), boardVia(nearby())]) {
      expect(await board.claim('seen', Date.now() + HOUR_MS, 'p', 5)).toEqual({ from: 0, to: 5 })
      expect(await board.claim('seen', Date.now() - 1, 'p', 5)).toBeUndefined()
    }
  })

  test('is somebody else’s to read once whoever had the turn has been silent for long enough', async () => {
    const board = await boardIn()
    expect(await board.turn('reader', 'read', 'a')).toBe('0-0')
    expect(await board.turn('reader', 'read', 'b')).toBeUndefined()
    await own.server.call('PEXPIRE', 'reader', '1')
    await until('the turn is over', async () => (await board.turn('reader', 'read', 'b')) ?? undefined)
    expect(await board.turn('reader', 'read', 'a')).toBeUndefined()
  })

  test('says how many are alive as a simulated server does', async () => {
    const [connection, post] = [connectionOf(await own.client()), nearby()]
    const ids = [0, 1, 2, 3]
    const real = ids.map(() => rollOf(connection, 'hg', HOUR_MS))
    const simulated = ids.map((id) => rollVia(post, 'hg:~nodes', String(id), HOUR_MS))
    const random = new Random(seed)
    for (let step = 0; step < 60; step++) {
      const id = random.below(ids.length)
      const verb = random.chance(0.7) ? 'beat' : 'leave'
      const [one, two] = [await real[id]?.[verb](), await simulated[id]?.[verb]()]
      expect([step, one]).toEqual([step, two])
    }
  })
})
