import fc from 'fast-check'
import { type DocumentNode, execute, parse } from 'graphql'
import { createGate, memory, type Store } from 'headgate'
import type { RedisStore } from 'headgate/redis'
import { beforeEach, describe, expect, test } from 'vitest'
import { resolvers, type World, worlds } from '../../test/graphql-world.ts'
import { canStartRedis } from '../../test/redis-server.ts'
import { patient, rig } from '../../test/redis-store.ts'
import { runs } from '../properties/support.ts'
import { Meter } from './meter.ts'

const bounds = { defaultListSize: 2, maxAliases: 10_000, maxFields: 100_000, maxTokens: 100_000 }
const FULL = 100
/** How an operation ends, and what it then has cost. */
const endings = ['answered', 'answered', 'aborted', 'failed'] as const
type Ending = (typeof endings)[number]

describe('in memory', () => addsUp(() => memory()))

describe.skipIf(!canStartRedis)('in Redis', () => {
  const own = rig()
  let store: RedisStore
  beforeEach(async () => {
    store = await own.store()
  })
  addsUp(() => store)
})

function addsUp(storeOf: () => Store): void {
  let keys = 0
  test('what is reserved, settled and given back adds up exactly, with operations side by side that end in every way', async () => {
    let [refused, ran] = [0, 0]
    const many = fc.array(fc.tuple(worlds, fc.constantFrom(...endings)), { minLength: 2, maxLength: 12 })
    await fc.assert(
      fc.asyncProperty(many, async (all) => {
        // A day's window does not grow while this runs, so what is left is what was not charged.
        const limit = { limit: FULL, per: '1day', algorithm: 'fixed-window', align: 'first-hit' } as const
        const gate = createGate({ store: storeOf(), limit, ...patient })
        const ann = `ann-${keys++}`
        const meter = new Meter({ gate, caller: () => ann, ...bounds })
        const costs = await Promise.all(all.map(([world, ending]) => operate(meter, world, ending)))
        for (const cost of costs) cost === undefined ? refused++ : ran++
        const spent = costs.reduce<number>((sum, cost) => sum + (cost ?? 0), 0)
        expect((await gate.peek(ann)).remaining).toBe(Math.max(0, FULL - spent))
      }),
      runs(40),
    )
    expect(ran).toBeGreaterThan(20)
    expect(refused).toBeGreaterThan(0)
  })
}

/** What the operation was charged in the end; undefined if it was refused. */
async function operate(meter: Meter<object>, world: World, ending: Ending): Promise<number | undefined> {
  const { schema, query, variables } = world
  const document: DocumentNode = parse(query)
  const visit = await meter.take({ schema, document, variables, operationName: undefined, context: {} })
  if (!visit.decision.ok) return undefined
  if (ending === 'aborted') {
    visit.end()
    return visit.requested
  }
  const { resolve, count } = resolvers(world)
  const result = await execute({ schema, document, variableValues: variables, fieldResolver: resolve })
  const failed = ending === 'failed' ? { data: null, errors: [new Error('out of order')] } : result
  visit.finish(failed as typeof result)
  await visit.settled
  // Once is enough: a server that tells twice changes nothing.
  visit.finish(result)
  return ending === 'failed' ? visit.requested : count() + 1
}
